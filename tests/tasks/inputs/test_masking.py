"""What is hidden: how much, never what is special, whole words, 80/10/10, the same every time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.tasks.inputs.masking import MaskedRows, PieceInfo, mask_tokens
from jumok.tasks.recipe.tables import MaskingConfig
from jumok.text.ragged import Ragged
from tests.tasks.tiny_jobs import review_vocabulary

V, SPECIAL, MASK = 100, 10, 6
PIECES = PieceInfo(
    np.arange(V) >= SPECIAL, (np.arange(V) >= SPECIAL) & (np.arange(V) % 3 == 0), MASK
)
CLS = 5


def hidden(rows: list[list[int]], seed: int = 0, **config: object) -> MaskedRows:
    masking = MaskingConfig(**config)  # type: ignore[arg-type]
    return mask_tokens(Ragged.from_lists(rows), PIECES, masking, np.random.default_rng(seed))


def words(row: list[int]) -> list[list[int]]:
    """The places of the words of a row, one after the other: the rule, in plain Python."""
    found: list[list[int]] = []
    fresh = True
    for place, piece in enumerate(row):
        if piece < SPECIAL:
            fresh = True
            continue
        if fresh or PIECES.starts_word[piece]:
            found.append([])
        found[-1].append(place)
        fresh = False
    return found


rows = st.lists(
    st.lists(st.integers(0, V - 1), max_size=12).map(lambda row: [CLS, *row]), max_size=8
)


@given(rows=rows, seed=st.integers(0, 99), share=st.floats(0.05, 0.9), whole=st.booleans())
def test_what_is_hidden(rows: list[list[int]], seed: int, share: float, whole: bool) -> None:
    masked = hidden(rows, seed, share=share, whole_words=whole)
    assert masked.rows.offsets.tolist() == Ragged.from_lists(rows).offsets.tolist()
    for number, row in enumerate(rows):
        here = slice(*masked.rows.offsets[number : number + 2])
        chosen, read = masked.mask[here], masked.rows.ids[here]
        assert masked.labels[here].tolist() == row
        ordinary = np.array(row) >= SPECIAL
        assert not chosen[~ordinary].any()  # what is special is never chosen
        assert (read == row)[~chosen].all()  # and what is not chosen stays
        assert ((read == MASK) | (read >= SPECIAL))[chosen].all()  # never another special piece
        budget = max(1, int(share * ordinary.sum() + 0.5)) if ordinary.any() else 0
        if not whole:
            assert chosen.sum() == budget
            continue
        taken = [word for word in words(row) if chosen[word].any()]
        assert all(chosen[word].all() for word in taken)  # a word is hidden whole or not at all
        assert bool(taken) == bool(budget)
        excess = sum(map(len, taken)) - budget
        assert excess <= max(map(len, taken), default=0) / 2 or len(taken) == 1


def test_eight_of_ten_are_masks_one_another_and_one_the_same() -> None:
    masked = hidden([[CLS, *range(10, 100)] * 20] * 20, share=0.5)
    read, truth = masked.rows.ids[masked.mask], masked.labels[masked.mask]
    n = len(read)
    assert n == 18_000
    bound = 4 * (0.25 / n) ** 0.5  # four standard errors and more
    assert abs((read == MASK).mean() - 0.8) < bound
    others = read[(read != MASK) & (read != truth)]
    assert abs(len(others) / n - 0.1 * 89 / 90) < bound  # one of 90 is the same by chance
    counts = np.bincount(others, minlength=V)[SPECIAL:]
    assert counts.min() > 0  # every ordinary piece comes in another's place
    assert counts.max() < 3 * counts.mean()


def test_every_token_is_as_likely_to_be_hidden() -> None:
    masked = hidden([[CLS, *range(20, 40)]] * 4_000, share=0.25)
    often = masked.mask.reshape(4_000, 21)[:, 1:].mean(0)
    np.testing.assert_allclose(often, 0.25, atol=4 * (0.25 * 0.75 / 4_000) ** 0.5)


def test_on_average_whole_words_are_no_larger_a_share() -> None:
    """Words of one to four pieces, a third of the tokens: what is beyond and short evens out."""
    row = [CLS, 12, 13, 14, 15, 18, 21, 22, 23, 25, 27, 28, 30, 31, 32, 33, 36]
    masked = hidden([row] * 2_000, share=0.3, whole_words=True)
    share = masked.mask.sum() / (2_000 * (len(row) - 1))
    assert abs(share - 0.3) < 0.03


def test_the_same_numbers_hide_the_same() -> None:
    rows = [[CLS, *range(10, 10 + n)] for n in range(1, 60)]
    first, again, other = (hidden(rows, seed, whole_words=True) for seed in (1, 1, 2))
    assert np.array_equal(first.rows.ids, again.rows.ids)
    assert np.array_equal(first.mask, again.mask)
    assert not np.array_equal(first.mask, other.mask)


def test_nothing_to_hide() -> None:
    assert hidden([]).mask.shape == (0,)
    assert not hidden([[CLS], [], [CLS, 3, 1]], whole_words=True).mask.any()


def test_an_eojeol_is_what_stands_between_spaces() -> None:
    vocabulary = review_vocabulary()
    pieces = PieceInfo.of(vocabulary)
    ids = [vocabulary.cls_id, *vocabulary.encode("이야기가 정말 재미있어요")]
    row = Ragged.from_lists([ids])
    seen = set()
    for seed in range(40):
        masked = mask_tokens(
            row,
            pieces,
            MaskingConfig(mlm_probability=0.05, whole_words=True),
            np.random.default_rng(seed),
        )
        said = "".join(
            vocabulary.piece(i) for i, chosen in zip(ids, masked.mask, strict=True) if chosen
        )
        seen.add(said)
    assert seen == {"▁이야기가", "▁정말", "▁재미있어요"}


def test_what_a_vocabulary_cannot_spell_stands_within_its_eojeol() -> None:
    """A rare character parts no word; it is itself never chosen."""
    vocabulary = review_vocabulary()
    ids = [vocabulary.cls_id, *vocabulary.encode("이야기가龘정말 재미있어요")]
    unknown = ids.index(vocabulary.unk_id)
    row, config = Ragged.from_lists([ids]), MaskingConfig(mlm_probability=0.05, whole_words=True)
    seen = set()
    for seed in range(40):
        masked = mask_tokens(row, PieceInfo.of(vocabulary), config, np.random.default_rng(seed))
        assert not masked.mask[unknown]
        seen.add((bool(masked.mask[unknown - 1]), bool(masked.mask[unknown + 1])))
    assert seen == {(True, True), (False, False)}


def test_all_special_pieces_are_known() -> None:
    vocabulary = review_vocabulary()
    pieces = PieceInfo.of(vocabulary)
    special = {vocabulary.piece(int(i)) for i in np.flatnonzero(~pieces.maskable)}
    assert special == {"[PAD]", "[UNK]", "[BOS]", "[EOS]", "[SEP]", "[CLS]", "[MASK]"}
    assert pieces.mask_id == vocabulary.mask_id
    assert not pieces.starts_word[~pieces.maskable].any()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_is_between_nothing_and_all(share: float) -> None:
    with pytest.raises(InputError, match=r"masking\.share .*: give more than 0, less than 1"):
        MaskingConfig(mlm_probability=share)

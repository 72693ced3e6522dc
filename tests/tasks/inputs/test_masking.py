"""Masking: how many tokens, never special ones, whole words, 80/10/10, and reproducible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.tasks.inputs.masking import MaskedRows, PieceInfo, mask_tokens
from jumok.tasks.recipe.tables import MaskingConfig
from jumok.text.ragged import Ragged
from tests.errors import raises
from tests.tasks.tiny_jobs import review_vocabulary

V, SPECIAL, MASK = 100, 10, 6
PIECES = PieceInfo(
    np.arange(V) >= SPECIAL, (np.arange(V) >= SPECIAL) & (np.arange(V) % 3 == 0), MASK
)
CLS = 5


def mask(rows: list[list[int]], seed: int = 0, **config: object) -> MaskedRows:
    masking = MaskingConfig(**config)  # type: ignore[arg-type]
    return mask_tokens(Ragged.from_lists(rows), PIECES, masking, np.random.default_rng(seed))


def words(row: list[int]) -> list[list[int]]:
    """The positions of the words of a row, in order: the rule in plain Python."""
    found: list[list[int]] = []
    starts = True
    for position, piece in enumerate(row):
        if piece < SPECIAL:
            starts = True
            continue
        if starts or PIECES.starts_word[piece]:
            found.append([])
        found[-1].append(position)
        starts = False
    return found


rows = st.lists(
    st.lists(st.integers(0, V - 1), max_size=12).map(lambda row: [CLS, *row]), max_size=8
)


@given(rows=rows, seed=st.integers(0, 99), p=st.floats(0.05, 0.9), whole=st.booleans())
def test_masked_tokens(rows: list[list[int]], seed: int, p: float, whole: bool) -> None:
    masked = mask(rows, seed, mlm_probability=p, whole_words=whole)
    assert masked.rows.offsets.tolist() == Ragged.from_lists(rows).offsets.tolist()
    for number, row in enumerate(rows):
        here = slice(*masked.rows.offsets[number : number + 2])
        chosen, read = masked.mask[here], masked.rows.ids[here]
        assert masked.labels[here].tolist() == row
        maskable = np.array(row) >= SPECIAL
        assert not chosen[~maskable].any()  # special pieces are never masked
        assert (read == row)[~chosen].all()  # unmasked tokens stay
        assert ((read == MASK) | (read >= SPECIAL))[chosen].all()  # no other special piece
        budget = max(1, int(p * maskable.sum() + 0.5)) if maskable.any() else 0
        if not whole:
            assert chosen.sum() == budget
            continue
        selected = [word for word in words(row) if chosen[word].any()]
        assert all(chosen[word].all() for word in selected)  # a word is masked as a whole
        assert bool(selected) == bool(budget)
        excess = sum(map(len, selected)) - budget
        assert excess <= max(map(len, selected), default=0) / 2 or len(selected) == 1


def test_80_percent_mask_10_percent_random_10_percent_unchanged() -> None:
    masked = mask([[CLS, *range(10, 100)] * 20] * 20, mlm_probability=0.5)
    read, truth = masked.rows.ids[masked.mask], masked.labels[masked.mask]
    n = len(read)
    assert n == 18_000
    bound = 4 * (0.25 / n) ** 0.5  # four standard errors and more
    assert abs((read == MASK).mean() - 0.8) < bound
    others = read[(read != MASK) & (read != truth)]
    assert abs(len(others) / n - 0.1 * 89 / 90) < bound  # one of 90 is the same by chance
    counts = np.bincount(others, minlength=V)[SPECIAL:]
    assert counts.min() > 0  # every maskable piece occurs as a replacement
    assert counts.max() < 3 * counts.mean()


def test_every_token_is_masked_with_equal_probability() -> None:
    masked = mask([[CLS, *range(20, 40)]] * 4_000, mlm_probability=0.25)
    often = masked.mask.reshape(4_000, 21)[:, 1:].mean(0)
    np.testing.assert_allclose(often, 0.25, atol=4 * (0.25 * 0.75 / 4_000) ** 0.5)


def test_whole_words_mask_the_same_fraction_on_average() -> None:
    """Words of one to four pieces, a third of the tokens: excess and deficit cancel out."""
    row = [CLS, 12, 13, 14, 15, 18, 21, 22, 23, 25, 27, 28, 30, 31, 32, 33, 36]
    masked = mask([row] * 2_000, mlm_probability=0.3, whole_words=True)
    fraction = masked.mask.sum() / (2_000 * (len(row) - 1))
    assert abs(fraction - 0.3) < 0.03


def test_the_same_seed_gives_the_same_mask() -> None:
    rows = [[CLS, *range(10, 10 + n)] for n in range(1, 60)]
    first, again, other = (mask(rows, seed, whole_words=True) for seed in (1, 1, 2))
    assert np.array_equal(first.rows.ids, again.rows.ids)
    assert np.array_equal(first.mask, again.mask)
    assert not np.array_equal(first.mask, other.mask)


def test_rows_without_maskable_tokens() -> None:
    assert mask([]).mask.shape == (0,)
    assert not mask([[CLS], [], [CLS, 3, 1]], whole_words=True).mask.any()


def test_an_eojeol_is_a_space_separated_word() -> None:
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
        masked_text = "".join(
            vocabulary.piece(i) for i, chosen in zip(ids, masked.mask, strict=True) if chosen
        )
        seen.add(masked_text)
    assert seen == {"▁이야기가", "▁정말", "▁재미있어요"}


def test_an_unknown_character_stays_inside_its_eojeol() -> None:
    """A rare character does not split a word, and is never masked itself."""
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


def test_special_pieces_are_not_maskable() -> None:
    vocabulary = review_vocabulary()
    pieces = PieceInfo.of(vocabulary)
    special = {vocabulary.piece(int(i)) for i in np.flatnonzero(~pieces.maskable)}
    assert special == {"[PAD]", "[UNK]", "[BOS]", "[EOS]", "[SEP]", "[CLS]", "[MASK]"}
    assert pieces.mask_id == vocabulary.mask_id
    assert not pieces.starts_word[~pieces.maskable].any()


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, float("nan")])
def test_mlm_probability_is_between_0_and_1(p: float) -> None:
    with raises(InputError, "config.out_of_range"):
        MaskingConfig(mlm_probability=p)

"""The classifier of characters: against a computation by hand, and in batches."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jumok.errors import InputError
from jumok.inference.row_by_row import RowByRow
from jumok.models import CharacterClassifier, Characters
from jumok.models.character_classifier import KERNEL, NGRAM_ROWS, NGRAM_WIDTH, WIDTH
from jumok.nn.masks import positions_from_mask
from jumok.text.character_ngrams import WINDOWS
from tests.errors import raises
from tests.models.small_models import VOCABULARY, set_seed, small
from tests.nn.strategies import sequence_mask, tokens
from tests.nn.tolerances import FLOAT64, close, randomized

N_CHARACTERS = (7, 3, 1, 4)
N_TOKENS = (5, 2, 3, 1)


def model() -> CharacterClassifier:
    set_seed()
    return randomized(CharacterClassifier(small(), 3)).double().eval()


def characters(n_characters: int, n_tokens: int) -> Characters:
    """Characters of random tokens, some without one."""
    generator = torch.Generator().manual_seed(n_characters)

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(high, (1, n_characters, *shape), generator=generator)

    return Characters(draw(n_tokens), draw(3), draw(NGRAM_ROWS, len(WINDOWS)))


def texts() -> list[tuple[Tensor, Characters]]:
    rows = [tokens(n, size=VOCABULARY, seed=n) for n in N_TOKENS]
    pairs = zip(N_CHARACTERS, N_TOKENS, strict=True)
    return list(zip(rows, (characters(*pair) for pair in pairs), strict=True))


def together(width: int) -> Characters:
    """The characters of all texts in one batch; padding is not 0."""
    padded: list[list[Tensor]] = [[], [], []]
    for _, each in texts():
        for rows, values in zip(padded, (each.tokens, each.places, each.ngrams), strict=True):
            end = (0, 0) * (values.ndim - 2) + (0, width - values.shape[1])
            rows.append(F.pad(values, end, value=2))
    return Characters(*(torch.cat(rows) for rows in padded), sequence_mask([*N_CHARACTERS], width))


def test_each_character_by_hand() -> None:
    classifier, (ids, each) = model(), texts()[0]
    hidden = classifier.encoder(ids[None])[0]
    rows = []
    for token, place, ngrams in zip(each.tokens[0], each.places[0], each.ngrams[0], strict=True):
        state = classifier.states(hidden[token]) if place else torch.zeros(1)
        vectors = [classifier.ngrams.weight[n] for n in ngrams]
        rows.append(torch.cat([state + classifier.places.weight[place], *vectors]))

    def convolve(layer: torch.nn.Conv1d, inputs: list[Tensor]) -> list[Tensor]:
        outputs = []
        for at in range(len(inputs)):
            total = layer.bias
            for k in range(KERNEL):
                if 0 <= (near := at + k - KERNEL // 2) < len(inputs):
                    total = total + layer.weight[:, :, k] @ inputs[near]
            outputs.append(F.gelu(total))
        return outputs

    first = convolve(classifier.first, rows)
    second = convolve(classifier.second, first)
    expected = [classifier.output(a + b) for a, b in zip(first, second, strict=True)]
    assert close(classifier(ids[None], characters=each)[0], torch.stack(expected), FLOAT64)


@pytest.mark.parametrize("row_by_row", [False, True])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_a_text_has_the_same_logits_alone_and_in_a_batch(left: bool, row_by_row: bool) -> None:
    classifier, width = model(), 8
    rows = texts()
    real = sequence_mask([*N_TOKENS], 6, left=left)
    ids = torch.full((len(rows), 6), VOCABULARY - 1)
    ids[real] = torch.cat([row for row, _ in rows])
    batch = together(width)
    if left:
        starts = torch.tensor([6 - n for n in N_TOKENS])[:, None]
        moved = (batch.tokens + starts).clamp(max=5)  # of padding
        batch = Characters(moved, batch.places, batch.ngrams, batch.mask)
    if row_by_row:
        classifier.head = RowByRow(classifier.head)
    logits = classifier(ids, real, positions=positions_from_mask(real), characters=batch)
    assert logits.shape == (len(rows), width, 3)
    for row, (alone, each) in enumerate(rows):
        n = N_CHARACTERS[row]
        assert close(logits[row, :n], classifier(alone[None], characters=each)[0], FLOAT64)


def test_padding_has_no_gradient() -> None:
    classifier, rows = model(), texts()
    real = sequence_mask([*N_TOKENS], 6)
    ids = torch.full((len(rows), 6), VOCABULARY - 1)
    ids[real] = torch.cat([row % (VOCABULARY - 1) for row, _ in rows])
    batch = together(8)
    unused = (set(range(100)) - set(batch.ngrams.flatten().tolist())).pop()
    assert batch.mask is not None
    ngrams = batch.ngrams.masked_fill(~batch.mask[..., None], unused)
    logits = classifier(
        ids, real, characters=Characters(batch.tokens, batch.places, ngrams, batch.mask)
    )
    logits[batch.mask].square().sum().backward()
    gradient = classifier.ngrams.weight.grad
    assert gradient is not None
    assert not gradient[unused].any()
    assert gradient.any()


def test_dropout_only_in_training() -> None:
    set_seed()
    classifier = randomized(CharacterClassifier(small(dropout=0.5), 3)).eval()
    ids, each = texts()[0]
    answer = classifier(ids[None], characters=each)
    assert torch.equal(answer, classifier(ids[None], characters=each))
    classifier.train().encoder.eval()
    assert not torch.equal(answer, classifier(ids[None], characters=each))


def test_whole_vectors_of_ngrams_are_dropped() -> None:
    classifier = CharacterClassifier(small(dropout=0.5), 3)
    seen: list[Tensor] = []
    classifier.first.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    ids, each = texts()[0]
    classifier.train()(ids[None], characters=each)
    ngrams = seen[0][0, WIDTH:].view(len(WINDOWS), NGRAM_WIDTH, -1)  # (G, 48, C)
    kept = ngrams.ne(0).float().mean(1)
    assert set(kept.unique().tolist()) == {0.0, 1.0}
    assert CharacterClassifier(small(dropout=0.0), 3).ngram_dropout.p == 0.0


def test_ids_alone_have_no_logits() -> None:
    with raises(InputError, "model.needs_characters"):
        model()(tokens(1, 3, size=VOCABULARY))


def test_gradients_reach_every_weight() -> None:
    classifier = model()
    ids, each = texts()[0]
    classifier(ids[None], characters=each).square().sum().backward()
    missing = [name for name, p in classifier.named_parameters() if p.grad is None]
    assert missing == []

"""The rows of a batch are independent: permuting them permutes the outputs."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumok.models import EncoderDecoder, EncoderDecoderClassifier, LanguageModel, TextClassifier
from jumok.nn import AttentionMask
from tests.models.small_models import VOCABULARY, small
from tests.nn.strategies import seeds, sequence_mask, tokens
from tests.nn.tolerances import FLOAT64, close, randomized

orders = st.integers(1, 5).flatmap(lambda n: st.permutations(range(n)))


@settings(max_examples=10)
@given(order=orders, seed=seeds)
def test_permuting_a_batch_permutes_its_outputs(order: list[int], seed: int) -> None:
    n = len(order)
    sizes = [1 + (seed >> i) % 6 for i in range(n)]
    real, ids = sequence_mask(sizes, 6), tokens(n, 6, size=VOCABULARY, seed=seed)
    target = tokens(n, 4, size=VOCABULARY, seed=seed + 1)

    classifier = randomized(TextClassifier(small(), 3, "max"), seed).double().eval()
    assert close(classifier(ids[order], real[order]), classifier(ids, real)[order], FLOAT64)

    language_model = randomized(LanguageModel(small()), seed).double().eval()
    mask, permuted = (AttentionMask.from_padding(r, causal=True) for r in (real, real[order]))
    assert close(language_model(ids[order], permuted), language_model(ids, mask)[order], FLOAT64)

    translator = randomized(EncoderDecoder(small()), seed).double().eval()
    mask, permuted = (AttentionMask.from_padding(r) for r in (real, real[order]))
    assert close(
        translator(ids[order], target[order], permuted),
        translator(ids, target, mask)[order],
        FLOAT64,
    )

    notes = randomized(EncoderDecoderClassifier(small(), 2), seed).double().eval()
    assert close(
        notes(ids[order], target[order], real[order]), notes(ids, target, real)[order], FLOAT64
    )


@settings(max_examples=10)
@given(n=st.integers(2, 6), seed=seeds)
def test_a_row_does_not_depend_on_the_other_rows(n: int, seed: int) -> None:
    model = randomized(TextClassifier(small(), 3), seed).double().eval()
    ids = tokens(n, 5, size=VOCABULARY, seed=seed)
    assert close(model(ids)[:1], model(ids[:1]), FLOAT64)
    others = torch.cat([ids[:1], tokens(n - 1, 5, size=VOCABULARY, seed=seed + 1)])
    assert close(model(others)[:1], model(ids)[:1], FLOAT64)

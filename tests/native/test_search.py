"""The search in C++ finds what the search of `jumok.decoding` finds, step by step."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pytest
import torch
from torch import Tensor

from jumok.decoding import DecodingConfig, Hypothesis
from jumok.decoding.build import build_stopping_and_processors
from jumok.decoding.generate import generate
from jumok.decoding.incremental.decoder import IncrementalDecoder, Seq2SeqDecoder, SupportsSearch
from jumok.decoding.incremental.sliding_window import SlidingWindowDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import BannedSequences, MinLength
from jumok.decoding.stopping import StoppingCriteria
from jumok.errors import NonFiniteError
from jumok.native import DecoderPrecision, NativeDecoder, NativeModel
from jumok.native.decoder_session import DecoderSession
from tests.errors import raises
from tests.native.conftest import KINDS, encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")

EOS, LIMITS = 5, [9, 1, 17, 4]
SEARCHES = [
    {},
    {"min_length": 6},
    {"beam": 2, "length_penalty": 0.0},
    {"beam": 4, "n_best": 4, "length_penalty": 0.6, "min_length": 3},
    {"beam": 8, "n_best": 2, "length_penalty": 1.8, "early_stopping": "never"},
    {"beam": 3, "n_best": 3, "length_norm": "gnmt", "early_stopping": True},
    {"beam": 5, "length_penalty": -1.0, "early_stopping": "never"},
    {"beam": 50, "n_best": 50},  # more than there are tokens
]


class StepByStep:
    """The same decoder without its own search."""

    def __init__(self, decoder: NativeDecoder) -> None:
        self.vocabulary_size = decoder.vocabulary_size
        self.step, self.step_all, self.top_k = decoder.step, decoder.step_all, decoder.top_k
        self.reorder, self.rewind, self._decoder = decoder.reorder, decoder.rewind, decoder

    @property
    def length(self) -> int:
        return self._decoder.length


def searched(
    decoder: IncrementalDecoder, prompts: Tensor, config: DecodingConfig, limits: Sequence[int]
) -> list[list[Hypothesis]]:
    stopping, processors = build_stopping_and_processors(config, EOS, limits, more_end_ids=(9,))
    return generate(decoder, GenerationInputs(prompts, stopping), config, processors)


def decoders(kind: str, precision: DecoderPrecision) -> Iterator[NativeDecoder]:
    model = NativeModel(encoder_decoder(kind), precision)
    while True:
        yield NativeDecoder(model, torch.arange(3, 31).view(4, 7), capacity=20)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_same_hypotheses_as_step_by_step(
    precision: DecoderPrecision, kind: str, search: dict[str, object]
) -> None:
    config, prompts = DecodingConfig(**search), torch.full((4, 2), 2)  # type: ignore[arg-type]
    first, second, *_ = zip(decoders(kind, precision), range(2), strict=False)
    assert isinstance(first[0], SupportsSearch)
    found = searched(first[0], prompts, config, LIMITS)
    expected = searched(StepByStep(second[0]), prompts, config, LIMITS)
    assert [[one.ids for one in text] for text in found] == [
        [one.ids for one in text] for text in expected
    ]
    for mine, other in zip(chain(*found), chain(*expected), strict=True):
        assert (mine.log_probabilities, mine.finished) == (other.log_probabilities, other.finished)
        assert mine.rank == pytest.approx(other.rank, rel=1e-6)


@pytest.mark.parametrize("beam", [1, 4])
def test_hypotheses_are_those_of_the_pytorch_model(beam: int) -> None:
    model, source = encoder_decoder("untied"), torch.arange(3, 31).view(4, 7)
    mask = torch.tensor([[1] * 7, [1] * 3 + [0] * 4, [0] * 2 + [1] * 5, [1] * 7]).bool()
    config, prompts = DecodingConfig(beam=beam, n_best=beam), torch.full((4, 1), 2)
    native = NativeDecoder(NativeModel(model, "float32"), source, mask, capacity=20)
    found = searched(native, prompts, config, LIMITS)
    expected = searched(Seq2SeqDecoder(model, source, mask, capacity=20), prompts, config, LIMITS)
    for mine, other in zip(chain(*found), chain(*expected), strict=True):
        assert mine.ids == other.ids
        assert mine.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("n_prompt", [3, 38, 40, 57])
def test_a_window_slides(n_prompt: int, beam: int) -> None:
    """The model has 40 positions: the newer half of a full window is read again."""
    model = language_model("gpt2")
    native = NativeModel(model, "float32")
    prompts = torch.randint(10, 77, (3, n_prompt), generator=torch.Generator().manual_seed(1))
    config, limits = DecodingConfig(beam=beam, n_best=beam), [70, 30, 5]
    stopping = StoppingCriteria(EOS, limits)
    session = DecoderSession(native.weights, capacity=40)
    found = session.search(prompts.numpy(), config, stopping, slides=True)
    expected = searched(SlidingWindowDecoder(model), prompts, config, limits)
    assert [[one.ids for one in text] for text in found] == [
        [one.ids for one in text] for text in expected
    ]


def test_greedy_tokens_are_reported_as_they_come() -> None:
    native = NativeModel(encoder_decoder(), "float32")
    decoder = NativeDecoder(native, torch.arange(3, 31).view(4, 7), capacity=20)
    tokens: dict[int, list[int]] = {}
    order: list[int] = []

    def on_token(text: int, token: int) -> None:
        tokens.setdefault(text, []).append(token)
        order.append(text)

    found = decoder.session.search(
        np.full((4, 1), 2), DecodingConfig(), StoppingCriteria(EOS, LIMITS), on_token=on_token
    )
    assert [tokens.get(text, []) for text in range(4)] == [one.ids for (one,) in found]
    assert order[:4] == [0, 1, 2, 3]


def test_what_the_kernel_leaves_out_is_searched_step_by_step() -> None:
    decoder = next(decoders("vaswani", "float32"))
    inputs = GenerationInputs(torch.full((4, 1), 2), StoppingCriteria(EOS, LIMITS))
    for config in (DecodingConfig(sample=True), DecodingConfig(no_repeat_ngram=2)):
        assert decoder.search(inputs, config, []) is None
    for processor in (BannedSequences([[7]]), MinLength(3, end_id=8)):
        assert decoder.search(inputs, DecodingConfig(), [processor]) is None


def test_logits_must_be_finite() -> None:
    model = encoder_decoder("untied")
    with torch.no_grad():
        model.output.weight.fill_(3e38)
    decoder = NativeDecoder(NativeModel(model, "float32"), torch.tensor([[3, 4]]), capacity=4)
    for beam in (1, 3):
        with raises(NonFiniteError, "decoding.not_finite"):
            searched(decoder, torch.tensor([[2]]), DecodingConfig(beam=beam), [3])

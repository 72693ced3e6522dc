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
from jumok.decoding.processors import (
    BannedSequences,
    MinLength,
    ProcessorContext,
    Temperature,
    TopK,
    TypicalP,
    apply_processors,
)
from jumok.decoding.random_numbers import draw_uniform, philox_stream
from jumok.decoding.stopping import StoppingCriteria, StopStrings
from jumok.errors import NonFiniteError
from jumok.native import DecoderPrecision, NativeDecoder, NativeModel
from jumok.native.decoder_session import DecoderSession
from jumok.text.ragged import Ragged
from tests.combinations import pairwise, slow
from tests.errors import raises
from tests.native.conftest import KINDS, encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")

EOS, LIMITS = 5, [9, 1, 17, 4]
SOURCE = torch.tensor([[3, 4, 5]])
PLAIN: list[dict[str, object]] = [
    {},
    {"min_length": 6},
    {"beam": 2, "length_penalty": 0.0},
    {"beam": 4, "n_best": 4, "length_penalty": 0.6, "min_length": 3},
    {"beam": 8, "n_best": 2, "length_penalty": 1.8, "early_stopping": "never"},
    {"beam": 3, "n_best": 3, "length_norm": "gnmt", "early_stopping": True},
    {"beam": 5, "length_penalty": -1.0, "early_stopping": "never"},
    {"beam": 50, "n_best": 50},  # more than there are tokens
]
SEARCHES = [
    *PLAIN,
    {"repetition_penalty": 1.7, "no_repeat_ngram": 1, "min_length": 4},
    {"beam": 3, "n_best": 3, "repetition_penalty": 1.3, "no_repeat_ngram": 2, "temperature": 2.0},
    {"beam": 2, "top_k": 3, "top_p": 0.8, "min_p": 0.02},
    {"sample": True, "seed": 3, "n_best": 3},
    {"sample": True, "seed": 2**63 + 5, "temperature": 3.0, "top_k": 20},
    {"sample": True, "seed": 4, "n_best": 2, "top_p": 0.6, "repetition_penalty": 1.4},
    {"sample": True, "seed": -1, "typical_p": 0.7, "min_p": 0.005, "no_repeat_ngram": 2},
]
KEYS = [7, 2**64 - 1, 0, 12345]


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
    return generate(decoder, GenerationInputs(prompts, stopping, KEYS), config, processors)


def decoders(kind: str, precision: DecoderPrecision) -> Iterator[NativeDecoder]:
    model = NativeModel(encoder_decoder(kind), precision)
    while True:
        yield NativeDecoder(model, torch.arange(3, 31).view(4, 7), capacity=20)


@pytest.mark.parametrize(
    ("precision", "kind", "search"), pairwise(["float32", "int8"], KINDS, SEARCHES), ids=str
)
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
        assert mine.finished == other.finished
        if search in PLAIN:  # other settings need all log-probabilities, which PyTorch computes
            assert mine.log_probabilities == other.log_probabilities
        assert mine.log_probabilities == pytest.approx(other.log_probabilities, rel=1e-6)
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
    assert decoder.search(inputs, DecodingConfig(sample=True), []) is None  # without keys
    for processors in (
        [BannedSequences([[7]])],
        [MinLength(3, end_id=8)],
        [TopK(3), Temperature(2.0)],  # in another order
        [TypicalP(0.5)],  # may remove the argmax
    ):
        assert decoder.search(inputs, DecodingConfig(), processors) is None


def test_a_stop_string_ends_rows_and_beams() -> None:
    """The kernel asks for each token whether the text of a hypothesis contains a stop string."""
    for config in (
        DecodingConfig(),
        DecodingConfig(sample=True, n_best=3, seed=1),
        DecodingConfig(beam=4, n_best=4, early_stopping="never"),
    ):
        first, second, *_ = zip(decoders("untied", "float32"), range(2), strict=False)
        prompts, limits = torch.full((4, 1), 2), [12, 12, 12, 12]
        plain = searched(next(decoders("untied", "float32")), prompts, config, limits)
        token = plain[0][0].ids[2]
        stops = StopStrings(Letters(), (chr(token),))  # type: ignore[arg-type]
        inputs = GenerationInputs(prompts, StoppingCriteria(EOS, limits, stops), KEYS)
        found = generate(first[0], inputs, config)
        expected = generate(StepByStep(second[0]), inputs, config)
        for mine, other in zip(chain(*found), chain(*expected), strict=True):
            assert (mine.ids, mine.finished) == (other.ids, other.finished)
        assert found != plain
        assert any(one.finished and one.ids[-1] == token for text in found for one in text)


class Letters:
    """A tokenizer with a letter for each id."""

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))

    def decode_batch(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return list(map(self.decode, rows))


DRAWS = 20_000


@pytest.mark.parametrize(
    "settings",
    [
        {},
        slow({"temperature": 0.7}),
        {"temperature": 1.6, "top_k": 9},
        {"top_p": 0.8, "min_p": 0.01},
        {"typical_p": 0.6},
    ],
    ids=str,
)
def test_samples_have_the_probabilities_of_the_model(settings: dict[str, object]) -> None:
    """A chi-square test of the first token of 20,000 samples, which all have their own numbers."""
    config = DecodingConfig(sample=True, n_best=10_000, seed=5, max_length=1, **settings)  # type: ignore[arg-type]
    decoder = NativeDecoder(NativeModel(encoder_decoder("untied"), "float32"), SOURCE, capacity=1)
    logits = NativeDecoder(decoder.model, SOURCE, capacity=1).step(torch.tensor([[2]]))
    stopping, processors = build_stopping_and_processors(config, EOS, [1])
    context = ProcessorContext(torch.tensor([[2]]), 1, torch.tensor([0]), logits)
    scores = apply_processors(logits.log_softmax(-1), context, processors)
    expected = DRAWS * scores.softmax(-1, dtype=torch.float64)[0].numpy()
    counts = np.zeros(len(expected))
    for seed in (5, 6):
        inputs = GenerationInputs(torch.tensor([[2]]), stopping, [seed])
        one = NativeDecoder(decoder.model, SOURCE, capacity=1)
        ((*found,),) = generate(one, inputs, config, processors)
        tokens = [each.ids[0] if each.ids else EOS for each in found]
        counts += np.bincount(tokens, minlength=len(counts))
    possible = expected > 0
    assert not counts[~possible].any()
    common = expected >= 5  # the others are one cell
    cells = [np.append(x[common], x[possible & ~common].sum()) for x in (counts, expected)]
    observed, wanted = (x[cells[1] > 0] for x in cells)
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    degrees = len(wanted) - 1
    assert statistic < degrees + 4 * (2 * degrees) ** 0.5 + 8  # p < 1e-4


def test_random_numbers_are_those_of_numpy() -> None:
    """A model without preferences: the token is the number, times the size of the vocabulary."""
    model = encoder_decoder("untied")
    with torch.no_grad():
        model.output.weight.zero_()
        if model.output.bias is not None:
            model.output.bias.zero_()
    native = NativeModel(model, "float32")
    for seed, key in ((0, 0), (3, 2**64 - 1), (2**63, 17)):
        session = DecoderSession(native.weights, Ragged.from_lists([[3, 4]]), capacity=20)
        config = DecodingConfig(sample=True, seed=seed, n_best=3)
        stopping = StoppingCriteria(native.vocabulary_size, [19])  # no token ends a text
        ((*found,),) = session.search(np.array([[2]]), config, stopping, sample_keys=[key])
        for number, one in enumerate(found):
            uniform = draw_uniform(philox_stream(seed, key, number), 19)
            assert one.ids == (uniform * native.vocabulary_size).astype(int).tolist()


def test_logits_must_be_finite() -> None:
    model = encoder_decoder("untied")
    with torch.no_grad():
        model.output.weight.fill_(3e38)
    decoder = NativeDecoder(NativeModel(model, "float32"), torch.tensor([[3, 4]]), capacity=4)
    for beam in (1, 3):
        with raises(NonFiniteError, "decoding.not_finite"):
            searched(decoder, torch.tensor([[2]]), DecodingConfig(beam=beam), [3])

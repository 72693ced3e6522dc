"""Speculative decoding: the output of plain greedy, and exactly the target's distribution."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from itertools import product

import pytest
import torch
from torch import Tensor

from jumok.decoding import (
    CausalLMDecoder,
    DecodingConfig,
    GenerationInputs,
    IncrementalDecoder,
    Seq2SeqDecoder,
    StoppingCriteria,
)
from jumok.decoding.build import build_processors, build_stopping
from jumok.decoding.constraints.constraint import Constraint, TokenAutomaton, any_text_of
from jumok.decoding.constraints.token_bytes import TokenBytes
from jumok.decoding.generate import generate
from jumok.decoding.processors import MinLength, Processor, ProcessorContext, apply_processors
from jumok.decoding.speculative import SpeculativeResult, speculative
from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel, TransformerConfig
from jumok.text import SentencePieceTokenizer, VocabularyConfig
from tests.decoding.tiny_models import Allowed
from tests.errors import raises

PAD, BOS, END, V = 0, 2, 3, 12
ROOM = 24


def language_model(seed: int, positions: str = "rotary", size: int = V) -> LanguageModel:
    """Random weights, sharpened: texts of many lengths."""
    torch.manual_seed(seed)
    config = TransformerConfig(
        vocabulary_size=size,
        d_model=16,
        n_heads=2,
        d_ff=32,
        n_layers=2,
        max_length=ROOM + 8,
        positions=positions,  # type: ignore[arg-type]
        tie_embeddings=False,
    )
    model = LanguageModel(config).eval().requires_grad_(False)
    model.output.weight.mul_(0.7)
    return model


def near(model: LanguageModel, amount: float) -> LanguageModel:
    """A draft that is the model with some noise in its output: sometimes right."""
    draft = deepcopy(model)
    noise = torch.randn(draft.output.weight.shape, generator=torch.Generator().manual_seed(5))
    draft.output.weight.add_(amount * noise)
    return draft


def prompt_inputs(prompt: Sequence[int], limit: int, key: int = 0) -> GenerationInputs:
    return GenerationInputs(torch.tensor([prompt]), StoppingCriteria(END, [limit]), [key])


def both(
    target: LanguageModel,
    draft: LanguageModel,
    start: GenerationInputs,
    config: DecodingConfig,
    processors: Sequence[Processor] = (),
    ahead: int = 4,
) -> SpeculativeResult:
    decoders = (
        CausalLMDecoder(model, start.padding, capacity=ROOM + 8) for model in (target, draft)
    )
    return speculative(*decoders, start, config, processors, n_draft_tokens=ahead)


PROMPTS = [[2, 5], [2, 7, 8, 4], [2], [6, 6, 6], [2, 11, 10, 4, 5]]


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 4])
@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "relative"])
def test_greedy_output_is_that_of_plain_greedy(ahead: int, positions: str) -> None:
    target = language_model(0, positions)
    drafts = [target, language_model(1, positions), near(target, 0.05)]
    predicted = kept = 0
    for draft, prompt in product(drafts, PROMPTS):
        for limit in (1, 2, 20):
            config = DecodingConfig(max_length=limit)
            [[plain]] = generate(
                CausalLMDecoder(target, capacity=ROOM + 8), prompt_inputs(prompt, limit), config
            )
            found = both(target, draft, prompt_inputs(prompt, limit), config, ahead=ahead)
            assert found.hypothesis.ids == plain.ids
            assert found.hypothesis.finished == plain.finished
            assert found.hypothesis.score == pytest.approx(plain.score, abs=1e-4)  # float32 sums
            assert found.hypothesis.rank == pytest.approx(plain.rank, abs=1e-4)
            assert found.hypothesis.log_probabilities == pytest.approx(
                plain.log_probabilities, abs=1e-4
            )
            predicted, kept = predicted + found.proposed, kept + found.accepted
    assert 0 < kept < predicted  # some draft tokens were accepted, others rejected


def test_a_perfect_draft_saves_passes() -> None:
    target = language_model(0)
    found = both(target, target, prompt_inputs([2, 5], 20), DecodingConfig(max_length=20), ahead=4)
    written = len(found.hypothesis.log_probabilities)
    assert found.accepted == found.proposed > 0
    assert found.target_passes == -(-written // 5)
    assert found.accepted + found.target_passes >= written


def test_an_encoder_decoder_and_its_draft() -> None:
    torch.manual_seed(3)
    config = TransformerConfig(
        vocabulary_size=V, d_model=16, n_heads=2, d_ff=32, n_layers=2, max_length=ROOM
    )
    target, draft = (EncoderDecoder(config).eval().requires_grad_(False) for _ in range(2))
    sources = torch.randint(4, V, (6, 5), generator=torch.Generator().manual_seed(0))
    settings = DecodingConfig(max_length=12, no_repeat_ngram=2, min_length=4)
    processors = build_processors(settings, END)
    stopping = StoppingCriteria(END, [12])
    for source in sources[:, None]:
        start = GenerationInputs(torch.tensor([[BOS]]), stopping)

        def decoder(model: EncoderDecoder, source: Tensor = source) -> IncrementalDecoder:
            return Seq2SeqDecoder(model, source, capacity=12)

        [[plain]] = generate(decoder(target), start, settings, processors)
        found = speculative(decoder(target), decoder(draft), start, settings, processors)
        assert found.hypothesis.ids == plain.ids
        assert found.hypothesis.score == pytest.approx(plain.score, abs=1e-4)  # float32 sums
        assert len(plain.ids) >= 4


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("positions", ["sinusoidal_halves", "learned", "relative", "none"])
def test_a_padded_source_and_every_kind_of_positions(positions: str, side: str) -> None:
    torch.manual_seed(3)
    config = TransformerConfig(
        vocabulary_size=V, d_model=16, n_heads=2, d_ff=32, n_layers=2, max_length=ROOM,
        positions=positions,  # type: ignore[arg-type]
    )  # fmt: skip
    target, draft = (EncoderDecoder(config).eval().requires_grad_(False) for _ in range(2))
    source = torch.tensor([[4, 9, 7, 5, 6, 10]])
    real = torch.tensor([[True] * 4 + [False] * 2])
    real = real.flip(1) if side == "left" else real
    start = GenerationInputs(torch.tensor([[BOS]]), StoppingCriteria(END, [12]))
    settings = DecodingConfig(max_length=12)

    def decoder(model: EncoderDecoder) -> IncrementalDecoder:
        return Seq2SeqDecoder(model, source, real, capacity=12)

    [[plain]] = generate(decoder(target), start, settings)
    for guesser in (draft, target):
        found = speculative(decoder(target), decoder(guesser), start, settings)
        assert found.hypothesis.ids == plain.ids
        assert found.hypothesis.score == pytest.approx(plain.score, abs=1e-4)  # float32 sums


def test_a_stop_string_within_draft_tokens() -> None:
    """No token follows it, even if further draft tokens would be accepted."""
    vocabulary = SentencePieceTokenizer.train(
        ["가 나 다", "나라 다리 가나"], VocabularyConfig(size=24)
    )
    target = language_model(1, size=len(vocabulary))  # which generates a text of some length
    prompt = vocabulary.encode("가 나")
    config = DecodingConfig(max_length=16)
    end_id = vocabulary.eos_id
    free = GenerationInputs(torch.tensor([prompt]), build_stopping(config, end_id, [16]))
    [[long]] = generate(CausalLMDecoder(target, capacity=ROOM + 8), free, config)
    before, text = vocabulary.decode_batch([prompt, [*prompt, *long.ids]])
    stop = text.removeprefix(before)[4:6]
    assert stop.strip()
    config = DecodingConfig(max_length=16, stop=(stop,))
    stopping = build_stopping(config, end_id, [16], vocabulary, [prompt])
    start = GenerationInputs(torch.tensor([prompt]), stopping)
    [[plain]] = generate(CausalLMDecoder(target, capacity=ROOM + 8), start, config)
    assert plain.finished
    assert len(plain.ids) < len(long.ids)
    for draft in (target, near(target, 0.05)):
        found = both(target, draft, start, config, ahead=8)
        assert found.hypothesis.ids == plain.ids
        assert found.hypothesis.finished


class Bigrams:
    """A bigram language model: logits (V, V) of the token after each token."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.vocabulary_size, self.length = table, len(table), 0

    def step(self, ids: Tensor) -> Tensor:
        return self.step_all(ids)[:, -1]

    def step_all(self, ids: Tensor) -> Tensor:
        self.length += ids.shape[1]
        return self.table[ids]

    def reorder(self, rows: Tensor) -> None:
        assert rows.tolist() == [0]

    def rewind(self, tokens: int) -> None:
        assert 0 <= tokens <= self.length
        self.length -= tokens


def distribution(
    table: Tensor, prompt: Sequence[int], length: int, processors: Sequence[Processor]
) -> dict[tuple[int, ...], float]:
    """The probability of every text of at most `length` tokens, the end among them."""
    done: dict[tuple[int, ...], float] = {}
    going = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for row, probability in going.items():
            tokens = torch.tensor([[*prompt, *row]])
            context = ProcessorContext(tokens, len(prompt), torch.zeros(1, dtype=torch.int64))
            scores = apply_processors(table[tokens[:, -1]].log_softmax(-1), context, processors)
            for token, p in enumerate(scores.softmax(-1, dtype=torch.float64)[0].tolist()):
                if p:
                    (done if token == END else longer)[*row, token] = probability * p
        going = longer
    return done | going


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, 3.0], ids=["good draft", "bad draft"])
@pytest.mark.parametrize("settings", [{}, {"temperature": 1.5, "top_k": 3}], ids=str)
def test_samples_follow_the_distribution_of_the_target(
    settings: dict[str, float], noise: float
) -> None:
    """Chi-square of whole texts of up to 4 tokens, sampled 2,000 times with fixed seeds."""
    n, length, prompt = 2000, 4, [1, 2]
    table, others = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(7))
    config = DecodingConfig(sample=True, max_length=length, **settings)  # type: ignore[arg-type]
    processors = build_processors(config, END)
    expected = distribution(table, prompt, length, processors)
    assert sum(expected.values()) == pytest.approx(1.0)
    counts: Counter[tuple[int, ...]] = Counter()
    kept = predicted = 0
    for key in range(n):
        decoders = Bigrams(table), Bigrams(table + noise * others)
        start = prompt_inputs(prompt, length, key)
        found = speculative(*decoders, start, config, processors, n_draft_tokens=2)
        counts[*found.hypothesis.ids, *([END] if found.hypothesis.finished else [])] += 1
        kept, predicted = kept + found.accepted, predicted + found.proposed
    assert counts.keys() <= expected.keys()
    assert 0.2 < kept / predicted < 0.95  # many draft tokens were accepted, many replaced
    assert chi_square(counts, {row: n * p for row, p in expected.items()}) < 1


def chi_square(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """The statistic that an exact sample exceeds once in a thousand times.

    Texts expected less than five times are counted together with the rarest of the others.
    """
    rarest_last = sorted(expected, key=expected.__getitem__, reverse=True)
    common = [row for row in rarest_last if expected[row] >= 5]
    bins = [(counts[row], expected[row]) for row in common[:-1]]
    seen, due = (sum(column) for column in zip(*bins, strict=True))
    bins.append((counts.total() - seen, sum(expected.values()) - due))
    assert len(bins) > 20
    statistic = sum((seen - due) ** 2 / due for seen, due in bins)
    return statistic / chi_square_limit(len(bins) - 1)


def chi_square_limit(freedom: int) -> float:
    """What chi-square exceeds once in a thousand times (Wilson and Hilferty 1931)."""
    z = 3.0902
    return freedom * (1 - 2 / (9 * freedom) + z * (2 / (9 * freedom)) ** 0.5) ** 3


def test_the_same_seed_generates_the_same() -> None:
    target, draft = language_model(0), language_model(1)
    rows = [
        both(
            target, draft, prompt_inputs([2], 20, key), DecodingConfig(sample=True, seed=seed)
        ).hypothesis.ids
        for seed, key in [(1, 1), (1, 1), (2, 1), (1, 2)]
    ]
    assert rows[0] == rows[1]
    assert rows[2] != rows[0] != rows[3]


def test_on_token_is_called_for_every_token() -> None:
    target, draft = language_model(0), language_model(1)
    received: list[int] = []
    decoders = [CausalLMDecoder(model, capacity=ROOM) for model in (target, draft)]
    found = speculative(
        *decoders,
        prompt_inputs([2, 5], 20),
        DecodingConfig(),
        (),
        lambda row, token: received.append(token),
    )
    assert received == found.hypothesis.ids


def test_every_token_banned_raises() -> None:
    """As in `generate`: the text ends there, unfinished."""

    def once(scores: Tensor, context: ProcessorContext) -> Tensor:
        return scores if context.generated.shape[1] < 2 else scores.fill_(-torch.inf)

    target, draft = language_model(0), language_model(1)
    processors = [Allowed([5, 6]), once]
    found = both(target, draft, prompt_inputs([2], 9), DecodingConfig(max_length=9), processors)
    assert len(found.hypothesis.ids) == 2
    assert not found.hypothesis.finished


def sure(token: int) -> LanguageModel:
    """A model that predicts one token after every token."""
    model = language_model(0)
    norm = model.decoder.stack.layers[-1].feed_forward_norm.norm
    norm.weight.zero_()
    norm.bias.fill_(1.0)
    model.output.weight.zero_()
    model.output.weight[token] = 1.0
    return model


def test_a_draft_token_without_continuation_is_not_an_error() -> None:
    """The draft may reach a dead end of a constraint; only the target's raises."""
    written = tuple(str(token).encode() if token in (5, 6, 7) else b"" for token in range(V))
    spelling = TokenBytes(written, written)
    target, draft = sure(6), sure(5)

    def constrained_to(*texts: str) -> list[Processor]:
        language = TokenAutomaton(any_text_of(texts), spelling)
        return [MinLength(3, END), Constraint(language, end_id=END, limits=[9])]

    config = DecodingConfig(max_length=9)
    found = both(target, draft, prompt_inputs([2], 9), config, constrained_to("5", "677"))
    assert found.hypothesis.ids == [6, 7, 7]
    assert found.proposed > found.accepted
    with raises(InputError, "constraint.no_token_allowed"):
        both(target, draft, prompt_inputs([2], 9), config, constrained_to("6"))


def test_refused() -> None:
    target = language_model(0)

    def write(start: GenerationInputs, config: DecodingConfig, size: int = V) -> None:
        draft = language_model(1, size=size)
        decoders = [CausalLMDecoder(model, capacity=ROOM) for model in (target, draft)]
        speculative(*decoders, start, config)

    two = GenerationInputs(torch.tensor([[2], [2]]), StoppingCriteria(END, [9, 9]), [0, 0])
    with raises(InputError, "decoding.speculative_needs_one_text"):
        write(two, DecodingConfig())
    with raises(InputError, "decoding.speculative_needs_one_text"):
        write(prompt_inputs([2], 9), DecodingConfig(beam=3))
    with raises(InputError, "decoding.speculative_needs_one_text"):
        write(prompt_inputs([2], 9), DecodingConfig(sample=True, n_best=2))
    with raises(InputError, "decoding.draft_of_other_vocabulary"):
        write(prompt_inputs([2], 9), DecodingConfig(), size=7)
    keyless = GenerationInputs(torch.tensor([[2]]), StoppingCriteria(END, [9]))
    with raises(InputError, "decoding.speculative_needs_one_text"):
        write(keyless, DecodingConfig(sample=True))

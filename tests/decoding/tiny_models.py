"""Tiny models of both kinds, and reference implementations without a cache or a batch."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from jumok.decoding import (
    DecodingConfig,
    GenerationInputs,
    GenerationRequest,
    Hypothesis,
    StoppingCriteria,
    generate_lm,
    generate_seq2seq,
)
from jumok.decoding.processors import NEG_INF, Processor, ProcessorContext
from jumok.models import EncoderDecoder, LanguageModel, TransformerConfig
from tests.nn.strategies import sequence_mask

PAD, BOS, EOS, V = 0, 2, 3, 12

KINDS = {"encoder_decoder": 8, "language_model": 10}  # seeds that generate many lengths
POSITIONS = (
    "sinusoidal",
    "sinusoidal_halves",
    "learned",
    "rotary",
    "sinusoidal_rotary",
    "relative",
    "none",
)
SIDES = ("left", "right", "both")
Model = EncoderDecoder | LanguageModel
Side = Literal["left", "right", "both"]


def model_of(kind: str, positions: str = "sinusoidal", **changes: Any) -> Model:
    """A model with larger random weights than the default, for outputs of many lengths."""
    torch.manual_seed(KINDS[kind])
    settings: dict[str, Any] = {
        "vocabulary_size": V,
        "d_model": 16,
        "n_heads": 2,
        "d_ff": 32,
        "n_layers": 2,
        "max_length": 64,
        "positions": positions,
        "tie_embeddings": False,
    }
    config = TransformerConfig(**settings | changes)
    model = EncoderDecoder(config) if kind == "encoder_decoder" else LanguageModel(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "relative" in name:
                weight.normal_()  # so that positions have an effect
            elif weight.ndim > 1:
                weight.mul_(2.0 if "cross" in name else 1.5)  # so that the source has an effect
    return model.eval().requires_grad_(False)


def texts(n: int = 8, longest: int = 7, side: Side = "right") -> tuple[Tensor, Tensor]:
    """Texts of 1 to `longest` tokens (n, longest + 1), and which tokens are real."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, longest + 1, (n,), generator=draw)
    width = longest + 1
    ids = torch.randint(4, V, (n, width), generator=draw)
    if side == "both":
        real = sequence_mask(lengths.tolist(), width).roll(1, -1)  # padding on both sides
    else:
        real = sequence_mask(lengths.tolist(), width, left=side == "left")
    return ids.masked_fill(~real, PAD), real


class MarkovDecoder:
    """A Markov chain: the next token depends only on the last."""

    def __init__(self, table: Tensor) -> None:
        self.table = table  # (V, V) logits
        self.vocabulary_size = len(table)
        self.length = 0

    def step(self, ids: Tensor) -> Tensor:
        return self.step_all(ids)[:, -1]

    def step_all(self, ids: Tensor) -> Tensor:
        self.length += ids.shape[1]
        return self.table[ids]

    def reorder(self, rows: Tensor) -> None:
        """Rows have no state."""

    def rewind(self, tokens: int) -> None:
        self.length -= tokens


class Allowed:
    """A constraint that bans every token but these."""

    def __init__(self, tokens: Iterable[int]) -> None:
        self.tokens = list(tokens)

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        rest = torch.ones(scores.shape[1], dtype=torch.bool)
        rest[self.tokens] = False
        return scores.masked_fill_(rest, NEG_INF)


def bos_inputs(n: int = 1, limit: int = 8, end_id: int = EOS) -> GenerationInputs:
    """n texts that start with [BOS], each with its own key."""
    return GenerationInputs(
        torch.full((n, 1), BOS), StoppingCriteria(end_id, [limit] * n), sample_keys=range(n)
    )


def write(
    model: Model,
    ids: Tensor,
    real: Tensor | None,
    config: DecodingConfig,
    constraints: tuple[Processor, ...] = (),
    others: Sequence[Any] = (),
) -> list[list[Hypothesis]]:
    """The output of a model of either kind, or of an ensemble with `others`."""
    request = GenerationRequest(config, EOS, constraints=constraints, ensemble=others)
    if isinstance(model, EncoderDecoder):
        return generate_seq2seq(model, ids, real, request, bos_id=BOS)
    return generate_lm(model, ids, real, request)


def log_p_of(model: Model, text: list[int], written: list[int]) -> Tensor:
    """Log-probabilities (V) of the next token, without cache, batch or padding."""
    if isinstance(model, EncoderDecoder):
        logits = model(torch.tensor([text]), torch.tensor([[BOS, *written]]))
    else:
        logits = model(torch.tensor([[*text, *written]]))
    return logits[0, -1].log_softmax(-1)


def rescored(model: Model, text: list[int], tokens: list[int]) -> list[float]:
    """The log-probability of each token, by one teacher-forced pass."""
    if isinstance(model, EncoderDecoder):
        logits = model(torch.tensor([text]), torch.tensor([[BOS, *tokens[:-1]]]))[0]
    else:
        logits = model(torch.tensor([[*text, *tokens[:-1]]]))[0, len(text) - 1 :]
    return logits.log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)].tolist()


def all_tokens(one: Hypothesis) -> list[int]:
    """The generated tokens, with the end token if there is one."""
    return [*one.ids, EOS] if len(one.log_probabilities) > len(one.ids) else one.ids


def alone(ids: Tensor, real: Tensor, row: int) -> Tensor:
    """One text without padding: (1, T)."""
    return ids[row, real[row]][None]

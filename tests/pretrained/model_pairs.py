"""One variant twice, theirs and ours, asked the same things: how far apart are the answers?

Differences are max|a-b| / max(1, max|b|) over real tokens. Shapes: B texts, T tokens, S source
tokens, D model width, V what there is to choose from.
"""

import inspect
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from jumok.models.weights import named_weights
from jumok.nn.masks import AttentionMask, positions_from_mask
from jumok.nn.positions import SinusoidalPositions
from jumok.pretrained.checkpoint import HFCheckpoint, open_checkpoint
from jumok.pretrained.name_map import expand
from jumok.pretrained.state_dict import PretrainedModel, model_from_hf
from tests.pretrained.hf_variants import VARIANTS, Variant

Padding = Literal["none", "right", "left"]  # none: as many tokens as the model holds
MAX_T5_LENGTH = 140  # of T5, which holds any number: beyond the last bucket of distances
LOW, HIGH = 5, 50  # ordinary tokens; no family has a special one among them


@dataclass(frozen=True)
class ModelPair:
    """Their model, and the files of it opened as ours."""

    variant: Variant
    hf_model: Any
    checkpoint: HFCheckpoint
    opened: PretrainedModel

    @property
    def kind(self) -> str:
        """Which of our modules it is."""
        return self.opened.architecture.head.kind

    @property
    def relative(self) -> bool:
        """Whether nobody counts positions."""
        return self.opened.architecture.config.positions == "relative"

    def train(self, mode: bool) -> None:
        """Both in train mode, or both in eval mode."""
        self.hf_model.train(mode)
        self.opened.model.train(mode)


@cache
def make_pair(name: str, dtype: torch.dtype = torch.float32) -> ModelPair:
    """The variant of this name, made once."""
    [variant] = [each for each in VARIANTS if each.name == name]
    with tempfile.TemporaryDirectory() as folder:
        theirs = variant.save(Path(folder), dtype=dtype)
        stored = open_checkpoint(Path(folder))
        opened = model_from_hf(stored.config, stored.tensors)
    if dtype == torch.float64:
        _exact(theirs, opened.model)
    return ModelPair(variant, theirs, stored, opened)


@dataclass(frozen=True)
class ParityBatch:
    """A batch of texts and, for those who write, what they have written."""

    ids: Tensor  # (B, T) int64
    attention_mask: Tensor  # (B, T) bool
    segments: Tensor | None = None  # (B, T) int64
    target: Tensor | None = None  # (B, U) int64

    def rows(self) -> Iterator["ParityBatch"]:
        """Every text by itself, without padding."""
        for row, real in enumerate(self.attention_mask):
            yield ParityBatch(
                self.ids[row, real][None],
                real[real][None],
                None if self.segments is None else self.segments[row, real][None],
                None if self.target is None else self.target[row][None],
            )


def make_batch(pair: ModelPair, padding: Padding) -> ParityBatch:
    """Random tokens: two texts as long as the model holds, or three of 11, 7 and 3 tokens."""
    config = pair.opened.architecture.config
    draw = torch.Generator().manual_seed(3)
    longest = min(config.max_length, MAX_T5_LENGTH)
    lengths = torch.tensor([longest, longest] if padding == "none" else [11, 7, 3])
    B, T = len(lengths), int(lengths.max())
    real = torch.arange(T) < lengths[:, None]
    real = real.flip(-1) if padding == "left" else real
    pad = pair.hf_model.config.pad_token_id or 0
    ids = torch.randint(LOW, HIGH, (B, T), generator=draw).masked_fill(~real, pad)
    n_segments = config.n_segments
    segments = torch.randint(n_segments, (B, T), generator=draw) if n_segments else None
    target = None
    if pair.kind == "encoder_decoder":
        target = torch.randint(LOW, HIGH, (B, T if padding == "none" else 6), generator=draw)
    return ParityBatch(ids, real, segments, target)


@dataclass(frozen=True)
class ModelOutputs:
    """What a model makes of a question; memory is what an encoder gives its decoder."""

    hidden: Tensor  # (B, T, D)
    logits: Tensor | None  # (B, T, V), (B, V) or (B, T)
    memory: Tensor | None = None  # (B, S, D)

    def at_real_tokens(self, asked: ParityBatch) -> dict[str, Tensor]:
        """Its numbers at real tokens."""
        found = {"hidden": self.hidden}
        if self.logits is not None:
            found["logits"] = self.logits
        if asked.target is None:
            found = {
                name: part[asked.attention_mask]
                if part.shape[:2] == asked.attention_mask.shape
                else part
                for name, part in found.items()
            }
        return (
            found if self.memory is None else found | {"memory": self.memory[asked.attention_mask]}
        )


def jumok_outputs(pair: ModelPair, asked: ParityBatch) -> ModelOutputs:
    """What our modules say."""
    model: Any = pair.opened.model
    ids, real, segments = asked.ids, asked.attention_mask, asked.segments
    places, mask = positions_from_mask(real), AttentionMask.from_padding(real)
    past = AttentionMask.from_padding(real, causal=True)
    match pair.kind:
        case "encoder":
            return ModelOutputs(model(ids, mask, positions=places, segments=segments), None)
        case "decoder":
            return ModelOutputs(model(ids, past, positions=places), None)
        case "language_model":
            hidden = model.decoder(ids, past, positions=places)
            return ModelOutputs(hidden, model(ids, past, positions=places))
        case "encoder_decoder":
            memory = model.encode(ids, mask, positions=places)
            hidden = model.decoder(asked.target, memory=memory, memory_mask=mask)
            answers = pair.opened.architecture.head.has_task
            logits = model.output(model.decode(asked.target, memory, mask)) if answers else None
            return ModelOutputs(hidden, logits, memory)
        case kind:
            hidden = model.encoder(ids, mask, positions=places, segments=segments)
            seen = real if kind == "text_classifier" else mask
            return ModelOutputs(hidden, model(ids, seen, positions=places, segments=segments))


def hf_outputs(pair: ModelPair, asked: ParityBatch, padding: Padding) -> ModelOutputs:
    """What transformers says.

    Of texts padded on the left it is told the positions. Where it takes none (encoders of BART and
    Marian) or looks at the first column whatever stands there (classifiers of texts), each text
    is asked about alone.
    """
    takes = inspect.signature(pair.hf_model.forward).parameters
    counts = "position_ids" in takes and pair.kind != "text_classifier"
    if padding == "left" and not counts and not pair.relative:
        return _put_together(asked, [_asked(pair, row) for row in asked.rows()])
    first = pair.opened.architecture.config.position_offset
    places = positions_from_mask(asked.attention_mask) + first
    return _asked(pair, asked, position_ids=places if padding == "left" and counts else None)


def _asked(pair: ModelPair, asked: ParityBatch, **more: Tensor | None) -> ModelOutputs:
    words = {
        "input_ids": asked.ids,
        "attention_mask": asked.attention_mask.long(),
        "token_type_ids": asked.segments,
        "decoder_input_ids": asked.target,
        **more,
    }
    given = {name: word for name, word in words.items() if word is not None}
    out = pair.hf_model(**given, output_hidden_states=True, return_dict=True)
    hidden = out.get("last_hidden_state")
    if hidden is None:
        hidden = (out.get("decoder_hidden_states") or out.hidden_states)[-1]
    logits = out.get("logits", out.get("prediction_logits"))
    return ModelOutputs(hidden, logits, out.get("encoder_last_hidden_state"))


def _put_together(asked: ParityBatch, answers: list[ModelOutputs]) -> ModelOutputs:
    """The answers about texts alone, each token at its place among the padding."""

    def spread(parts: list[Tensor]) -> Tensor:
        whole = parts[0].new_zeros(*asked.attention_mask.shape, parts[0].shape[-1])
        whole[asked.attention_mask] = torch.cat([part[0] for part in parts])
        return whole

    def joined(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts)

    place: Callable[[list[Tensor]], Tensor] = spread if asked.target is None else joined
    logits = [one.logits for one in answers if one.logits is not None]
    memory = [one.memory for one in answers if one.memory is not None]
    return ModelOutputs(
        place([one.hidden for one in answers]),
        joined(logits) if logits else None,  # (B, V) of classifiers, (B, U, V) of writers
        spread(memory) if memory else None,
    )


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """max|a-b| / max(1, max|b|); infinite for other shapes and for what is no number."""
    if ours.shape != theirs.shape or not bool((ours - theirs).isfinite().all()):
        return math.inf
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1))


def difference(pair: ModelPair, padding: Padding) -> dict[str, float]:
    """Of every part of the answers, in eval and in train mode the larger."""
    asked = make_batch(pair, padding)
    found: dict[str, float] = {}
    for mode in (False, True):
        pair.train(mode)
        with torch.no_grad():
            theirs = hf_outputs(pair, asked, padding).at_real_tokens(asked)
            ours = jumok_outputs(pair, asked).at_real_tokens(asked)
        assert ours.keys() == theirs.keys()
        for name, part in ours.items():
            found[name] = max(found.get(name, 0.0), relative_error(part, theirs[name]))
    pair.train(False)
    return found


def gradient_difference(pair: ModelPair) -> tuple[float, int]:
    """The largest over all tensors of a checkpoint, and how many there are.

    The loss is a random sum of all answers. Tensors of theirs that ours lacks must get no gradient.
    """
    asked = make_batch(pair, "right")
    pair.train(True)
    theirs, ours = hf_outputs(pair, asked, "right"), jumok_outputs(pair, asked)
    for answer, model in ((theirs, pair.hf_model), (ours, pair.opened.model)):
        model.zero_grad()
        part = answer.at_real_tokens(asked)["hidden" if ours.logits is None else "logits"]
        draw = torch.Generator().manual_seed(5)
        loss = (part * torch.randn(part.shape, generator=draw)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
    pair.train(False)
    weights = named_weights(pair.opened.model)
    gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in weights.items()}
    described = pair.opened.architecture
    mine = {each.hf_name: each for each in expand(described.name_rules(), weights)}
    prefix, worst, compared = described.family.prefix, 0.0, set()
    named = list(pair.hf_model.named_parameters(remove_duplicate=False))
    for name, parameter in named:
        entry = mine.get(name, mine.get(prefix + name))
        if entry is not None:
            wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            worst = max(worst, relative_error(entry.join(gradients), wanted))
            compared.add(id(parameter))
    rest = [p for _, p in named if id(p) not in compared and p.grad is not None]
    assert not any(bool(p.grad.any()) for p in rest), "they train what ours has not"
    return worst, len(compared)


class ExactRms(nn.Module):
    """T5's norm in the numbers that come: transformers takes the mean of squares in float32."""

    def __init__(self, theirs: Any) -> None:
        super().__init__()
        self.weight, self.eps = theirs.weight, theirs.variance_epsilon

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> the same."""
        scale: Tensor = self.weight * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return scale * x


@torch.no_grad()
def _exact(theirs: Any, ours: nn.Module) -> None:
    """Where theirs computes in less than float64, let it not.

    There are two such places: T5's norm, and the sines of Marian and Pegasus, which are rounded to
    float32 by another library: theirs become ours, from which they differ by a rounding at most.
    """
    for module in list(theirs.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__ in ("T5LayerNorm", "MT5LayerNorm"):
                setattr(module, name, ExactRms(child))
            if type(child).__name__.endswith("SinusoidalPositionalEmbedding"):
                [table, *_] = [
                    m.table for m in ours.modules() if isinstance(m, SinusoidalPositions)
                ]
                assert relative_error(table, child.weight) < 1e-7
                child.weight.copy_(table)

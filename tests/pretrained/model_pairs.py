"""A variant in transformers and in jumok, and the difference of their outputs and gradients.

Differences are max|a-b| / max(1, max|b|) over real tokens. Shapes: B texts, T tokens, S source
tokens, D model width, V outputs.
"""

import copy
import inspect
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from jumok.models.weights import named_weights
from jumok.nn.masks import positions_from_mask
from jumok.nn.positions import SinusoidalPositions
from jumok.pretrained.checkpoint import HFCheckpoint, open_checkpoint
from jumok.pretrained.name_map import expand
from jumok.pretrained.state_dict import PretrainedModel, model_from_hf
from tests.pretrained.hf_variants import VARIANTS, Variant

Padding = Literal["none", "right", "left"]  # none: texts of the maximum length
MAX_T5_LENGTH = 140  # T5 has no maximum: beyond the last distance bucket
LOW, HIGH = 5, 50  # ids that are not special tokens in any family


@dataclass(frozen=True)
class ModelPair:
    """A model of transformers, and its saved files loaded as a jumok model."""

    variant: Variant
    hf_model: Any
    checkpoint: HFCheckpoint
    opened: PretrainedModel

    @property
    def kind(self) -> str:
        """The kind of the jumok module."""
        return self.opened.architecture.head.kind

    @property
    def relative(self) -> bool:
        """Whether positions are relative."""
        return self.opened.architecture.config.positions == "relative"

    def train(self, mode: bool) -> None:
        """Both in train mode, or both in eval mode."""
        self.hf_model.train(mode)
        self.opened.model.train(mode)


@cache
def make_pair(name: str, dtype: torch.dtype = torch.float32) -> ModelPair:
    """The variant of this name, cached."""
    [variant] = [each for each in VARIANTS if each.name == name]
    return pair_of(variant, dtype)


def pair_of(variant: Variant, dtype: torch.dtype = torch.float32) -> ModelPair:
    """The variant in transformers and in jumok."""
    with tempfile.TemporaryDirectory() as folder:
        hf = variant.save(Path(folder), dtype=dtype)
        stored = open_checkpoint(Path(folder))
        opened = model_from_hf(stored.config, stored.tensors)
    if dtype == torch.float64:
        _exact(hf, opened.model)
    return ModelPair(variant, hf, stored, opened)


@dataclass(frozen=True)
class ParityBatch:
    """A batch of texts and, for encoder-decoders, their targets."""

    ids: Tensor  # (B, T) int64
    attention_mask: Tensor  # (B, T) bool
    segments: Tensor | None = None  # (B, T) int64
    target: Tensor | None = None  # (B, U) int64

    def rows(self) -> Iterator["ParityBatch"]:
        """Every text as its own batch, without padding."""
        for row, real in enumerate(self.attention_mask):
            yield ParityBatch(
                self.ids[row, real][None],
                real[real][None],
                None if self.segments is None else self.segments[row, real][None],
                None if self.target is None else self.target[row][None],
            )


def make_batch(pair: ModelPair, padding: Padding) -> ParityBatch:
    """Random tokens: two texts of the maximum length, or three of 11, 7 and 3 tokens."""
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
    """The outputs of a model; memory is the encoder output of an encoder-decoder."""

    hidden: Tensor  # (B, T, D)
    logits: Tensor | None  # (B, T, V), (B, V) or (B, T)
    memory: Tensor | None = None  # (B, S, D)

    def at_real_tokens(self, batch: ParityBatch) -> dict[str, Tensor]:
        """The outputs at real tokens."""
        mask = batch.attention_mask
        outputs = {"hidden": self.hidden}
        if self.logits is not None:
            outputs["logits"] = self.logits
        if batch.target is None:
            outputs = {
                name: part[mask] if part.shape[:2] == mask.shape else part
                for name, part in outputs.items()
            }
        return outputs if self.memory is None else outputs | {"memory": self.memory[mask]}


def jumok_outputs(pair: ModelPair, batch: ParityBatch) -> ModelOutputs:
    """The outputs of the jumok model."""
    model: Any = pair.opened.model
    mask = batch.attention_mask
    positions = positions_from_mask(mask)
    if pair.kind == "encoder_decoder":
        memory = model.encode(batch.ids, mask, positions=positions)
        hidden = model.decoder(batch.target, memory=memory, memory_mask=mask)
        has_task = pair.opened.architecture.head.has_task
        logits = model.output(model.decode(batch.target, memory, mask)) if has_task else None
        return ModelOutputs(hidden, logits, memory)
    arguments = {"positions": positions, "segments": batch.segments}
    if pair.kind in ("encoder", "decoder"):
        return ModelOutputs(model(batch.ids, mask, **arguments), None)
    hidden = model.hidden_states(batch.ids, mask, **arguments)
    return ModelOutputs(hidden, model(batch.ids, mask, **arguments))


def hf_outputs(pair: ModelPair, batch: ParityBatch, padding: Padding) -> ModelOutputs:
    """The outputs of the transformers model.

    Left-padded texts get explicit positions. Models that accept none (encoders of BART and Marian)
    or pool the first column (text classifiers) process each text separately.
    """
    takes = inspect.signature(pair.hf_model.forward).parameters
    counts = "position_ids" in takes and pair.kind != "text_classifier"
    if padding == "left" and not counts and not pair.relative:
        return _as_batch(batch, [_forward(pair, row) for row in batch.rows()])
    first = pair.opened.architecture.config.position_offset
    positions = positions_from_mask(batch.attention_mask) + first
    return _forward(pair, batch, position_ids=positions if padding == "left" and counts else None)


def _forward(pair: ModelPair, batch: ParityBatch, **more: Tensor | None) -> ModelOutputs:
    arguments = {
        "input_ids": batch.ids,
        "attention_mask": batch.attention_mask.long(),
        "token_type_ids": batch.segments,
        "decoder_input_ids": batch.target,
        **more,
    }
    arguments = {name: value for name, value in arguments.items() if value is not None}
    out = pair.hf_model(**arguments, output_hidden_states=True, return_dict=True)
    hidden = out.get("last_hidden_state")
    if hidden is None:
        hidden = (out.get("decoder_hidden_states") or out.hidden_states)[-1]
    logits = out.get("logits", out.get("prediction_logits"))
    return ModelOutputs(hidden, logits, out.get("encoder_last_hidden_state"))


def _as_batch(batch: ParityBatch, outputs: list[ModelOutputs]) -> ModelOutputs:
    """The outputs of separate texts as one padded batch."""

    def pad(parts: list[Tensor]) -> Tensor:
        whole = parts[0].new_zeros(*batch.attention_mask.shape, parts[0].shape[-1])
        whole[batch.attention_mask] = torch.cat([part[0] for part in parts])
        return whole

    def concat(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts)

    combine: Callable[[list[Tensor]], Tensor] = pad if batch.target is None else concat
    logits = [part.logits for part in outputs if part.logits is not None]
    memory = [part.memory for part in outputs if part.memory is not None]
    return ModelOutputs(
        combine([part.hidden for part in outputs]),
        concat(logits) if logits else None,  # (B, V) of classifiers, (B, U, V) of encoder-decoders
        pad(memory) if memory else None,
    )


def relative_error(jumok: Tensor, hf: Tensor) -> float:
    """max|a-b| / max(1, max|b|); infinite for different shapes and NaN."""
    if jumok.shape != hf.shape or not bool((jumok - hf).isfinite().all()):
        return math.inf
    return float((jumok - hf).abs().max() / hf.abs().max().clamp(min=1))


def difference(pair: ModelPair, padding: Padding) -> dict[str, float]:
    """The error of every output, the maximum of eval and train mode."""
    batch = make_batch(pair, padding)
    found: dict[str, float] = {}
    for mode in (False, True):
        pair.train(mode)
        with torch.no_grad():
            hf = hf_outputs(pair, batch, padding).at_real_tokens(batch)
            jumok = jumok_outputs(pair, batch).at_real_tokens(batch)
        assert jumok.keys() == hf.keys()
        for name, part in jumok.items():
            found[name] = max(found.get(name, 0.0), relative_error(part, hf[name]))
    pair.train(False)
    return found


def gradient_difference(pair: ModelPair) -> tuple[float, int]:
    """The largest gradient error over all tensors of a checkpoint, and their number."""
    found = gradients(pair)
    return max(relative_error(*both) for both in found.values()), len(found)


def gradients(pair: ModelPair) -> dict[str, tuple[Tensor, Tensor]]:
    """The gradients of jumok and of transformers, by the names of the checkpoint.

    The loss is a random sum of all outputs. Tensors that jumok does not use must get no gradient.
    """
    batch = make_batch(pair, "right")
    pair.train(True)
    hf, jumok = hf_outputs(pair, batch, "right"), jumok_outputs(pair, batch)
    for output, model in ((hf, pair.hf_model), (jumok, pair.opened.model)):
        model.zero_grad()
        part = output.at_real_tokens(batch)["hidden" if jumok.logits is None else "logits"]
        draw = torch.Generator().manual_seed(5)
        loss = (part * torch.randn(part.shape, generator=draw)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
    pair.train(False)
    weights = named_weights(pair.opened.model)
    ours = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in weights.items()}
    architecture = pair.opened.architecture
    mappings = {each.hf_name: each for each in expand(architecture.name_rules(), weights)}
    prefix, compared = architecture.family.prefix, set()
    found: dict[str, tuple[Tensor, Tensor]] = {}
    named = list(pair.hf_model.named_parameters(remove_duplicate=False))
    for name, parameter in named:
        name = pair.variant.stored_name(name)
        canonical = pair.opened.names.get(name, name)
        mapping = mappings.get(canonical, mappings.get(prefix + canonical))
        if mapping is not None and id(parameter) not in compared:
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            found[name] = (mapping.join(ours), expected)
            compared.add(id(parameter))
    rest = [p for _, p in named if id(p) not in compared and p.grad is not None]
    assert not any(bool(p.grad.any()) for p in rest), (
        "transformers trains tensors that jumok does not use"
    )
    return found


def in_float64(pair: ModelPair) -> ModelPair:
    """Both models with the same weights in float64, as the reference of rounding errors."""
    hf, model = copy.deepcopy(pair.hf_model).double(), copy.deepcopy(pair.opened.model).double()
    hf.config._attn_implementation = "sdpa"  # the eager attention takes its softmax in float32
    _exact(hf, model)
    return replace(pair, hf_model=hf, opened=replace(pair.opened, model=model))


class ExactRms(nn.Module):
    """RMSNorm in the dtype of its input: transformers computes the mean of squares in float32."""

    def __init__(self, hf: Any) -> None:
        super().__init__()
        self.weight = hf.weight
        self.eps = hf.eps if hasattr(hf, "eps") else hf.variance_epsilon
        self.offset = 1.0 if type(hf).__name__.startswith("Gemma") else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> the same."""
        scale: Tensor = (self.offset + self.weight) * (
            x.square().mean(-1, keepdim=True) + self.eps
        ).rsqrt()
        return scale * x


def _square_root(queries: Tensor, n_terms: int) -> Tensor:
    """The divisor of DeBERTa's scores in float64; transformers rounds it to float32."""
    return torch.tensor(queries.shape[-1] * n_terms, dtype=torch.float64).sqrt()


def _rotated(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """The rotation of queries and keys in their own dtype; transformers casts them to float32."""

    def rotate(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        turned = torch.cat([-second, first], -1)
        return x * cos.unsqueeze(unsqueeze_dim) + turned * sin.unsqueeze(unsqueeze_dim)

    return rotate(q), rotate(k)


@torch.no_grad()
def _exact(hf: Any, jumok: nn.Module) -> None:
    """Replace parts of transformers that compute in less than float64.

    These are the norms of T5 and Llama, the embedding scale of Gemma, the rotation of ModernBERT,
    the scale of DeBERTa, and the sinusoids of Marian and Pegasus, which another library rounds to
    float32; those are replaced by jumok's after a check that they are close.
    """
    parts = sys.modules[type(hf).__module__]
    if hasattr(parts, "ModernBertModel"):
        parts.apply_rotary_pos_emb = _rotated  # type: ignore[attr-defined]
    if hasattr(parts, "DebertaV2Model"):
        parts.scaled_size_sqrt = _square_root  # type: ignore[attr-defined]
    for module in list(hf.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__ in ("T5LayerNorm", "MT5LayerNorm") or type(
                child
            ).__name__.endswith("RMSNorm"):
                setattr(module, name, ExactRms(child))
            if type(child).__name__.startswith("Gemma") and hasattr(child, "embed_scale"):
                child.embed_scale = torch.tensor(child.embedding_dim**0.5, dtype=torch.float64)
            if type(child).__name__.endswith("SinusoidalPositionalEmbedding"):
                [table, *_] = [
                    m.table for m in jumok.modules() if isinstance(m, SinusoidalPositions)
                ]
                assert relative_error(table, child.weight) < 1e-7
                child.weight.copy_(table)

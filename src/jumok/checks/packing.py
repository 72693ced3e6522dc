"""Packed rows: several texts in one row, each attending only to itself.

Shapes: R rows, W tokens per row, N texts, V outputs per token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import CheckTarget, Outputs, batched
from jumok.data import packing
from jumok.models import (
    CharacterClassifier,
    Decoder,
    Encoder,
    EncoderDecoder,
    LanguageModel,
    MaskedLanguageModel,
    ReplacedTokenDetector,
    TokenClassifier,
)
from jumok.nn.masks import AttentionMask


def padded_without_segments(target: CheckTarget) -> Outputs:
    """The samples in a padded batch, all tokens with segment 0, as in packed rows."""
    return batched(_without_segments(target))


@torch.inference_mode()
def packed(target: CheckTarget) -> Outputs:
    """The samples packed into rows, as many in each as fit."""
    pipeline, samples = target.pipeline, _without_segments(target).samples
    model = pipeline.model
    sources = [sample.ids for sample in samples]
    targets = [sample.target for sample in samples if sample.target is not None]
    width, plan = _plan(sources, targets, pipeline.recipe.model.max_length)
    source = Rows.of(plan, sources, width, target)
    match model:
        case EncoderDecoder() if pipeline.has_logits:
            decoder = Rows.of(plan, targets, width, target)
            memory = model.encode(source.ids, source.mask(), positions=source.positions)
            cross_mask = decoder.cross_mask(source)
            mask = decoder.mask(causal=True)
            hidden = model.decode(
                decoder.ids, memory, cross_mask, mask, positions=decoder.positions
            )
            return decoder.unpack(model.output(hidden), plan)
        case Decoder() | LanguageModel():
            outputs = model(source.ids, source.mask(causal=True), positions=source.positions)
        case Encoder() | MaskedLanguageModel() | ReplacedTokenDetector() | TokenClassifier():
            outputs = model(source.ids, source.mask(), positions=source.positions)
        case CharacterClassifier():
            outputs = model.hidden_states(source.ids, source.mask(), positions=source.positions)
        case _:
            raise NotApplicable(
                "check.no_packed_rows",
                "a model of the class {type_model} does not take packed rows",
                type_model=type(model).__name__,
            )
    return source.unpack(outputs, plan)


@dataclass(frozen=True, eq=False)
class Rows:
    """Packed texts, numbered in their order; all fields (R, W)."""

    ids: Tensor
    texts: Tensor  # the number of each token's text, -1 for padding
    positions: Tensor  # restart from 0 for every text

    @classmethod
    def of(
        cls, plan: Sequence[Sequence[int]], texts: Sequence[Tensor], width: int, target: CheckTarget
    ) -> "Rows":
        """Pack the texts by the plan, on the model's device."""
        ids = [text.numpy().astype(np.int32) for text in texts]
        packed_rows = packing.fill_packed(plan, ids, width, target.padding_id)
        arrays = (packed_rows.ids, packed_rows.document_ids, packed_rows.positions)
        return cls(*(torch.from_numpy(array).to(target.pipeline.device) for array in arrays))

    def mask(self, *, causal: bool = False) -> AttentionMask:
        """Each text attends only to itself."""
        return AttentionMask.from_segments(self.texts, causal=causal)

    def cross_mask(self, source: "Rows") -> AttentionMask:
        """Each text attends to the source with the same number."""
        same = self.texts[:, :, None] == source.texts[:, None, :]  # (R, W, W)
        return AttentionMask((same & (source.texts >= 0)[:, None, :])[:, None])

    def unpack(self, outputs: Tensor, plan: Sequence[Sequence[int]]) -> Outputs:
        """The outputs (R, W, V) of each text, in the order of the samples."""
        n_texts = sum(map(len, plan))
        outputs, texts = outputs.float().cpu(), self.texts.cpu()
        parts = [outputs[texts == number] for number in range(n_texts)]
        return _in_order([part if part.ndim == 2 else part[:, None] for part in parts], plan)


def _plan(
    sources: Sequence[Tensor], targets: Sequence[Tensor], max_length: int
) -> tuple[int, list[list[int]]]:
    """The width of rows (twice the longest text, at most max_length), and the texts of each row.

    A source and its target are in rows of the same number, so both must fit.
    """
    lengths = np.array([len(ids) for ids in sources])
    if targets:
        lengths = np.maximum(lengths, [len(ids) for ids in targets])
    width = min(2 * int(lengths.max()), max_length)
    rows = packing.plan_packing(lengths, np.arange(len(lengths)), width)
    return width, [rows[row].tolist() for row in range(len(rows))]


def _in_order(outputs: Outputs, plan: Sequence[Sequence[int]]) -> Outputs:
    """Outputs in the order of the plan -> outputs in the order of the samples."""
    order = [sample for row in plan for sample in row]
    return [outputs[order.index(sample)] for sample in range(len(order))]


def _without_segments(target: CheckTarget) -> CheckTarget:
    return target.with_samples([replace(sample, segments=None) for sample in target.samples])

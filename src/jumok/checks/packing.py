"""Packed: several texts end to end in one row, each attending to itself alone.

Shapes: R rows, W tokens a row, N texts, V outputs a token, L outputs a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import Answers, Subject, batched
from jumok.data import packing
from jumok.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    LanguageModel,
    MaskedLanguageModel,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
)
from jumok.nn.masks import AttentionMask


def padded_without_segments(subject: Subject) -> Answers:
    """The samples in a padded batch, all tokens of segment 0 as they are in packed rows."""
    return batched(_without_segments(subject))


@torch.inference_mode()
def packed(subject: Subject) -> Answers:
    """The samples end to end in rows, as many in each as find room."""
    model, samples = subject.loaded.model, _without_segments(subject).samples
    read = [sample.ids for sample in samples]
    written = [sample.target for sample in samples if sample.target is not None]
    width, plan = _plan(read, written, subject.loaded.recipe.model.max_length)
    source = Rows.of(plan, read, width, subject)
    match model:
        case TextClassifier(pooling="compare"):
            raise NotApplicable("pairs that are compared are not packed")
        case TextClassifier():
            answers = model.forward_packed(source.ids, source.texts, source.positions, len(samples))
            return _in_order(list(answers.float().cpu()), plan)
        case EncoderDecoder() if subject.loaded.has_logits:
            target = Rows.of(plan, written, width, subject)
            memory = model.encode(source.ids, source.mask(), positions=source.positions)
            across = target.looking_at(source)
            mask = target.mask(causal=True)
            hidden = model.decode(target.ids, memory, across, mask, positions=target.positions)
            return target.of_each(model.output(hidden), plan)
        case Decoder() | LanguageModel():
            answers = model(source.ids, source.mask(causal=True), positions=source.positions)
        case Encoder() | MaskedLanguageModel() | ReplacedTokenDetector() | TokenClassifier():
            answers = model(source.ids, source.mask(), positions=source.positions)
        case _:
            raise NotApplicable(f"no packed rows are read by this {type(model).__name__}")
    return source.of_each(answers, plan)


@dataclass(frozen=True, eq=False)
class Rows:
    """Texts end to end, numbered in the order they stand; all (R, W)."""

    ids: Tensor
    texts: Tensor  # the number of the text a token belongs to, -1 on padding
    positions: Tensor  # from 0 with every text

    @classmethod
    def of(
        cls, plan: Sequence[Sequence[int]], texts: Sequence[Tensor], width: int, subject: Subject
    ) -> "Rows":
        """The texts laid out by the plan, on the model's device."""
        ids = [text.numpy().astype(np.int32) for text in texts]
        box = packing.fill_packed(plan, ids, width, subject.filler)
        arrays = (box.ids, box.document_ids, box.positions)
        return cls(*(torch.from_numpy(array).to(subject.loaded.device) for array in arrays))

    def mask(self, *, causal: bool = False) -> AttentionMask:
        """Each text attends to itself."""
        return AttentionMask.from_segments(self.texts, causal=causal)

    def looking_at(self, source: "Rows") -> AttentionMask:
        """Each text attends to the source of its own number."""
        same = self.texts[:, :, None] == source.texts[:, None, :]  # (R, W, W)
        return AttentionMask((same & (source.texts >= 0)[:, None, :])[:, None])

    def of_each(self, answers: Tensor, plan: Sequence[Sequence[int]]) -> Answers:
        """The answers (R, W, V) of each text, in the order of the samples."""
        n_texts = sum(map(len, plan))
        answers, texts = answers.float().cpu(), self.texts.cpu()
        parts = [answers[texts == number] for number in range(n_texts)]
        return _in_order([part if part.ndim == 2 else part[:, None] for part in parts], plan)


def _plan(
    read: Sequence[Tensor], written: Sequence[Tensor], longest: int
) -> tuple[int, list[list[int]]]:
    """How wide rows are (twice the longest text where the model holds that), and who stands where.

    A source and its target stand in the same row, so both must find room.
    """
    lengths = np.array([len(ids) for ids in read])
    if written:
        lengths = np.maximum(lengths, [len(ids) for ids in written])
    width = min(2 * int(lengths.max()), longest)
    return width, packing.plan_packing(lengths, np.arange(len(lengths)), width)


def _in_order(answers: Answers, plan: Sequence[Sequence[int]]) -> Answers:
    """Answers in the order the texts stand, brought into the order of the samples."""
    stands = [sample for row in plan for sample in row]
    return [answers[stands.index(sample)] for sample in range(len(stands))]


def _without_segments(subject: Subject) -> Subject:
    return subject.asked_about([replace(sample, segments=None) for sample in subject.samples])

"""Masked language modeling that also learns the hidden states of teachers.

The loss of Sanh et al. 2019, "DistilBERT", section 3: that of the masked tokens and the cosine with
the states of a teacher that reads the whole text. Here a teacher may have other pieces and another
width: the state of a piece is the mean of those at its characters, reduced to its principal
components. They are the targets of the first half of the model's states; the second half is free.
Shapes: n texts, B of a batch, T tokens, P pieces, N tokens with a target, S width of the teachers,
D of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.config_io import check_range
from jumok.data.resumable_loader import Epoch
from jumok.data.splits import Splits
from jumok.errors import InputError
from jumok.inference.optimization import optimize, unsupported_reason
from jumok.lab.distillation.projection import Projection
from jumok.models import Encoder
from jumok.tasks.inputs.batches import (
    EVAL_BATCH_TOKENS,
    LazyBatches,
    batches_by_length,
    collate,
)
from jumok.tasks.inputs.special_tokens import build_inputs, length_limit
from jumok.tasks.masked_lm import (
    MaskedBatch,
    MaskedLMJob,
    TokenPlaces,
    hidden_states,
    transform_masked,
)
from jumok.text.offsets import Span
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

FITTED_ROWS = 4_000  # from which the principal components are computed, evenly spaced


@dataclass(frozen=True)
class TeacherStates:
    """The hidden states of an encoder at the characters of texts."""

    encoder: nn.Module  # an `Encoder`, optimized on a CPU
    tokenizer: Tokenizer
    max_length: int
    device: torch.device

    @classmethod
    def load(cls, name: str, layer: int, device: torch.device) -> "TeacherStates":
        """The encoder of a run or folder up to a layer, 0 for all; int8 on a CPU.

        Raises InputError for another model, and for a layer that it does not have.
        """
        from jumok.tasks.runs.load import load  # loads pipelines of all tasks

        teacher = load(name, str(device))
        encoder = getattr(teacher.model, "encoder", teacher.model)
        if not isinstance(encoder, Encoder):
            raise InputError(
                "task.teacher_not_an_encoder",
                "distillation.teachers must be encoders, got {type_encoder} in {name}; remove it",
                type_encoder=type(encoder).__name__,
                name=name,
            )
        layers = encoder.stack.layers
        check_range("distillation.layer", layer, f"[0, {len(layers)}]")
        encoder.stack.layers = layers[: layer or None]
        optimized = device.type == "cpu" and unsupported_reason(encoder) is None
        return cls(
            optimize(encoder, "int8") if optimized else encoder.eval(),
            teacher.vocabulary,
            teacher.recipe.model.max_length,
            device,
        )

    @torch.inference_mode()
    def __call__(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> tuple[Tensor, Tensor]:
        """The mean state of the characters of each span: (P, S) float32, and which have one, (P,).

        The spans of all texts follow one another. A span has none if the teacher's tokens cover
        none of its characters: it is a space, or the text is too long for the teacher.
        """
        encodings = [self.tokenizer.encode_with_offsets(text) for text in texts]
        before, after = self.tokenizer.input_template.n_before_and_after()
        limit = length_limit(self.tokenizer, self.max_length)
        ids = [encoding.ids[: limit - before - after] for encoding in encodings]
        rows = build_inputs(self.tokenizer, Ragged.from_lists(ids), None, limit)
        first = np.cumsum([0, *map(len, spans)])
        total: Tensor | None = None
        counts = torch.zeros(int(first[-1]), device=self.device)
        for examples in batches_by_length(rows, EVAL_BATCH_TOKENS):
            batch = collate([rows[i] for i in examples], self.tokenizer.padding_id, self.device)
            with torch.autocast(self.device.type, torch.bfloat16, self.device.type == "cuda"):
                hidden = self.encoder(batch.input_ids, batch.attention_mask)  # (B, T, S)
            pieces, tokens = [], []
            for row, i in enumerate(examples):
                offsets = encodings[i].offsets[: len(ids[i])]
                piece, token = _links(len(texts[i]), spans[i], offsets)
                pieces.append(first[i] + piece)
                tokens.append(row * hidden.shape[1] + before + token)
            at = torch.from_numpy(np.concatenate(pieces)).to(self.device)
            states = hidden.flatten(0, 1)[torch.from_numpy(np.concatenate(tokens)).to(self.device)]
            if total is None:
                total = hidden.new_zeros((len(counts), hidden.shape[-1]), dtype=torch.float32)
            total.index_add_(0, at, states.float())
            counts.index_add_(0, at, torch.ones_like(at, dtype=torch.float32))
        assert total is not None  # a text at least
        return total / counts.clamp(min=1)[:, None], counts > 0


def _links(
    length: int, spans: Sequence[Span], offsets: Sequence[Span]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each character that a span and a token cover, the number of both.

    >>> _links(4, [(0, 1), (1, 4)], [(0, 2), (3, 4)])
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    token_at = np.full(length, -1)
    for number, (start, stop) in enumerate(offsets):
        token_at[start:stop] = number
    characters = [np.arange(start, stop) for start, stop in spans]
    piece = np.repeat(np.arange(len(spans)), [len(each) for each in characters])
    token = token_at[np.concatenate([np.empty(0, np.int64), *characters])]
    return piece[token >= 0], token[token >= 0]


@dataclass(frozen=True, kw_only=True)
class StateBatch(MaskedBatch):
    """Masked texts, and the targets of the tokens that have one."""

    targets: Tensor  # (N, D / 2) float32, of length 1
    at: Tensor  # (N,) int64: indices into the (B * T) tokens


class StateDistillationJob(MaskedLMJob):
    """Trains a masked language model whose states also learn those of teachers."""

    def prepare(self, splits: Splits) -> None:
        """Load the teachers and find the principal components of their states.

        Raises InputError for a teacher that is not an encoder, and for a tokenizer that rewrites
        every text.
        """
        super().prepare(splits)
        config = self.recipe.distillation
        self.teachers = [
            TeacherStates.load(name, config.layer, self.device) for name in config.teachers
        ]
        texts = self.encode.ids(self.train)
        n_special = self.tokenizer.input_template.n_special(paired=False)
        lengths = self._cut(texts).lengths - n_special
        starts = np.cumsum(lengths) - lengths  # of the rows in the ids of all texts
        self.text = np.searchsorted(texts.offsets, starts, side="right") - 1
        self.start, self.lengths = starts - texts.offsets[self.text], lengths
        rows = np.linspace(0, len(lengths) - 1, min(FITTED_ROWS, len(lengths))).astype(np.int64)
        spelled, spans, _ = self._spelled(rows)
        states, known = self._states(spelled, spans)
        if not known.any():
            raise InputError(
                "task.tokenizer_changes_characters",
                "the tokenizer must keep the characters of the training texts, so that their "
                "pieces have the states of a teacher, but rewrites all {n_rows} that were read; "
                'use one with normalization "nfc" and without byte_fallback',
                n_rows=len(rows),
            )
        width = self.recipe.model.d_model // 2
        fitted = Projection.fit(states[known].cpu().numpy(), width, width)
        self.mean = torch.from_numpy(fitted.mean).to(self.device)
        self.components = torch.from_numpy(fitted.components).to(self.device)

    def epoch(self, number: int) -> Epoch[MaskedBatch]:
        """The batches of an epoch with the targets of their tokens."""
        batches = self.batches(number)

        def build(indices: NDArray[np.int64]) -> StateBatch:
            (index,) = indices.tolist()
            batch = batches[index]
            targets, at = self.targets(batches.places(index))
            values = {field.name: getattr(batch, field.name) for field in fields(MaskedBatch)}
            return StateBatch(**values, targets=targets, at=at)

        return LazyBatches(list(np.arange(len(batches))[:, None]), build)

    def targets(self, places: TokenPlaces) -> tuple[Tensor, Tensor]:
        """The targets (N, D / 2) of the tokens of a batch, and their indices (N,)."""
        rows, row = np.unique(places.rows, return_inverse=True)  # the number and the index of each
        spelled, spans, positions = self._spelled(rows[rows >= 0])
        states, known = self._states(spelled, spans)
        numbers = np.split(np.arange(len(states)), np.cumsum([len(each) for each in spans])[:-1])
        width = max(map(max, filter(None, positions)), default=0)
        width = 1 + max(width, int(places.positions.max()))
        table = np.full((len(rows), width), -1)  # the state of each position of each row
        for index, (at, number) in enumerate(zip(positions, numbers, strict=True)):
            table[index + (rows[0] < 0), at] = number
        state = table[row, places.positions]
        found = np.flatnonzero((state >= 0) & known.cpu().numpy()[state])
        chosen = states[torch.from_numpy(state[found]).to(self.device)]
        targets = F.normalize((chosen - self.mean) @ self.components, dim=-1)
        return targets, torch.from_numpy(found).to(self.device)

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Cross-entropy of the masked tokens, summed, and 1 - cosine of the states.

        The mean of the latter over the tokens counts `distillation.weight` times for each masked
        token.
        """
        assert isinstance(batch, StateBatch)
        hidden = hidden_states(self.model, batch)  # (B, T, D)
        loss = self.loss_of(*transform_masked(self.model, hidden, batch), batch)
        if not len(batch.at):
            return loss
        ours = hidden.flatten(0, 1).index_select(0, batch.at)[:, : batch.targets.shape[-1]]
        cosines = (F.normalize(ours.float(), dim=-1) * batch.targets).sum(-1)  # (N,)
        weight = self.recipe.distillation.weight * len(batch.labels)
        return loss + weight * (1 - cosines.mean())

    def _spelled(
        self, rows: NDArray[np.int64]
    ) -> tuple[list[str], list[list[Span]], list[list[int]]]:
        """The text of each row, the characters of its pieces that cover any, and their positions.

        A text that the tokenizer rewrites has none.
        """
        before, _ = self.tokenizer.input_template.n_before_and_after()
        texts, spans, positions = [], [], []
        for row in rows:
            text, start = self.train[int(self.text[row])], int(self.start[row])
            try:
                offsets = self.tokenizer.encode_with_offsets(text).offsets
            except InputError:
                offsets = []
            found = [
                (before + position, span)
                for position, span in enumerate(offsets[start : start + int(self.lengths[row])])
                if span[0] < span[1]
            ]
            first = found[0][1][0] if found else 0
            last = found[-1][1][1] if found else 0
            texts.append(text[first:last])
            spans.append([(i - first, j - first) for _, (i, j) in found])
            positions.append([position for position, _ in found])
        return texts, spans, positions

    def _states(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> tuple[Tensor, Tensor]:
        """The states (P, S), one teacher's next to another's, and which spans have them."""
        states, known = zip(*(teacher(texts, spans) for teacher in self.teachers), strict=True)
        return torch.cat(states, -1), torch.stack(known).all(0)

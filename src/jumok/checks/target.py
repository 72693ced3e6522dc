"""Who is checked: a loaded model and what it is asked, all at once unless a way says otherwise.

Shapes: B samples, S tokens read, T tokens written, V outputs a token, L outputs a text.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from jumok.data.packing import pad
from jumok.models import EncoderDecoderClassifier, TextClassifier
from jumok.tasks.pipeline.pipeline import Pipeline

Answers = list[Tensor]  # one a sample, float32 on the CPU: (L,) of a text, (n, V) of its n tokens


@dataclass(frozen=True, eq=False)
class Sample:
    """The ids of one text, and what its decoder has written where the model has one to write."""

    ids: Tensor  # (S,) int64
    segments: Tensor | None = None  # (S,) int64
    target: Tensor | None = None  # (T,) int64


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and what it is asked; `filler` is any id: nothing may depend on what padding holds.

    The first `n_texts` samples come from real texts, the others were drawn at random.
    """

    loaded: Pipeline
    samples: Sequence[Sample]
    n_texts: int = 0
    filler: int = 0

    def with_model(self, model: nn.Module) -> "Subject":
        """The same questions to another module in the place of the model; the model is let be."""
        loaded = copy.copy(self.loaded)
        loaded.model = model
        return replace(self, loaded=loaded)

    def asked_about(self, samples: Sequence[Sample]) -> "Subject":
        """The same model asked about other samples."""
        return replace(self, samples=samples)


Way = Callable[[Subject], Answers]  # a way to ask; raises NotApplicable where it makes no sense


def batched(subject: Subject) -> Answers:
    """All samples in one batch, padding on the right."""
    return _together(subject, left=False)


def padded_left(subject: Subject) -> Answers:
    """All samples in one batch, what is read padded on the left.

    What is written is padded on the right as always: a decoder sees nothing to its right.
    """
    return _together(subject, left=True)


def alone(subject: Subject) -> Answers:
    """Each sample by itself, without any padding."""
    return [batched(subject.asked_about([sample]))[0] for sample in subject.samples]


def of_each(answers: Tensor, real: Tensor) -> Answers:
    """The answers of a batch to its real tokens, one tensor a sample.

    answers (B, n, V), or (B, n) of one output a token; real (B, n).

    >>> real = torch.tensor([[True, False], [True, True]])
    >>> [tuple(answer.shape) for answer in of_each(torch.zeros(2, 2, 7), real)]
    [(1, 7), (2, 7)]
    """
    answers, real = answers.float().cpu(), real.cpu()
    if answers.ndim == 2:
        answers = answers[..., None]
    return [answer[mine] for answer, mine in zip(answers, real, strict=True)]


def padded(rows: Sequence[Tensor], filler: int, *, left: bool = False) -> tuple[Tensor, Tensor]:
    """Rows (n_i,) as one rectangle, and where they stand in it: (B, n) int64, (B, n) bool.

    >>> ids, real = padded([torch.tensor([4, 5]), torch.tensor([6])], 9, left=True)
    >>> ids.tolist(), real.int().tolist()
    ([[4, 5], [9, 6]], [[1, 1], [0, 1]])
    """
    box = pad([row.numpy() for row in rows], filler, left=left)
    return torch.from_numpy(box.ids), torch.from_numpy(box.mask)


def _together(subject: Subject, *, left: bool) -> Answers:
    loaded, samples = subject.loaded, subject.samples
    ids, real = padded([sample.ids for sample in samples], subject.filler, left=left)
    marks = [sample.segments for sample in samples if sample.segments is not None]
    segments = padded(marks, 0, left=left)[0].to(loaded.device) if marks else None
    written = [sample.target for sample in samples if sample.target is not None]
    target, answered = padded(written, subject.filler) if written else (None, real)
    ask = loaded.logits if loaded.has_logits else loaded.hidden_states
    answers = ask(ids.to(loaded.device), real.to(loaded.device), segments, target)
    if isinstance(loaded.model, TextClassifier | EncoderDecoderClassifier):
        return list(answers.cpu())
    return of_each(answers, answered)

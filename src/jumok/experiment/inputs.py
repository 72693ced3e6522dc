"""What an experiment reads: texts, token ids or a data set, as batches for a copy of the model.

Shapes: B sequences, n rows of data, T tokens, V vocabulary.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.config_io import suggest
from jumok.data.packing import pad
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.interpret.sequences import continuation_sequence, source_sequence
from jumok.models import EncoderDecoder, EncoderDecoderClassifier, LanguageModel
from jumok.models import points as model_points
from jumok.models.points import Edit, Point, Side, backbones_by_side, hooked
from jumok.nn.hooks import shared_copy
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, IGNORE_INDEX, batches_by_length
from jumok.tasks.inputs.special_tokens import build_target
from jumok.tasks.inputs.text_encoder import TextInputs, token_type_ids, uses_token_types
from jumok.tasks.pipeline.model_inputs import check_range
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.tasks.runs.own_data import table_of
from jumok.terminal import print_message
from jumok.text.ragged import Ragged

Model: TypeAlias = Pipeline | nn.Module
Ids: TypeAlias = Sequence[Sequence[int]] | Tensor | NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Batch:
    """Some rows of the data, padded on the right, on the device of the model.

    `rows` (B,) are their numbers in the data. `ids` and `mask` (True: a real token) are (B, T) for
    each side that the model reads. `labels` (B, T) are the next tokens of a model that generates,
    -1 where there is none; None for other models.
    """

    rows: Tensor
    ids: Mapping[Side, Tensor]
    mask: Mapping[Side, Tensor]
    segments: Tensor | None = None
    labels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def places(self) -> NDArray[np.int64]:
        """`rows` as an index of numpy: it takes a tensor of one number for a number."""
        return self.rows.cpu().numpy()

    def at(self, logits: Tensor, tokens: Tensor | int = -1) -> Tensor:
        """The logits (B, V) of a token of each row, of (B, T, V); those of a text, (B, L), as is.

        tokens: an index or (B,); negative ones count from the last real token.
        """
        if logits.ndim == 2:
            return logits
        lengths = list(self.mask.values())[-1].sum(1)  # of the side of the logits
        places = torch.as_tensor(tokens, device=lengths.device).expand_as(lengths)
        return logits[torch.arange(len(self)), places + lengths * (places < 0)]

    def repeat(self, n: int) -> "Batch":
        """The rows n times, one copy after the other."""

        def several(x: Tensor) -> Tensor:
            return x.repeat(n, *[1] * (x.ndim - 1))

        return Batch(
            several(self.rows),
            {side: several(x) for side, x in self.ids.items()},
            {side: several(x) for side, x in self.mask.items()},
            None if self.segments is None else several(self.segments),
            None if self.labels is None else several(self.labels),
        )


@dataclass(frozen=True)
class Data:
    """Token ids of the sides that a model reads; `read` makes it, every function accepts it."""

    ids: Mapping[Side, Sequence[Sequence[int]]]
    segments: Sequence[Sequence[int]] | None = None
    labels: Sequence[Sequence[int]] | None = None
    reader: tuple[str, str] = "", ""  # the sides and the vocabularies of the model that read it

    def __len__(self) -> int:
        return len(self.ids[self.side])

    @property
    def side(self) -> Side:
        """The side of the logits and labels: that of the last stack."""
        return list(self.ids)[-1]

    def lengths(self, side: Side) -> NDArray[np.int64]:
        """The number of tokens of each row."""
        return np.array([len(row) for row in self.ids[side]], np.int64)

    def take(self, rows: NDArray[np.int64]) -> "Data":
        """Some rows, in this order."""

        def chosen(values: Sequence[Sequence[int]]) -> list[Sequence[int]]:
            return [values[i] for i in rows.tolist()]

        ids = {side: chosen(values) for side, values in self.ids.items()}
        segments = None if self.segments is None else chosen(self.segments)
        labels = None if self.labels is None else chosen(self.labels)
        return replace(self, ids=ids, segments=segments, labels=labels)

    def batches(self, device: torch.device, tokens: int = EVAL_BATCH_TOKENS) -> Iterator[Batch]:
        """All rows, those of similar length together, up to `tokens` padded tokens in a batch."""
        lengths = np.stack([self.lengths(side) for side in self.ids], 1)
        for rows in batches_by_length(lengths if lengths.shape[1] > 1 else lengths[:, 0], tokens):
            yield self.batch(rows, device)

    def batch(self, rows: NDArray[np.int64], device: torch.device) -> Batch:
        """These rows as one batch."""

        def padded(values: Sequence[Sequence[int]], fill: int) -> tuple[Tensor, Tensor]:
            made = pad([values[i] for i in rows], fill)
            ids = torch.from_numpy(made.ids).to(device)
            return ids, torch.from_numpy(made.mask).to(device)

        sides = {side: padded(values, 0) for side, values in self.ids.items()}
        return Batch(
            torch.from_numpy(rows).to(device),
            {side: ids for side, (ids, _) in sides.items()},
            {side: mask for side, (_, mask) in sides.items()},
            None if self.segments is None else padded(self.segments, 0)[0],
            None if self.labels is None else padded(self.labels, IGNORE_INDEX)[0],
        )


class Subject:
    """A copy of a model for hooks, which shares its weights, and its forward pass.

    `points` are its points by name.
    """

    def __init__(self, model: Model) -> None:
        self.pipeline = model if isinstance(model, Pipeline) else None
        module = model.model if isinstance(model, Pipeline) else model
        if not isinstance(module, nn.Module):
            raise InputError(
                "experiment.model_type",
                "the model must be a pipeline or an nn.Module, got {type}; try jumok.load(...)",
                type=type(module).__name__,
            )
        self.module = shared_copy(module).eval()
        self.points = model_points.points(self.module)
        self.device = next(module.parameters()).device
        self.has_logits = self.pipeline is None or self.pipeline.has_logits

    def __call__(self, batch: Batch) -> Tensor:
        """The logits of a batch; the last hidden states of a model without a head."""
        forward: Callable[..., Tensor] = (
            self.module if self.has_logits else self.module.hidden_states  # type: ignore[assignment]
        )
        sides: list[Side] = [side for side in ("source", "target") if side in batch.ids]
        ids = [batch.ids[side] for side in sides]
        masked = sides[:1] if isinstance(self.module, EncoderDecoderClassifier) else sides
        masks = [None if batch.mask[side].all() else batch.mask[side] for side in masked]
        segments = {} if batch.segments is None else {"segments": batch.segments}
        return forward(*ids, *masks, **segments)

    def run(
        self,
        batch: Batch,
        read: Sequence[str] = (),
        edit: Mapping[str, Edit] | None = None,
        *,
        gradients: bool = False,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The logits of a batch and the activations of `read`, with the changes of `edit`."""
        grad = torch.enable_grad() if gradients else torch.no_grad()
        with grad, hooked(self.module, read, edit) as found:
            logits = self(batch)
        return logits, found

    def names(self, patterns: str | Iterable[str], *, exact: bool = False) -> list[str]:
        """The points that match patterns such as "decoder.*.weights", in the model's order.

        Raises InputError for a pattern, or with `exact` for a name, without a point.
        """
        found: set[str] = set()
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            matching = {
                name
                for name in self.points
                if name == pattern or (not exact and fnmatchcase(name, pattern))
            }
            if not matching:
                raise InputError(
                    "experiment.unknown_point",
                    "{pattern!r} must be the name of a point of the model, or a pattern of them "
                    "({suggest}); jumok.experiment.points(model) lists all",
                    pattern=pattern,
                    suggest=suggest(pattern, list(self.points)),
                )
            found |= matching
        return [name for name in self.points if name in found]


def points(model: Model) -> dict[str, Point]:
    """The points of a model by name: their axes, and the sequences of T and S.

    >>> import jumok
    >>> points(jumok.load("note", device="cpu"))["cross.0.weights"].sides
    ('target', 'source')
    """
    return Subject(model).points


def read(model: Model, data: object) -> Data:
    """The token ids of data, as the model reads them.

    data: texts as for `Pipeline.predict`, a tuple of two for a pair; for an encoder-decoder tuples
    of a source and a target. Or token ids, (n, T) or rows of any length, with special tokens as
    they are; for an encoder-decoder a tuple of sources and decoder inputs. Or a data set as for
    `jumok.evaluate`: a path, dicts, a frame. A model without a tokenizer (an nn.Module) reads ids
    only. Texts that are too long are truncated, with a notice.

    >>> import jumok
    >>> data = read(jumok.load("note", device="cpu"), [("겨울은 추워요.", "Winter is cold.")])
    >>> data.lengths("source"), data.lengths("target")
    (array([7]), array([7]))

    Raises InputError for data that are none of these, or empty, and for those that were read with
    a model of other sides or vocabularies.
    """
    reader = _reader(model)
    if not isinstance(data, Data):
        return replace(_read(model, data), reader=reader)
    if any(mine and its and mine != its for mine, its in zip(reader, data.reader, strict=True)):
        raise InputError(
            "experiment.data_of_another_model",
            "data must have been read with the vocabulary of this model, got token ids of "
            "another one; give the texts",
        )
    return data


def _reader(model: Model) -> tuple[str, str]:
    """What token ids depend on: the sides of a model, and its vocabularies, "" without one."""
    module = model.model if isinstance(model, Pipeline) else model
    sides = backbones_by_side(module).items()
    sizes = ", ".join(f"{side} {each.embedding.tokens.num_embeddings}" for side, each in sides)
    if not isinstance(model, Pipeline) or model.vocabulary_or_none is None:
        return sizes, ""
    return sizes, f"{model.vocabulary.identity} {model.target_vocabulary.identity}"


def _read(model: Model, data: object) -> Data:
    """The same of what is not read yet."""
    first = _first(data)
    if isinstance(first, str) or (isinstance(first, tuple | list) and _are_texts(first)):
        assert isinstance(data, Sequence)
        return _of_texts(_pipeline(model), data)
    if _are_ids(first) or (isinstance(data, tuple) and _are_ids(_first(first))):
        return _of_ids(model, data)
    pipeline = _pipeline(model)
    return _of_table(
        pipeline, table_of(data, pipeline.recipe, pipeline.labels, pipeline.paired_columns)
    )


def read_split(pipeline: Pipeline, split: str, most: int) -> Data:
    """At most `most` rows of a split of the data of the model's recipe, at even distances.

    >>> import jumok
    >>> len(read_split(jumok.load("note", device="cpu"), "dev", most=5))
    5

    Raises InputError for data that are not there.
    """
    table = evaluation_tables(pipeline.recipe, split, pipeline.labels)[split]
    chosen = np.zeros(len(table), np.bool_)
    chosen[np.linspace(0, len(table) - 1, min(most, len(table))).astype(np.int64)] = True
    return replace(_of_table(pipeline, table.keep(chosen)), reader=_reader(pipeline))


def _of_table(pipeline: Pipeline, table: Table) -> Data:
    if "source" in table.column_names:
        columns = table.column("source"), table.column("target")
        return _of_texts(pipeline, list(zip(*columns, strict=True)))
    texts = TextInputs.from_table(table, pipeline.recipe.data.pieces)
    if texts.pairs is None:
        return _of_texts(pipeline, texts.texts)
    return _of_texts(pipeline, list(zip(texts.texts, texts.pairs, strict=True)))


def split_rows(data: Data) -> tuple[Data, Data]:
    """The data without every tenth row, and these rows; a single row is in both."""
    if len(data) < 2:
        return data, data
    rows = np.arange(len(data))
    return data.take(rows[rows % 10 > 0]), data.take(rows[rows % 10 == 0])


def read_alike(model: Model, data: object, other: object) -> tuple[Data, Data]:
    """Both data, of which row i must have as many tokens. Raises InputError where it has not."""
    first, second = read(model, data), read(model, other)
    if len(first) != len(second):
        raise InputError(
            "experiment.different_counts",
            "both data must have equally many rows, got {n} and {m}",
            n=len(first),
            m=len(second),
        )
    for side in first.ids:
        n, m = first.lengths(side), second.lengths(side)
        if (n != m).any():
            row = int((n != m).argmax())
            raise InputError(
                "experiment.different_lengths",
                "row i of both data must have equally many tokens, got {n} and {m} in the {side} "
                "of row {row}; try texts that differ in words of equally many pieces",
                n=int(n[row]),
                m=int(m[row]),
                side=side,
                row=row,
            )
    return first, second


def paired_batches(subject: Subject, data: Data, other: Data) -> Iterator[tuple[Batch, Batch]]:
    """The same rows of both data, batch by batch."""
    for batch in data.batches(subject.device):
        yield batch, other.batch(batch.places, subject.device)


def _pipeline(model: Model) -> Pipeline:
    if not isinstance(model, Pipeline):
        raise InputError(
            "experiment.needs_pipeline",
            "texts need a model from jumok.load, got {kind}; give token ids",
            kind=type(model).__name__,
        )
    return model


def _first(data: Any) -> Any:
    """The first row of a sequence; None of anything else, as of a path."""
    if isinstance(data, str | os.PathLike | Mapping) or not hasattr(data, "__getitem__"):
        return None
    is_frame = hasattr(data, "columns") or hasattr(data, "column_names")
    return data[0] if hasattr(data, "__len__") and len(data) and not is_frame else None


def _are_texts(row: Sequence[object]) -> bool:
    return len(row) == 2 and all(isinstance(part, str) for part in row)


def _are_ids(row: Any) -> bool:
    """Whether a row has token ids."""
    if isinstance(row, Tensor | np.ndarray):
        return row.ndim == 1
    if not isinstance(row, Sequence) or isinstance(row, str):
        return False
    return all(isinstance(i, int | np.integer) for i in row[:1])


def _of_ids(model: Model, data: Any) -> Data:
    module = model.model if isinstance(model, Pipeline) else model
    sides = list(backbones_by_side(module))
    parts = data if isinstance(data, tuple) and not _are_ids(data[0]) else (data,)
    rows = [[list(map(int, row)) for row in part] for part in parts]
    if isinstance(module, EncoderDecoderClassifier) and len(rows) == 1:
        start = _pipeline(model).vocabulary.decoder_start_id
        rows.append([[start]] * len(rows[0]))
    if len(rows) != len(sides) or len({len(part) for part in rows}) > 1 or not all(map(all, rows)):
        raise InputError(
            "experiment.ids_of_sides",
            "token ids must be rows with at least one id for each of {sides}, got {counts} "
            "rows; give an encoder-decoder a tuple of equally many sources and decoder inputs",
            sides=", ".join(sides),
            counts=", ".join(str(len(part)) for part in rows),
        )
    for side, part in zip(sides, rows, strict=True):
        size = backbones_by_side(module)[side].embedding.tokens.num_embeddings
        check_range(f"{side} ids", torch.tensor([[i for row in part for i in row]]), size)
    labels = None
    if isinstance(module, EncoderDecoder | LanguageModel):
        labels = [[*row[1:], IGNORE_INDEX] for row in rows[-1]]
    return Data(dict(zip(sides, rows, strict=True)), _segments(model, rows[0]), labels)


def _segments(model: Model, rows: list[list[int]]) -> list[list[int]] | None:
    """The segments of each id, None where the model reads none."""
    if not isinstance(model, Pipeline) or not model.task.token_types:
        return None
    config = model.recipe.model
    if not uses_token_types(model.vocabulary, config.n_segments, config.pooling):
        return None
    sep = model.vocabulary.sep_id
    return [token_type_ids(torch.tensor([row]), sep)[0].tolist() for row in rows]


def _of_texts(pipeline: Pipeline, rows: Sequence[Any]) -> Data:
    task, longest = pipeline.task, pipeline.recipe.model.max_length
    if task.generates and task.reads_source:
        return _of_pairs(pipeline, rows)
    lines = pipeline.lines_of(rows)
    pipeline.check_texts(lines)
    if task.reads_source:
        return _of_ids(pipeline, _sources(pipeline, lines))
    found = [continuation_sequence(pipeline, line, []) for line in lines]
    _report_truncated(sum(len(row) > longest for row in found), longest)
    return _of_ids(pipeline, [list(row.last(longest).ids) for row in found])


def _of_pairs(pipeline: Pipeline, rows: Sequence[Any]) -> Data:
    """Sources and targets: the decoder reads [BOS] and the target, and predicts it and [EOS]."""
    if any(isinstance(row, str) for row in rows):
        raise InputError(
            "experiment.no_targets",
            "an encoder-decoder needs a target for each text, got texts without one; give tuples "
            "of a source and a target",
        )
    pipeline.check_texts([text for row in rows for text in row])
    tokenizer, longest = pipeline.target_vocabulary, pipeline.recipe.model.max_length
    encoded = Ragged.from_lists([tokenizer.encode(target) for _, target in rows])
    built = build_target(tokenizer, encoded, longest)
    targets = [built[i].tolist() for i in range(len(built))]
    _report_truncated(int((encoded.lengths > longest - 1).sum()), longest)
    sources = _sources(pipeline, [source for source, _ in rows])
    made = _of_ids(pipeline, (sources, [row[:-1] for row in targets]))
    return replace(made, labels=[row[1:] for row in targets])


def _sources(pipeline: Pipeline, lines: Sequence[str]) -> list[list[int]]:
    found = [source_sequence(pipeline, line) for line in lines]
    _report_truncated(sum(row.n_truncated > 0 for row in found), pipeline.recipe.model.max_length)
    return [list(row.ids) for row in found]


def _report_truncated(n: int, longest: int) -> None:
    if n:
        print_message(
            "experiment.truncated",
            "texts truncated to {longest} tokens: {n}",
            n=n,
            longest=longest,
        )

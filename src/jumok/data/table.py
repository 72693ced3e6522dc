"""Immutable tables of text, stored by Arrow in memory or in a memory-mapped file."""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from jumok.data.files.rows import BadRows
from jumok.errors import DataError
from jumok.unicode_forms import normalize

if TYPE_CHECKING:  # imported where it is used: a prediction for a text needs no tables
    import pyarrow as pa

Cell = TypeVar("Cell", str, float, list[str])

LONG_CHARS = 4_096  # Arrow's NFC is quadratic in the longest run of combining marks
_BLOCK = 4_096  # rows converted to Python strings at a time
_RELEASED_ROWS = 65_536  # after which the pages of a mapped file are released


def release(mapping: mmap.mmap | None) -> None:
    """Let the pages of a file leave the memory; they are read again when they are needed."""
    if mapping is None:
        return
    import pyarrow as pa

    if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapping.madvise(mmap.MADV_DONTNEED)
    pa.default_memory_pool().release_unused()  # of the rows that were selected for Python


class Column(Sequence[Cell], Generic[Cell]):
    """One column as a sequence; cells are converted to Python objects on access.

    Where it is part of a mapped file, the pages that have been read leave the memory again.
    """

    def __init__(
        self,
        array: "pa.ChunkedArray",
        rows: NDArray[np.integer] | None = None,
        mapping: mmap.mmap | None = None,
    ) -> None:
        self._array, self._rows, self._mapping = array, rows, mapping

    def __len__(self) -> int:
        return len(self._array if self._rows is None else self._rows)

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> list[Cell]: ...
    def __getitem__(self, index: int | slice) -> Cell | list[Cell]:
        if isinstance(index, slice):
            chosen = range(len(self))[index]
            if chosen.step != 1:
                return [self[i] for i in chosen]
            return self._cells(chosen.start, chosen.stop)
        row = index if self._rows is None else int(self._rows[index])
        cell: Cell = self._array[row].as_py()
        return cell

    def __iter__(self) -> Iterator[Cell]:
        kept = 0  # the row of the file from which its pages are in memory
        for start in range(0, len(self), _BLOCK):
            yield from self._cells(start, start + _BLOCK)
            read = start if self._rows is None else int(self._rows[start])
            if read - kept >= _RELEASED_ROWS:
                release(self._mapping)
                kept = read
        release(self._mapping)

    def _cells(self, start: int, stop: int) -> list[Cell]:
        import pyarrow as pa

        if self._rows is None:
            found = self._array.slice(start, max(stop - start, 0))
        else:
            rows = self._rows[start:stop]
            if not len(rows):
                return []
            first = int(rows[0])
            near = np.zeros(int(rows[-1]) - first + 1, np.bool_)
            near[rows - first] = True
            found = self._array.slice(first, len(near)).filter(pa.array(near))
        cells: list[Cell] = found.to_pylist()
        return cells

    def __repr__(self) -> str:
        return f"Column({self[:3]!r}{'...' if len(self) > 3 else ''}, {len(self):,} rows)"


@dataclass(frozen=True)
class Table:
    """Rows of text in named columns, and a report on the bad rows that were skipped.

    `rows` are the numbers of its rows in `arrow`, ascending, where these are only a part of them: a
    part of a mapped file is not copied.

    >>> table = Table.from_columns({"text": ["좋다", "싫다"], "label": ["positive", "negative"]})
    >>> len(table), table.column("text")[1], list(table.slice(0, 1).column("label"))
    (2, '싫다', ['positive'])
    """

    arrow: "pa.Table"
    bad_rows: BadRows = field(default_factory=BadRows)
    sha256: str = ""  # of the decompressed content; "" if the rows are not from a file
    mapping: mmap.mmap | None = field(default=None, compare=False)  # of the file with `arrow`
    rows: NDArray[np.integer] | None = field(default=None, compare=False)

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Sequence[str] | Sequence[float] | Sequence[list[str]]]
    ) -> "Table":
        """A table from columns in memory."""
        import pyarrow as pa

        return cls(pa.table({name: list(cells) for name, cells in columns.items()}))

    @classmethod
    def concat(cls, tables: "Sequence[Table]") -> "Table":
        """The rows of several tables with the same columns, one table after the other.

        >>> one = Table.from_columns({"text": ["가"]})
        >>> list(Table.concat([one, one]).column("text"))
        ['가', '가']
        """
        import pyarrow as pa

        first, *others = tables
        if not others:
            return first
        parts = [table._whole().cast(first.arrow.schema) for table in tables]
        whole = pa.concat_tables(parts)
        return replace(first, arrow=whole, sha256="", mapping=None, rows=None)

    def __len__(self) -> int:
        return int(self.arrow.num_rows) if self.rows is None else len(self.rows)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.arrow.column_names)

    def column(self, name: str) -> Column[str]:
        """The cells of a column of text. Raises InputError for an unknown name."""
        return Column[str](self._of_type(name, "text"), self.rows, self.mapping)

    def numbers(self, name: str) -> Column[float]:
        """The cells of a column of numbers: the column `score`."""
        return Column[float](self._of_type(name, "numbers"), self.rows, self.mapping)

    def pieces(self, name: str) -> Column[list[str]]:
        """The cells of a column of lists of pieces, from pre-tokenized files."""
        return Column[list[str]](self._of_type(name, "lists of pieces"), self.rows, self.mapping)

    def cells(self, name: str) -> Column[Any]:
        """The cells of a column of any type."""
        return Column(self.arrow.column(name), self.rows, self.mapping)

    def slice(self, start: int, stop: int | None = None) -> "Table":
        """The rows from `start` up to `stop`, without copying."""
        if self.rows is not None:
            return replace(self, rows=self.rows[start:stop])
        length = None if stop is None else max(0, stop - start)
        return replace(self, arrow=self.arrow.slice(start, length))

    def without_empty(self, name: str) -> "Table":
        """The rows whose cell in the column `name` has more than white space."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def filled(chunk: pa.Array) -> NDArray[np.bool_]:
            if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
                return np.asarray(pc.greater(pc.list_value_length(chunk), 0))
            empty = pc.equal(pc.binary_length(chunk), 0)
            empty = pc.or_(empty, pc.utf8_is_space(chunk))  # without a trimmed copy
            return np.asarray(pc.invert(empty))

        chunks = self.arrow.column(name).chunks
        chosen = np.concatenate([np.zeros(0, np.bool_), *map(filled, chunks)])
        release(self.mapping)
        if self.rows is not None:
            chosen = chosen[self.rows]
        return self if chosen.all() else self.keep(chosen)

    def select(self, names: Sequence[str]) -> "Table":
        """The columns with these names only."""
        return replace(self, arrow=self.arrow.select(list(names)))

    def keep(self, chosen: NDArray[np.bool_]) -> "Table":
        """The rows for which `chosen` (rows,) is True."""
        import pyarrow as pa

        if self.rows is not None:
            return replace(self, rows=self.rows[chosen])
        if self.mapping is not None:
            return replace(self, rows=_numbers(chosen))
        return replace(self, arrow=self.arrow.filter(pa.array(chosen)))

    def _whole(self) -> "pa.Table":
        """All rows in one table of Arrow."""
        import pyarrow as pa

        return self.arrow if self.rows is None else self.arrow.take(pa.array(self.rows))

    def without(self, name: str, texts: Sequence[str]) -> "Table":
        """The rows whose text in the column `name` is not in `texts`.

        Texts are compared in NFC and with white space as one space.

        >>> table = Table.from_columns({"text": ["안 녕", "잘 가"]})
        >>> list(table.without("text", ["안  녕 "]).column("text"))
        ['잘 가']
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        unwanted = pc.unique(_spaced(pa.array(texts, pa.large_string())))
        cells = _spaced(self._whole().column(name).cast(pa.large_string()))
        return self.keep(~np.asarray(pc.is_in(cells, unwanted)))

    def _of_type(self, name: str, expected: str) -> "pa.ChunkedArray":
        if name not in self.arrow.column_names:
            raise DataError(
                "data.no_column",
                "no column {name!r}; the table has {column_names}",
                name=name,
                column_names=", ".join(self.column_names),
            )
        array = self.arrow.column(name)
        kind = _kind(array.type)
        if kind != expected:
            raise DataError(
                "data.column_type",
                "the column {name!r} must have {expected}, got {kind}; read it with "
                "Table.{methods}",
                name=name,
                expected=expected,
                kind=kind,
                methods=_METHODS[kind],
            )
        return array


def _numbers(chosen: NDArray[np.bool_]) -> NDArray[np.integer]:
    """The indices of True, in 4 bytes each where that suffices."""
    dtype = np.int32 if len(chosen) <= 2**31 else np.int64
    found: NDArray[np.integer] = np.empty(np.count_nonzero(chosen), dtype)
    end = 0
    for start in range(0, len(chosen), _RELEASED_ROWS):
        some = np.flatnonzero(chosen[start : start + _RELEASED_ROWS]) + start
        found[end : end + len(some)] = some
        end += len(some)
    return found


_METHODS = {"text": "column", "numbers": "numbers", "lists of pieces": "pieces"}


def _kind(type_: "pa.DataType") -> str:
    import pyarrow as pa

    if pa.types.is_large_string(type_) or pa.types.is_string(type_):
        return "text"
    return "numbers" if pa.types.is_floating(type_) else "lists of pieces"


def _spaced(texts: "pa.Array") -> "pa.Array":
    """The texts with single spaces and in NFC, for comparison."""
    import pyarrow as pa
    import pyarrow.compute as pc

    longest = pc.max(pc.utf8_length(texts)).as_py() or 0
    if longest <= LONG_CHARS:
        composed = pc.utf8_normalize(texts, "NFC")
    else:  # it needs minutes for a long run of combining marks
        composed = pa.array(
            [normalize("NFC", text) for text in texts.to_pylist()], pa.large_string()
        )
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(composed, r"\s+", " "))

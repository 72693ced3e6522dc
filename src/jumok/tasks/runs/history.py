"""The history of a run: one row for each evaluation, shown as a table in a notebook."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, TypeAlias, overload

from jumok.training.reporting.curves import draw_charts
from jumok.training.reporting.metrics import (
    Evaluation,
    best_evaluation,
    evaluation_charts,
    evaluation_header,
    evaluation_texts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell: TypeAlias = str | float | None


class History(Sequence[Mapping[str, Cell]]):
    """The rows of `history.csv`: dicts in the order of the evaluations.

    Columns: `epoch`; `step`; `loss`, the mean training loss since the row before, in nats;
    `dev_loss`; `score` and the name of its `metric`; `tokens_per_second`; `seconds` since the
    training began. Unknown values are None. `pandas.DataFrame(history)` is the same table.

    >>> History([Evaluation(1.0, 20, 0.7, 0.6, 0.8, "accuracy", 900.0, 3.0)])
    epoch  step    loss  dev loss  accuracy  tokens/s  time
     1.00    20  0.7000    0.6000    0.8000       900  0:03

    `history.plot()` draws it.
    """

    def __init__(self, evaluations: Iterable[Evaluation]) -> None:
        self.evaluations = list(evaluations)

    def __len__(self) -> int:
        return len(self.evaluations)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Cell]: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "Mapping[str, Cell] | History":
        if isinstance(index, slice):
            return History(self.evaluations[index])
        return asdict(self.evaluations[index])

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of each row."""
        return tuple(Evaluation.__dataclass_fields__)

    def plot(self) -> "Figure":
        """The losses and the scores over the epochs as a matplotlib figure; the best is marked.

        >>> rows = [Evaluation(1.0, 20, 0.7, 0.6, 0.8, "accuracy", 900.0, 3.0)]
        >>> [axes.get_title() for axes in History(rows).plot().axes]
        ['loss', 'accuracy']
        """
        return draw_charts(evaluation_charts(self.evaluations))

    def _texts(self) -> list[tuple[str, ...]]:
        """The header and the rows as texts."""
        return [evaluation_header(self.evaluations), *map(evaluation_texts, self.evaluations)]

    def __repr__(self) -> str:
        rows = self._texts()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
            for row in rows
        )

    def _repr_html_(self) -> str:
        """The table for a notebook, the best evaluation in bold."""
        header, *rows = self._texts()
        best = best_evaluation(self.evaluations)
        lines = [f"<tr>{_cells('th', header)}</tr>"]
        for evaluation, row in zip(self.evaluations, rows, strict=True):
            style = ' style="font-weight: bold"' if evaluation is best else ""
            lines.append(f"<tr{style}>{_cells('td', row)}</tr>")
        return f"<table>{''.join(lines)}</table>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)

"""A file of the predictions for labelled rows, for the analysis of errors."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.data.table import Table
from jumok.errors import InputError, or_list
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.compare import check_comparable, run_outputs
from jumok.terminal import to_json_line

SUFFIXES = (".tsv", ".jsonl")


def check_prediction_file(path: Path, pipeline: Pipeline) -> None:
    """Raise InputError for another ending of the name, and for tasks without outputs of rows."""
    if path.suffix not in SUFFIXES:
        raise InputError(
            "run.prediction_file_ending",
            "the file of predictions must end in {suffixes}, got {path}; rename it",
            suffixes=or_list(SUFFIXES),
            path=path,
        )
    check_comparable([pipeline])


def write_predictions(path: Path, pipeline: Pipeline, tables: Mapping[str, Table]) -> None:
    """Write one row for each row of the tables: text, label, prediction, its probability.

    Of several tables each row has its split too. Both texts of a pair are in one cell, and white
    space in the cells of a TSV is one space. Raises StorageError if the file cannot be written.
    """
    rows = list(_rows(pipeline, tables))
    if path.suffix == ".jsonl":
        text = "".join(f"{to_json_line(row)}\n" for row in rows)
    else:
        file = io.StringIO()
        writer = csv.writer(
            file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n"
        )
        writer.writerow(rows[0] if rows else ())
        writer.writerows([" ".join(str(cell).split()) for cell in row.values()] for row in rows)
        text = file.getvalue()
    write_atomically(path, text.encode("utf-8", errors="backslashreplace"))


def _rows(pipeline: Pipeline, tables: Mapping[str, Table]) -> Iterator[dict[str, object]]:
    for name, table in tables.items():
        found = run_outputs(pipeline, table)
        probabilities: Sequence[float | None] = found.probabilities or [None] * len(found.texts)
        cells = zip(found.texts, found.expected, found.outputs, probabilities, strict=True)
        for text, label, prediction, probability in cells:
            yield {
                **({"split": name} if len(tables) > 1 else {}),
                "text": text,
                "label": label,
                "prediction": prediction,
                **({} if probability is None else {"probability": round(probability, 4)}),
            }

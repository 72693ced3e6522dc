"""Scores of a translation run on FLORES-200, JHE, Tatoeba, news, documentation, and its own tests.

    JUMOK_DATA=... python benchmarks/translation.py RUN [--decoding KEY=VALUE ...] [--name NAME]
        [--without TEST_SET ...]

Prints BLEU over 13a tokens, chrF, and BLEU as in papers for the language: over morphemes
(ko-mecab), or tokenized by Moses and lower-cased (Multi30k). Below are published scores of other
systems on FLORES-200 devtest, and 30 everyday sentences with their translations. Data that are not
there are skipped, and named. All choices were made on the validation split.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from turns import heading

import jumok
from jumok.data.config import DataConfig
from jumok.data.corpora.paths import corpus_folders, find_file
from jumok.data.files.tables import read_table
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES
from jumok.data.table import Table
from jumok.errors import DataError
from jumok.shipped import resolve_model
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables
from jumok.tasks.runs.run import Run

RESULTS = Path(__file__).parent / "results"
SENTENCES = Path(__file__).parent / "everyday_sentences.tsv"
# BLEU of FLORES-200 devtest, 13a into English and ko-mecab into Korean: *.bleu of
# mozilla/firefox-translations-models at e7957fc407441a5e3e35bbcbf9d60d9b35764618, folder evaluation
PUBLISHED = {
    "koen": {
        "Google": 33.8,
        "Microsoft": 33.8,
        "Firefox base-memory, 44 MB": 27.7,
        "NLLB-600M": 25.3,
        "opus-mt": 20.6,
        "Argos (LibreTranslate)": 15.1,
    },
    "enko": {
        "Microsoft": 34.3,
        "Google": 33.6,
        "Firefox base-memory, 44 MB": 30.7,
        "NLLB-600M": 25.4,
        "Argos (LibreTranslate)": 15.8,
    },
}
METRICS = ("bleu", "chrf", "bleu_tokenized_lower", "bleu_ko_mecab", "exact_match")


def main() -> None:
    """Score every test set, print the table and write the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--decoding", nargs="+", default=[], metavar="KEY=VALUE")
    arguments.add_argument("--name", help="of the results file; the recipe's name if left out")
    arguments.add_argument("--without", nargs="+", default=[], metavar="TEST_SET")
    given = arguments.parse_args()
    folder = resolve_model(str(given.run))
    loaded = jumok.load(folder)
    if given.decoding:
        loaded = loaded.with_decoding(given.decoding)
    pair = direction(loaded)
    tables, skipped = test_sets(loaded, pair)
    tables = {name: table for name, table in tables.items() if name not in given.without}
    rows = [scored(loaded, name, table) for name, table in tables.items()]
    name = given.name or f"translation_{loaded.recipe.name}"
    command = f"python benchmarks/translation.py RUN {' '.join(given.decoding)}".strip()
    lines = [heading(command), "", *facts(Run.open(folder)), "", *table(rows), *skipped]
    text = "\n".join([*lines, *published(rows, pair), *everyday(loaded, pair)])
    print(text)
    (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")


def direction(loaded: Pipeline) -> str:
    """The corpus with the languages of a run: koen, enko, or "" for others."""
    data = loaded.recipe.data
    if data.corpus in ("koen", "koen-small", "note"):
        return "koen"
    if data.corpus in ("enko", "enko-small") or data.target_language == "ko":
        return "enko"
    return "koen" if data.target_language == "en" else ""


def test_sets(loaded: Pipeline, pair: str) -> tuple[dict[str, Table], list[str]]:
    """The test sets that are there, and a line for each that is not."""
    wanted: dict[str, Callable[[], Table]] = {}
    if pair:
        flores = DataConfig(corpus=f"{pair}-flores")
        wanted["flores_devtest"] = lambda: load_splits(flores, SEQUENCES, only=["test"]).test
        wanted["jhe_dev"] = lambda: jhe(pair)
        for split in ("tatoeba_test", "news_test", "docs_test"):
            wanted[split] = partial(known_split, pair, split)
    found, skipped = {}, []
    for name, read in wanted.items():
        try:
            found[name] = read()
        except DataError as error:
            skipped.append(f"{name}: skipped, {error}")
    return found | evaluation_tables(loaded.recipe), skipped


def known_split(pair: str, split: str) -> Table:
    """A test set of the corpora koen and enko. Raises DataError where it is missing."""
    return load_splits(DataConfig(corpus=pair), SEQUENCES, only=[split])[split]


def jhe(pair: str) -> Table:
    """Sentences of school books, jungyeul/korean-parallel-corpora; raises DataError likewise."""
    path = find_file(corpus_folders("koen-open"), "jhe.dev.tsv")
    if path is None:
        raise DataError("benchmark.no_jhe", "there is no koen-open/jhe.dev.tsv in JUMOK_DATA")
    columns = {"source": pair[:2], "target": pair[2:]}
    return read_table(path, columns)


def scored(loaded: Pipeline, split: str, rows: Table) -> dict[str, Any]:
    """The scores of one test set, and the seconds to generate and score."""
    begin = time.monotonic()
    scores = evaluate(loaded, rows, split).scores
    return scores | {"seconds": time.monotonic() - begin}


def published(rows: list[dict[str, Any]], pair: str) -> list[str]:
    """The scores of other systems on FLORES-200 devtest, with that of the run."""
    own = next((row for row in rows if row["split"] == "flores_devtest"), None)
    if own is None:
        return []
    metric = "bleu_ko_mecab" if pair == "enko" else "bleu"
    systems = {**PUBLISHED[pair], "this run": own[metric]}
    ranked = sorted(systems.items(), key=lambda item: -item[1])
    return [
        "",
        f"FLORES-200 devtest, {metric} (published: mozilla/firefox-translations-models):",
        *(f"{name:<28}{score:6.1f}" for name, score in ranked),
    ]


def everyday(loaded: Pipeline, pair: str) -> list[str]:
    """Everyday sentences that are in no corpus, with their translations into English."""
    if pair != "koen":
        return []
    rows = read_table(SENTENCES, {"source": "ko"}).column("source")
    outputs = loaded.predict(list(rows))
    return ["", *(f"{text} -> {each.display}" for text, each in zip(rows, outputs, strict=True))]


def facts(run: Run) -> list[str]:
    """The size, time, memory and selection score of the run."""
    if not run.finished:
        return [f"{run.folder.name}, a model that ships with jumok"]
    results = run.results()
    size = f"{results['name']}, seed {results['seed']}: {results['parameters']:,} weights"
    seconds, most = results["wall_seconds"], results["peak_memory_bytes"] / 2**30
    if "averaged_steps" in results:
        steps = ", ".join(f"{step:,}" for step in results["averaged_steps"])
        dev = "  ".join(f"{name} {results[name]:.2f}" for name in METRICS if name in results)
        return [
            f"{size}, the mean of steps {steps}",
            f"averaged and scored on dev in {seconds / 60:.1f} min, at most {most:.2f} GiB",
            f"dev: {dev} (as the recipe's [decoding] says)",
        ]
    dev = results["dev"]
    return [
        f"{size}, {results['steps']:,} steps",
        f"training {results['training_seconds'] / 60:.1f} min, whole command "
        f"{seconds / 60:.1f} min, at most {most:.2f} GiB",
        f"chosen by dev {dev['metric']} {dev['score']:.2f} (greedy) at step {dev['step']:,}",
    ]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One line per test set, then the signatures and the effective decoding settings."""
    first = rows[0]
    metrics = [name for name in METRICS if name in first]
    lines = [f"{'test set':<18}{'rows':>6}  " + "  ".join(metrics) + "  seconds"]
    for row in rows:
        cells = "  ".join(f"{row[name]:{len(name)}.2f}" for name in metrics)
        lines.append(f"{row['split']:<18}{row['n']:>6}  {cells}  {row['seconds']:7.1f}")
    signatures = [f"{key}: {value}" for key, value in first.items() if key.endswith("signature")]
    return [*lines, "", f"decoding: {first['decoding']}", *signatures]


if __name__ == "__main__":
    main()

"""Small labelled files: `jumok train` with nothing but the columns, and TF-IDF.

    python benchmarks/small_files.py --data FOLDER --out RUNS [topics5 nsmc1000 ...]
        [--methods linear auto fine-tune tfidf]

The files are drawn from the training parts of the corpora in FOLDER; a tenth of each is the
development split. The test rows are read once, after the training. Processor seconds are those of
the whole command `jumok train`, user and system, in one thread. Finished runs are not repeated.
"""

import argparse
import csv
import json
import lzma
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from turns import heading

import jumok
from jumok.evaluation import classification_metrics, regression_metrics
from jumok.tasks.pipeline.encoder_choice import with_packed_encoder

RESULTS = Path(__file__).parent / "results" / "small_files.txt"
TOPICS = ("IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치")
FIVE = {"정치": 800, "스포츠": 600, "경제": 400, "생활문화": 150, "IT과학": 50}
TEST_ROWS = 5_000
NOTES = """
topics5: 2,000 headlines of ynat on five topics (800, 600, 400, 150, 50), tested on the rows of
these topics in its dev and test part, which are about equally many. nsmc1000-N: three draws of
1,000 reviews; nsmc200: 200. ynat200: 200 headlines, seven topics. books50: 2,000 verses of 50
books of the Bible. intents: 1,000 utterances of 3i4k, seven intents. hate: 1,000 comments, three
labels. questions: 1,000 pairs of questions. sts: 1,000 pairs with scores. Of the test rows at most
the first 5,000.
tfidf: characters, 1 to 4 within words, logistic (ridge) regression, its strength by five-fold
cross-validation; balanced class weights where jumok has them. ko-small may have read the reviews
and the training texts of 3i4k, without their labels. test is accuracy, of sts Spearman; dev the
metric that selects: macro F1 of unbalanced files, accuracy, of sts Pearson.
""".strip()

Row = tuple[str, ...]  # one or two texts, then the label or score


class Files:
    """The small files of a folder of corpora."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def draw(self, name: str) -> tuple[list[Row], list[Row]]:
        """The rows of a small file, and its test rows."""
        rng = random.Random(f"{name} 0")
        if name == "topics5":
            pool = self._topics("ynat/train.tsv.xz")
            rng.shuffle(pool)
            left = dict(FIVE)
            train = []
            for row in pool:
                if left.get(row[1], 0):
                    left[row[1]] -= 1
                    train.append(row)
            test = self._topics("ynat/dev.tsv") + self._topics("ynat/test.tsv")
            return train, [row for row in test if row[1] in FIVE]
        if name == "ynat200":
            pool, test = self._topics("ynat/train.tsv.xz"), self._topics("ynat/test.tsv")
            rows = 200
        elif name.startswith("nsmc"):
            pool, test = self._reviews("train"), self._reviews("test")
            rows = int(name.removeprefix("nsmc").partition("-")[0])
        elif name == "books50":
            rows, pool = 2_000, self._verses("train")
            known = {book for book, _ in Counter(row[1] for row in pool).most_common(50)}
            test = self._verses("dev") + self._verses("test")
            pool, test = ([row for row in part if row[1] in known] for part in (pool, test))
        elif name in ("intents", "hate"):
            file, held_out = ("3i4k", "test") if name == "intents" else ("hate", "dev")
            rows = 1_000
            pool, test = (self._labelled(f"{file}.{part}") for part in ("train", held_out))
        elif name == "questions":
            rows = 1_000
            pool = self._questions("question_pair/kor_pair_train.csv.xz")
            test = self._questions("question_pair/kor_Pair_test.csv")
        elif name == "sts":
            rows = 1_000
            pool = [row[5:] + row[4:5] for row in self._cells("korsts/sts-train.tsv.xz")]
            test = [row[5:] + row[4:5] for row in self._cells("korsts/sts-test.tsv")]
        else:
            raise SystemExit(f"no file {name}")
        rng.shuffle(pool)
        return pool[:rows], test[:TEST_ROWS]

    def _cells(self, path: str) -> list[Row]:
        with self._open(path) as file:
            return [tuple(line.rstrip("\n").split("\t")) for line in file][1:]

    def _open(self, path: str):  # type: ignore[no-untyped-def]
        full = self.data / path
        return (
            lzma.open(full, "rt", encoding="utf-8-sig")
            if path.endswith(".xz")
            else full.open(encoding="utf-8-sig")
        )

    def _topics(self, path: str) -> list[Row]:
        return [(row[1], TOPICS[int(row[2])]) for row in self._cells(path)]

    def _reviews(self, part: str) -> list[Row]:
        rows = self._cells(f"nsmc/ratings_{part}.txt.xz")
        return [(_unquoted(row[1]), row[2]) for row in rows if row[1].strip()]

    def _verses(self, part: str) -> list[Row]:
        rows = self._cells(f"koen/bible.{part}.tsv.xz")
        return [(row[1], row[0].partition(".")[0]) for row in rows]

    def _labelled(self, name: str) -> list[Row]:
        rows = self._cells(f"korean/labelled/{name}.tsv.xz")
        if name.startswith("3i4k"):
            return [(row[1], f"intent {row[0]}") for row in rows]
        return [(row[0], row[-1]) for row in rows]

    def _questions(self, path: str) -> list[Row]:
        with self._open(path) as file:
            rows = list(csv.DictReader(file))
        same = {"0": "same", "1": "different"}
        return [(row["question1"], row["question2"], same[row["is_duplicate"]]) for row in rows]


FILES = (
    *("topics5", "nsmc1000-0", "nsmc1000-1", "nsmc1000-2", "nsmc200", "ynat200"),
    *("books50", "intents", "hate", "questions", "sts"),
)


def main() -> None:
    """Train what is missing, then print and keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--methods", nargs="+", default=["linear", "auto", "fine-tune", "tfidf"])
    words.add_argument("files", nargs="*", default=list(FILES))
    given = words.parse_args()
    files = Files(given.data)
    lines = [heading("python benchmarks/small_files.py --data DATA --out RUNS", "scikit-learn"), ""]
    lines.append(
        f"{'file':<12}{'method':<11}{'dev':>8}{'test':>8}{'macro F1':>10}"
        f"{'CPU s':>8}{'wall s':>8}  kept"
    )
    for name in given.files:
        for method in given.methods:
            found = _result(files, name, method, given.out)
            f1 = f"{found['macro_f1']:.4f}" if "macro_f1" in found else "–"
            dev = f"{found['dev']:.4f}" if found["dev"] is not None else "–"
            lines.append(
                f"{name:<12}{method:<11}{dev:>8}{found['test']:>8.4f}{f1:>10}"
                f"{found['cpu']:>8.1f}{found['wall']:>8.1f}  {found['kept']}"
            )
            print(lines[-1], flush=True)
    text = "\n".join([*lines, "", NOTES, ""])
    if set(given.files) == set(FILES):
        RESULTS.write_text(text, encoding="utf-8")


def _result(files: Files, name: str, method: str, out: Path) -> dict[str, float | str | None]:
    """The figures of a method on a file, measured if missing."""
    path = out / f"{name}-{method}.json"
    if not path.exists():
        train, test = files.draw(name)
        found = _tfidf(train, test) if method == "tfidf" else _jumok(name, method, train, test, out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _jumok(
    name: str, method: str, train: Sequence[Row], test: Sequence[Row], out: Path
) -> dict[str, float | str | None]:
    scored, paired = name == "sts", len(train[0]) == 3
    columns = [*(["text", "pair"] if paired else ["text"]), "score" if scored else "label"]
    folder = out / f"{name}-{method}"
    folder.mkdir(parents=True)
    table, held_out = folder / "train.tsv", folder / "test.tsv"
    for path, rows in ((table, train), (held_out, test)):
        lines = ["\t".join(columns), *("\t".join(map(_cell, row)) for row in rows)]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    recipe = folder / "own.toml"
    recipe.write_text(
        "\n".join(
            [
                f'task = "{"regression" if scored else "classification"}"',
                *(["[regression]", "highest = 5"] if scored else []),
                "[data]",
                f'train = "{table}"',
                *(f'{column} = "{column}"' for column in columns),
                "",
            ]
        ),
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "jumok", "train", str(recipe)]
    command += [f"training.method={method}"] * (method != "auto")
    command += ["--out", str(folder / "run"), "--json"]
    begin, before = time.perf_counter(), _children_seconds()
    environment = os.environ | {"JUMOK_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, cpu = time.perf_counter() - begin, _children_seconds() - before
    results = jumok.Run(folder / "run").results
    pipeline = with_packed_encoder(jumok.load(folder / "run"), None)  # three times as fast
    scores = jumok.evaluate(pipeline, held_out)
    init = jumok.Run(folder / "run").recipe.model.init
    return {
        "dev": results["dev"]["score"],
        "test": scores["spearman" if scored else "accuracy"],
        **({} if scored else {"macro_f1": scores["macro_f1"]}),
        "cpu": cpu,
        "wall": wall,
        "kept": f"{results['method']} from {init}",
    }


def _tfidf(train: Sequence[Row], test: Sequence[Row]) -> dict[str, float | str | None]:
    begin, before = time.perf_counter(), time.process_time()
    scored = train[0][-1].replace(".", "").isdigit() and len(train[0]) == 3
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), sublinear_tf=True)
    vectorizer.fit([text for row in train for text in row[:-1]])
    x, x_test = (_matrix(vectorizer, rows) for rows in (train, test))
    labels, expected = ([row[-1] for row in rows] for rows in (train, test))
    if scored:
        model = GridSearchCV(Ridge(), {"alpha": [0.3, 1.0, 3.0, 10.0]}, cv=5)
        model.fit(x, np.array(labels, dtype=float))
        found = regression_metrics(np.array(expected, dtype=float), model.predict(x_test))
        scores = {"test": found.spearman}
    else:
        counts = Counter(labels).most_common()
        weights = "balanced" if counts[0][1] > 2 * counts[-1][1] else None
        metric = "f1_macro" if weights else "accuracy"
        logistic = LogisticRegression(class_weight=weights, max_iter=300)
        model = GridSearchCV(logistic, {"C": [0.3, 1.0, 3.0, 10.0, 30.0]}, cv=5, scoring=metric)
        model.fit(x, labels)
        number = {label: i for i, label in enumerate(sorted({*labels, *expected}))}
        predicted = [number[label] for label in model.predict(x_test)]
        metrics = classification_metrics(
            [number[label] for label in expected], predicted, len(number)
        )
        scores = {"test": metrics.accuracy, "macro_f1": metrics.macro_f1}
    return {
        "dev": None,
        **scores,
        "cpu": time.process_time() - before,
        "wall": time.perf_counter() - begin,
        "kept": " ".join(f"{key} {value:g}" for key, value in model.best_params_.items()),
    }


def _matrix(vectorizer: TfidfVectorizer, rows: Iterable[Row]) -> sp.csr_matrix:
    """TF-IDF of the text, or of both texts, their differences and products."""
    columns = list(zip(*rows, strict=True))[:-1]
    vectors = [vectorizer.transform(column) for column in columns]
    if len(vectors) == 1:
        return vectors[0]
    u, v = vectors
    return sp.hstack([u, v, abs(u - v), u.multiply(v)]).tocsr()


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _unquoted(text: str) -> str:
    """A review without the quotes of CSV that NSMC has twice."""
    for _ in range(2):
        if len(text) > 1 and text[0] == text[-1] == '"':
            text = text[1:-1].replace('""', '"')
    return text


def _cell(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()

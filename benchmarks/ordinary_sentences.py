"""A finished run of `numbers` on sentences that no generator made.

    JUMOK_DATA=... python benchmarks/ordinary_sentences.py RUN [--show] [--name NAME]

Prints how many of the 200 hand-written sentences of the split test_sentences are right, and how
many of 1,000 texts without numbers in words are copied exactly: 400 reviews, 300 headlines and 300
questions and answers, the first such of the test splits of nsmc, ynat and chatbot. Texts are in
NFC, as all outputs are. `--show` prints the wrong answers.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from turns import heading

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.numbers import generate
from jumok.data.numbers.carriers import carriers
from jumok.data.numbers.mentions import may_mention_number
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.run import Run
from jumok.unicode_forms import normalize

RESULTS = Path(__file__).parent / "results"
TEXTS = (("nsmc", "text", 400), ("ynat", "text", 300), ("chatbot", "source", 300))
MAX_CHARACTERS = 140  # the longest review of NSMC

Pairs = Sequence[tuple[str, str]]


def main() -> None:
    """Answer both sets, print the counts and write the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--show", action="store_true", help="print the wrong answers")
    arguments.add_argument("--name", default="ordinary_sentences", help="of the results file")
    given = arguments.parse_args()
    model = jumok.load(given.run)
    written = generate("test_sentences", 1_000)
    sets: dict[str, Pairs] = {
        "hand-written, with numbers": [pair for pair in written if pair[0] != pair[1]],
        "hand-written, without": [pair for pair in written if pair[0] == pair[1]],
    }
    copied = {name: without_numbers(name, column, n) for name, column, n in TEXTS}
    sets |= {f"without: {name}": pairs for name, pairs in copied.items()}
    lines = [heading("python benchmarks/ordinary_sentences.py RUN"), "", *facts(given.run), ""]
    rights: dict[str, int] = {}
    for name, pairs in sets.items():
        wrong = wrong_answers(model, pairs)
        rights[name] = len(pairs) - len(wrong)
        lines.append(f"{name:<28} {rights[name]:>5} of {len(pairs):>5} right")
        if given.show:
            print(*(" | ".join(row) for row in wrong), sep="\n")
    total = sum(rights[f"without: {name}"] for name in copied)
    lines.append(f"{'without numbers, all':<28} {total:>5} of {sum(map(len, copied.values())):>5}")
    print(*lines, sep="\n")
    (RESULTS / f"{given.name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def without_numbers(corpus: str, column: str, n: int) -> Pairs:
    """The first n distinct texts of a test split that mention no number in words."""
    columns = ("source", "target") if column == "source" else ("text", "label")
    (table,) = load_splits(DataConfig(corpus=corpus), columns, only=["test"]).tables.values()
    in_training = set(carriers("train"))
    texts = (
        text
        for text in dict.fromkeys(
            normalize("NFC", " ".join(text.split())) for text in table.column(column)
        )
        if 0 < len(text) <= MAX_CHARACTERS
        and not may_mention_number(text)
        and text not in in_training
    )
    return [(text, text) for text, _ in zip(texts, range(n), strict=False)]


def wrong_answers(model: Pipeline, pairs: Pairs) -> list[tuple[str, str, str]]:
    """The source, the expected and the actual output of each wrong answer."""
    answers = model([source for source, _ in pairs])
    outputs = [answer.output for answer in answers if isinstance(answer, GeneratedText)]
    return [
        (source, target, output)
        for (source, target), output in zip(pairs, outputs, strict=True)
        if output != target
    ]


def facts(run: Path) -> list[str]:
    """The size and the time of the run."""
    results = Run.open(run).results()
    return [
        f"{results['name']}, seed {results['seed']}: {results['parameters']:,} weights, "
        f"{results['training_seconds']:.0f} s of training, {results['wall_seconds']:.0f} s in all; "
        + ", ".join(
            f"{scores['split']} {100 * scores['exact_match']:.2f} %"
            for scores in (results, *results["others"])
        ),
    ]


if __name__ == "__main__":
    main()

"""Generated documents, translated by a model: tags, placeholders, addresses, code, lines are kept.

    python benchmarks/documents.py [--documents 2000] [--model note]

Each document is checked with parsers that the translation does not use: html.parser, markdown-it
and regular expressions (tests/documents/generated.py). The seeds are not those of the tests.
"""

import argparse
import sys
import time
from pathlib import Path

from turns import heading

sys.path.append(str(Path(__file__).parent.parent))  # for the generator of the tests

from jumok.engine import load
from jumok.engine.generation import GenerationModel
from jumok.tasks.pipeline.translation import TextModel, translate_document
from tests.documents.generated import CHECKS, Generator, words

RESULTS = Path(__file__).parent / "results" / "documents.txt"
FIRST_SEED = 1_000_000
FORMATS = {
    "html": "tags and their balance, attributes, comments, code, placeholders, addresses",
    "markdown": "blocks, emphasis, links, images, code, tags, placeholders, addresses, lines",
    "po": "all lines but the filled ones; placeholders in order, tags, line feeds",
    "srt": "numbers, times, tags, positions, lines of each cue",
    "text": "lines, their ends and indentation, blank lines, placeholders, addresses",
}


def main() -> None:
    """Translate and check all documents, print the table and write it."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--documents", type=int, default=2_000, help="of each format")
    arguments.add_argument("--model", default="note")
    given = arguments.parse_args()
    model, sentences = load(given.model), words()
    assert isinstance(model, GenerationModel)  # one that translates
    command = f"python benchmarks/documents.py --documents {given.documents}"
    lines = [
        heading(command),
        "",
        f"{'format':<10}{'documents':>10}{'kept':>8}{'texts':>9}{'CPU s':>8}",
    ]
    for kind in FORMATS:
        lines.append(row(model, kind, given.documents, sentences))
        print(lines[-1], flush=True)
    lines += ["", *(f"{kind}: {what}" for kind, what in FORMATS.items())]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def row(model: TextModel, kind: str, n: int, sentences: list[str]) -> str:
    """The number of documents of a format that keep everything; those that do not are printed."""
    started = time.process_time()
    kept = texts = 0
    for seed in range(FIRST_SEED, FIRST_SEED + n):
        source = Generator(seed, sentences).make(kind)
        found = translate_document(model, source, format=kind)
        texts += found.sentences
        try:
            CHECKS[kind](source, found.text)
            kept += 1
        except AssertionError as error:
            print(f"{kind} {seed}: {error}", file=sys.stderr)
    return f"{kind:<10}{n:>10,}{kept:>8,}{texts:>9,}{time.process_time() - started:>8.0f}"


if __name__ == "__main__":
    main()

"""Whether tags are around the right words: 200 marked words of 50 sentences, translated one by one.

    python benchmarks/marks.py [--model koen-small] [--save]

marked_sentences.txt has {word|English words that may translate it}. Each mark is the HTML element
<b> of one document. It is right if the <b> of the translation has one of the English words and at
most two other words.
"""

import argparse
import re
from pathlib import Path

from turns import heading

from jumok import engine
from jumok.engine.generation import GenerationModel
from jumok.tasks.pipeline.translation import translate_document

SENTENCES = Path(__file__).parent / "marked_sentences.txt"
RESULTS = Path(__file__).parent / "results" / "marked_sentences.txt"
MARK = re.compile(r"\{([^|}]+)\|([^}]+)\}")
MOST_WORDS = 3


def main() -> None:
    """Print the shares, and the marks that are wrong."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--model", default="koen-small")
    arguments.add_argument("--save", action="store_true")
    given = arguments.parse_args()
    model = engine.load(given.model)
    assert isinstance(model, GenerationModel)
    rows = marked(SENTENCES.read_text(encoding="utf-8"))
    found = [translate_document(model, html, format="html").text for html, _ in rows]
    present = [has(text, words) for text, (_, words) in zip(found, rows, strict=True)]
    right = [around(text, words) for text, (_, words) in zip(found, rows, strict=True)]
    n = sum(present)
    lines = [
        heading(f"python benchmarks/marks.py --model {given.model}"),
        "",
        f"{len(rows)} marked words, each alone; in the translation: {n}",
        f"tags around the right words: {sum(right)} ({sum(right) / len(rows):.1%}), "
        f"of those in the translation {sum(right) / max(n, 1):.1%}",
        "",
        "not right, though the word is in the translation:",
        *(
            f"{html} -> {text}"
            for (html, _), text, there, ok in zip(rows, found, present, right, strict=True)
            if there and not ok
        ),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.save:
        RESULTS.write_text(text, encoding="utf-8")


def marked(text: str) -> list[tuple[str, set[str]]]:
    """The document of each mark, and the English words that may translate it."""
    rows = []
    for line in text.splitlines():
        for mark in MARK.finditer(line):
            before, after = (
                MARK.sub(r"\1", part) for part in (line[: mark.start()], line[mark.end() :])
            )
            rows.append((f"<p>{before}<b>{mark[1]}</b>{after}</p>", set(mark[2].split())))
    return rows


def words_of(text: str) -> list[str]:
    """The words of a text without tags, in lower case."""
    return re.findall(r"[a-z0-9]+", re.sub(r"<[^>]*>", " ", text).lower())


def has(text: str, words: set[str]) -> bool:
    """Whether a translation has one of the words."""
    return bool(words & set(words_of(text)))


def around(text: str, words: set[str]) -> bool:
    """Whether the tag is around one of the words, and few others."""
    inside = re.search(r"<b>(.*?)</b>", text)
    found = words_of(inside[1]) if inside else []
    return bool(words & set(found)) and len(found) <= MOST_WORDS


if __name__ == "__main__":
    main()

"""Pairs for a translator whose one side is real text and the other a translation by `koen-small`.

    python scripts/back_translate.py OUT.tsv [--rows 120000] [--kept 0.5] [--model koen-small]

Sentences of the Korean encyclopedia and news that `ko-small` learned from, of 15 to 110
characters, drawn by a checksum, none of them in a dev or test set, are translated greedily
(Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual Data").
Translations that repeat themselves, keep Korean or have an unlikely length are left out; of the
others those with the highest mean log-probability of a token are kept. The columns are those of
`koen-small`: ko, en.
"""

import argparse
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from jumok.engine import load
from jumok.lab.assemble import HeldOut
from jumok.lab.assemble_korean import SOURCES, source_texts
from jumok.lab.assemble_translation import evaluation_sentences

DOMAINS = ("wikipedia", "news", "unesco", "stories")
CHARACTERS = range(15, 111)
BATCH = 512

_SENTENCE_END = re.compile(r"(?<=[다요까죠][.?!])\s+")
_ENDS = re.compile(r"[다요까죠][.?!]$")
_BRACKETS = re.compile(r"\s*\([^()]*\)")  # names in other scripts, years: half of them are emptied
_HANGUL = re.compile(r"[가-힣]")


def main() -> None:
    """Write the pairs."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--rows", type=int, default=120_000)
    arguments.add_argument("--model", default="koen-small")
    arguments.add_argument("--kept", type=float, default=0.5)
    given = arguments.parse_args()
    held_out = HeldOut(evaluation_sentences())
    chosen = sorted(
        {text for text in sentences() if not held_out.repeated_in(text)},
        key=lambda text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
    )[: given.rows]
    model = load(given.model, decoding=["beam=1"])
    pairs: list[tuple[float, str, str]] = []
    for start in range(0, len(chosen), BATCH):
        korean = chosen[start : start + BATCH]
        for source, answer in zip(korean, model(korean), strict=True):
            english = " ".join(answer.output.split())
            if is_plausible(source, english):
                pairs.append((answer.score / len(answer.tokens), source, english))
        print(f"{len(pairs):,} pairs of {start + len(korean):,} sentences", flush=True)
    best = sorted(pairs, reverse=True)[: int(given.kept * len(pairs))]
    lines = ["ko\ten", *(f"{korean}\t{english}" for _, korean, english in best)]
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def sentences() -> Iterator[str]:
    """Sentences of the sources, without what stands in brackets."""
    for source in SOURCES:
        if source.name in DOMAINS:
            for text in source_texts(source):
                for sentence in _SENTENCE_END.split(text):
                    plain = " ".join(_BRACKETS.sub("", sentence).split())
                    if len(plain) in CHARACTERS and _ENDS.search(plain):
                        yield plain


def is_plausible(korean: str, english: str) -> bool:
    """Whether an English sentence can be the translation of a Korean one.

    >>> is_plausible("집에 가요.", "I go home."), is_plausible("집에 가요.", "go go go go go")
    (True, False)
    """
    words = english.lower().split()
    if not words or _HANGUL.search(english) or "<" in english:
        return False
    trigrams = list(zip(words, words[1:], words[2:], strict=False))
    repeated = len(trigrams) - len(set(trigrams))
    return 0.8 <= len(english) / len(korean) <= 4.5 and repeated <= len(trigrams) // 10


if __name__ == "__main__":
    main()

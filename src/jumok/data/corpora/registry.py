"""The registry of known corpora."""

from jumok.config_io import suggest
from jumok.data.corpora.corpus import Corpus
from jumok.data.corpora.korean_english import (
    ENKO,
    ENKO_1961,
    ENKO_FLORES,
    KOEN,
    KOEN_1961,
    KOEN_FLORES,
)
from jumok.data.corpora.korean_text import KO_SMALL
from jumok.data.corpora.labelled import CHATBOT, HATE, INTENTS, KLUE_NER, YNAT
from jumok.data.corpora.multi30k import MULTI30K_EN_DE, MULTI30K_EN_FR
from jumok.data.corpora.pairs import KORNLI, KORSTS, QUESTION_PAIR
from jumok.data.corpora.reviews import NSMC, NSMC_TEXT
from jumok.data.corpora.texts import NOVELS, SHAKESPEARE
from jumok.errors import DataError

NUMBERS = Corpus(
    name="numbers",
    description="spoken Korean numbers, dates, times, prices -> written form; generated, endless",
    licence="Apache-2.0 (part of jumok); its real sentences: CC0 1.0 and public domain",
    url="built in",
    columns={"source": "source", "target": "target"},
    generated={
        "train": 60_000,
        "dev": 1_000,
        "test": 2_000,
        "test_patterns": 1_000,
        "test_sentences": 200,
    },
)

NOTE = Corpus(
    name="note",
    description="short Korean sentences -> English; generated, for the course",
    licence="Apache-2.0 (part of jumok)",
    url="built in",
    columns={"source": "source", "target": "target"},
    generated={"train": 20_000, "dev": 200, "test": 200},
)

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        NSMC,
        NUMBERS,
        NOTE,
        YNAT,
        QUESTION_PAIR,
        KORNLI,
        KORSTS,
        KLUE_NER,
        CHATBOT,
        INTENTS,
        HATE,
        MULTI30K_EN_DE,
        MULTI30K_EN_FR,
        KOEN,
        ENKO,
        KOEN_1961,
        ENKO_1961,
        KOEN_FLORES,
        ENKO_FLORES,
        NSMC_TEXT,
        KO_SMALL,
        NOVELS,
        SHAKESPEARE,
    )
}


def corpus_by_name(name: str) -> Corpus:
    """The corpus with this name. Raises InputError with the most similar name.

    >>> corpus_by_name("nsmc").licence
    'CC0 1.0'
    >>> corpus_by_name("nscm")
    Traceback (most recent call last):
    jumok.errors.DataError: no corpus is named 'nscm'; did you mean nsmc?
    """
    if name not in CORPORA:
        raise DataError(
            "corpus.unknown_corpus",
            "no corpus is named {name!r}; {suggest}",
            name=name,
            suggest=suggest(name, list(CORPORA)),
        )
    return CORPORA[name]

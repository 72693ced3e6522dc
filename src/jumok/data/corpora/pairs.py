"""Pairs of Korean sentences: paraphrases, entailment, similarity."""

from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange

_QUESTIONS = (
    "https://raw.githubusercontent.com/songys/Question_pair/"
    "e84b6f0e784c10c6a22cbbc7b1e415b901baa877"
)
_NLU = (
    "https://raw.githubusercontent.com/kakaobrain/kor-nlu-datasets/"
    "0df0fe7d496eb61b092e022e238c2230b29f1cbc"
)
_KLUE = (
    "https://raw.githubusercontent.com/KLUE-benchmark/KLUE/"
    "3efd98708a40ff49251fddde35453f8fbb11f536/klue_benchmark"
)
_ASKED = ("kor_pair_train.csv",)

QUESTION_PAIR = Corpus(
    name="question_pair",
    description="pairs of Korean questions, the same or different: 6,888 + 688",
    licence="MIT",
    url="https://github.com/songys/Question_pair",
    columns={"text": "question1", "pair": "question2", "label": "is_duplicate"},
    format="csv",
    labels=("same", "different"),  # 0 is the same question, although the column says duplicate
    files=(
        CorpusFile(
            "kor_pair_train.csv",
            "b0fa4fa4e6fccb9b77f4e4d69c97c558b32d1356ee9041f5faf68fc0446b6fd7",
            608_164,
            f"{_QUESTIONS}/kor_pair_train.csv",
        ),
        CorpusFile(
            "kor_Pair_test.csv",
            "6e25fc564778bbec695ad3b1d0db7cb8956adabb2186e9c0d582c7346a90a073",
            52_943,
            f"{_QUESTIONS}/kor_Pair_test.csv",
        ),
    ),
    splits={
        "train": (RowRange(_ASKED, stop=900, by="hash", key="question1"),),
        "dev": (RowRange(_ASKED, first=900, by="hash", key="question1"),),
        "test": (RowRange(("kor_Pair_test.csv",)),),
    },
)

_XNLI = (("xnli.dev.ko.tsv",), ("xnli.test.ko.tsv",))

KORNLI = Corpus(
    name="kornli",
    description="entailment between two Korean sentences: XNLI's 7,500 and 3,000 of KLUE",
    licence="CC BY-SA 4.0",
    url="https://github.com/kakaobrain/kor-nlu-datasets, https://github.com/KLUE-benchmark/KLUE",
    columns={"text": "sentence1", "pair": "sentence2", "label": "gold_label"},
    labels=("entailment", "neutral", "contradiction"),
    files=(
        CorpusFile(
            "xnli.dev.ko.tsv",
            "821fb1c1c2e538ac2724a6132da36ffa379eb9a542ceb89243b3cf711377382c",
            511_383,
            f"{_NLU}/KorNLI/xnli.dev.ko.tsv",
        ),
        CorpusFile(
            "xnli.test.ko.tsv",
            "0db53cf8e182283a0d0404ec3fe1b15d1e29236d23d22082dc20d43067254b3e",
            1_032_430,
            f"{_NLU}/KorNLI/xnli.test.ko.tsv",
        ),
        CorpusFile(
            "klue-nli-v1.1_dev.json",
            "0699db82be17766b26e199864e6260443e17ec6e91d1870e876419e388f245b1",
            1_498_298,
            f"{_KLUE}/klue-nli-v1.1/klue-nli-v1.1_dev.json",
            folder="klue",
        ),
    ),
    # By premise, so that its three hypotheses are in one split.
    splits={
        "train": tuple(RowRange(file, stop=900, by="hash", key="sentence1") for file in _XNLI),
        "dev": tuple(RowRange(file, first=900, by="hash", key="sentence1") for file in _XNLI),
        "test": (
            RowRange(
                ("klue-nli-v1.1_dev.json",),
                columns={"text": "premise", "pair": "hypothesis"},
                format="json",
            ),
        ),
    },
)

KORSTS = Corpus(
    name="korsts",
    description="similarity of two Korean sentences from 0 to 5: 5,749 + 1,500 + 1,379",
    licence="CC BY-SA 4.0",
    url="https://github.com/kakaobrain/kor-nlu-datasets",
    columns={"text": "sentence1", "pair": "sentence2", "score": "score"},
    files=(
        CorpusFile(
            "sts-train.tsv",
            "b5aaa7f957d6ff46f4b6834a8b0f024a9234a6eefe9289aed66746b4533da3b8",
            1_046_952,
            f"{_NLU}/KorSTS/sts-train.tsv",
        ),
        CorpusFile(
            "sts-dev.tsv",
            "d835b65b424401fbcce6be28a78159df8d61f5b19977ea7a0b83b8cb6105f393",
            307_276,
            f"{_NLU}/KorSTS/sts-dev.tsv",
        ),
        CorpusFile(
            "sts-test.tsv",
            "13f83a3440d9db52d134eb40303ce021b03264aa338fbf2871c8786ce04d2105",
            249_596,
            f"{_NLU}/KorSTS/sts-test.tsv",
        ),
    ),
    splits={
        "train": (RowRange(("sts-train.tsv",)),),
        "dev": (RowRange(("sts-dev.tsv",)),),
        "test": (RowRange(("sts-test.tsv",)),),
    },
)

"""Korean texts with a topic or an answer, and with the names in them tagged."""

from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange

YNAT = Corpus(
    name="ynat",
    built=True,
    description="Korean news headlines on seven topics: 41,654 + 2,000 + 2,000",
    licence="CC BY-SA 4.0",
    url="https://github.com/seawavve/daconNewsTopicClassification",
    columns={"text": "title", "label": "label"},
    labels=("IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치"),
    files=(
        CorpusFile(
            "train.tsv",
            "777786dfef6bbb58425d5cecf4b6e197b0b4ca5228d17b4402df699b306b006d",
            3_157_051,
            url="",
        ),
        CorpusFile(
            "dev.tsv",
            "45a9b090c81eb75e2afe87ce50d0e549c659045497b4b7e190665a5a1a3cb50c",
            151_129,
            url="",
        ),
        CorpusFile(
            "test.tsv",
            "f4a6bb8ff0fa177aea536fb7fc03c3337d20b1752c290bf454440482bde62392",
            151_070,
            url="",
        ),
    ),
    splits={
        "train": (RowRange(("train.tsv",)),),
        "dev": (RowRange(("dev.tsv",)),),
        "test": (RowRange(("test.tsv",)),),
    },
)

_TALK = ("ChatbotData.csv",)

CHATBOT = Corpus(
    name="chatbot",
    description="Korean questions, each with an answer and a topic: 11,823",
    licence="MIT",
    url="https://github.com/songys/Chatbot_data",
    columns={"source": "Q", "target": "A", "text": "Q", "label": "label"},
    target_language="ko",
    format="csv",
    labels=("daily", "parting", "love"),
    files=(
        CorpusFile(
            "ChatbotData.csv",
            "287eb129695b577321c80ad397bb3c2279164d4ca577874d129fd3db5b30afe2",
            889_842,
            "https://raw.githubusercontent.com/songys/Chatbot_data/"
            "4cf20d13fc46f5037fd1c531cd566e2dd9f72974/ChatbotData.csv",
        ),
    ),
    # By question: 161 questions occur more than once, with different answers.
    splits={
        "train": (RowRange(_TALK, stop=800, by="hash", key="Q"),),
        "dev": (RowRange(_TALK, first=800, stop=900, by="hash", key="Q"),),
        "test": (RowRange(_TALK, first=900, by="hash", key="Q"),),
    },
)

_NAMES = ("klue-ner-v1.1_dev.tsv",)
_KINDS = ("DT", "LC", "OG", "PS", "QT", "TI")  # date, location, organisation, person, number, time

KLUE_NER = Corpus(
    name="klue-ner",
    description="Korean sentences with tagged dates, places, organisations, people, numbers: 5,000",
    licence="CC BY-SA 4.0",
    url="https://github.com/KLUE-benchmark/KLUE",
    columns={"text": "text", "tags": "tags"},
    format="bio",
    tags=("O", *(f"{mark}-{kind}" for kind in _KINDS for mark in "BI")),
    files=(
        CorpusFile(
            "klue-ner-v1.1_dev.tsv",
            "0f4d5e818f7b82d299c3a87856fc40a706f5943207580ddb252397e387050a54",
            2_635_045,
            "https://raw.githubusercontent.com/KLUE-benchmark/KLUE/"
            "3efd98708a40ff49251fddde35453f8fbb11f536/"
            "klue_benchmark/klue-ner-v1.1/klue-ner-v1.1_dev.tsv",
            folder="klue",
        ),
    ),
    # Only the official dev file is public; its sentences are split by the sha1 of their ids.
    splits={
        "train": (RowRange(_NAMES, stop=4_000, by="order", key="id"),),
        "dev": (RowRange(_NAMES, first=4_000, stop=4_500, by="order", key="id"),),
        "test": (RowRange(_NAMES, first=4_500, by="order", key="id"),),
    },
)

_INTENT_FILES = ("3i4k.train.tsv",)

INTENTS = Corpus(
    name="3i4k",
    description="Korean utterances with one of seven intentions: 55,134 + 6,121",
    licence="CC BY-SA 4.0",
    url="https://github.com/warnikchow/3i4k",
    columns={"text": "text", "label": "label"},
    labels=(
        "fragment",
        "statement",
        "question",
        "command",
        "rhetorical question",
        "rhetorical command",
        "intonation-dependent",
    ),
    files=(
        CorpusFile(
            "3i4k.train.tsv",
            "abb26efb06404c90da5656a46dcb8bf86600bac3a8842ecd10ea7553e42caaf6",
            2_603_147,
            url="",
            folder="korean/labelled",
        ),
        CorpusFile(
            "3i4k.test.tsv",
            "06e229843eff2f486daa6e149777c2b49d22400d34db977c04b0cdccce0831cb",
            288_646,
            url="",
            folder="korean/labelled",
        ),
    ),
    splits={
        "train": (RowRange(_INTENT_FILES, stop=900, by="hash", key="text"),),
        "dev": (RowRange(_INTENT_FILES, first=900, by="hash", key="text"),),
        "test": (RowRange(("3i4k.test.tsv",)),),
    },
)

_COMMENTS = ("hate.train.tsv",)

HATE = Corpus(
    name="hate",
    description="Korean comments on entertainment news, hateful, offensive or neither: 7,896 + 471",
    licence="CC BY-SA 4.0",
    url="https://github.com/kocohub/korean-hate-speech",
    columns={"text": "comments", "label": "hate"},
    labels=("none", "offensive", "hate"),
    files=(
        CorpusFile(
            "hate.train.tsv",
            "ebebacdcd023af2c4acc8c0a37695fb6433ac04fc009feff8f222724e303a5a9",
            913_546,
            url="",
            folder="korean/labelled",
        ),
        CorpusFile(
            "hate.dev.tsv",
            "232b615d6e359a9d31dfb8370f32e1733dc5bb3f9c5430d34d7fcc7ba4b7e8ef",
            54_903,
            url="",
            folder="korean/labelled",
        ),
    ),
    # The labels of the official test file are not public: the official dev file is our test.
    splits={
        "train": (RowRange(_COMMENTS, stop=900, by="hash", key="comments"),),
        "dev": (RowRange(_COMMENTS, first=900, by="hash", key="comments"),),
        "test": (RowRange(("hate.dev.tsv",)),),
    },
)

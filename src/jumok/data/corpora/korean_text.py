"""Plain Korean text of many domains for pretraining: its sources, with the licence of each.

`jumok.lab.assemble` makes the one file of the corpus from the sources. A source whose licence is
not stated by its publisher is left out.
"""

from dataclasses import dataclass

from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange


@dataclass(frozen=True)
class TextSource:
    """Texts of one domain and licence: plain files, or the training split of a corpus."""

    name: str
    domain: str
    licence: str
    origin: str
    files: tuple[str, ...] = ()  # FOLDER/NAME, one paragraph or sentence a line
    corpus: str = ""  # a known corpus instead: the texts of its training split
    columns: tuple[str, ...] = ("text",)  # of the corpus, those that are read
    text_columns: tuple[str, ...] = ("text",)  # of those, the Korean ones


SOURCES = (
    TextSource(
        "wikipedia",
        "encyclopedia articles of about 2022",
        "CC BY-SA 3.0",
        "ko.wikipedia.org, read through github.com/97danielj/WordEmbedding",
        tuple(f"korean/wiki-{number}.txt" for number in range(1, 5)),
    ),
    TextSource(
        "docs",
        "software documentation, mostly translated",
        "CC BY 4.0 (Microsoft, Vue), Apache-2.0 (TensorFlow, Hugging Face course, Elixir School), "
        "BSD-3-Clause (PyTorch)",
        "ten repositories on github.com, named in docs/data.md",
        ("korean/docs.txt",),
    ),
    TextSource(
        "techdocs",
        "The Rust Programming Language and the documentation of React",
        "MIT or Apache-2.0 (Rust), CC BY 4.0 (React)",
        "github.com/rust-kr/doc.rust-kr.org, github.com/reactjs/ko.react.dev",
        ("text/techdocs.txt",),
    ),
    TextSource(
        "court",
        "court decisions, without parties, counsel and judges",
        "public domain (Copyright Act of Korea, article 7)",
        "github.com/Bullskc/Legalize-KR",
        ("korean/court.txt",),
    ),
    TextSource(
        "law",
        "statutes and decrees",
        "public domain (Copyright Act of Korea, article 7)",
        "github.com/xxyy89890-wq/legalize-kr",
        ("korean/law.txt",),
    ),
    TextSource(
        "books",
        "book reviews and reading essays",
        "CC BY (National Assembly Library), CC BY 2.0 KR (Acorn)",
        "github.com/yiunsr/boddari",
        ("korean/books.txt",),
    ),
    TextSource(
        "stories",
        "children's stories, translations of Andersen, collected sentences",
        "public domain or donated for free use (Gongu), CC0 (Common Voice)",
        "github.com/yiunsr/boddari, github.com/mozilla/common-voice",
        ("korean/stories.txt",),
    ),
    TextSource(
        "news",
        "news, and headlines of entertainment news",
        "CC BY 2.5 (Wikinews), CC BY-SA 4.0 (headlines)",
        "github.com/yiunsr/boddari, github.com/kocohub/korean-hate-speech",
        ("korean/news.txt",),
    ),
    TextSource(
        "comments",
        "comments on entertainment news, informal and coarse",
        "CC BY-SA 4.0",
        "github.com/kocohub/korean-hate-speech",
        ("korean/comments.txt",),
    ),
    TextSource(
        "spoken",
        "spoken commands and questions, dialogues about music and manuals",
        "CC BY-SA 4.0 (3i4k, ParaKQC), MIT (HG-TODS)",
        "github.com/warnikchow/3i4k, github.com/warnikchow/paraKQC, github.com/NLPlab-skku/HG-TODS",
        ("korean/spoken.txt",),
    ),
    TextSource(
        "treebanks",
        "sentences of essays, novels, textbooks and the web",
        "CC BY-SA 4.0 (UD_Korean-Kaist, UD_Korean-GSD)",
        "github.com/emorynlp/ud-korean, github.com/UniversalDependencies",
        ("korean/treebank.txt", "text/ud.txt"),
    ),
    TextSource(
        "novels",
        "short novels of the early 20th century",
        "CC BY-SA 4.0 (the novels: public domain)",
        "github.com/storidient/KoCoNovel",
        corpus="novels",
    ),
    TextSource(
        "reviews",
        "reviews of films without a rating",
        "CC0 1.0",
        "github.com/e9t/nsmc",
        corpus="nsmc-text",
    ),
    TextSource(
        "rated reviews",
        "reviews of films, the training split of NSMC",
        "CC0 1.0",
        "github.com/e9t/nsmc",
        corpus="nsmc",
    ),
    TextSource(
        "chatbot",
        "questions of everyday life and answers, training split",
        "MIT",
        "github.com/songys/Chatbot_data",
        corpus="chatbot",
        columns=("source", "target"),
        text_columns=("source", "target"),
    ),
    TextSource(
        "question pairs",
        "questions, training split",
        "MIT",
        "github.com/songys/Question_pair",
        corpus="question_pair",
        columns=("text", "pair"),
        text_columns=("text", "pair"),
    ),
    TextSource(
        "similar pairs",
        "translated sentences of news, captions and forums, training split of KorSTS",
        "CC BY-SA 4.0",
        "github.com/kakaobrain/kor-nlu-datasets",
        corpus="korsts",
        columns=("text", "pair"),
        text_columns=("text", "pair"),
    ),
    TextSource(
        "inference pairs",
        "translated sentences of ten genres, training split of `kornli` (XNLI)",
        "CC BY-SA 4.0",
        "github.com/kakaobrain/kor-nlu-datasets",
        corpus="kornli",
        columns=("text", "pair"),
        text_columns=("text", "pair"),
    ),
)

# The corpora whose dev and test sets no text may repeat, with the Korean columns of each.
HELD_OUT: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("nsmc", ("text",), ("text",)),
    ("nsmc-text", ("text",), ("text",)),
    ("ynat", ("text",), ("text",)),
    ("question_pair", ("text", "pair"), ("text", "pair")),
    ("kornli", ("text", "pair"), ("text", "pair")),
    ("korsts", ("text", "pair"), ("text", "pair")),
    ("klue-ner", ("text", "tags"), ("text",)),
    ("chatbot", ("source", "target"), ("source", "target")),
    ("koen", ("source", "target"), ("source",)),
    ("3i4k", ("text",), ("text",)),
    ("hate", ("text",), ("text",)),
    ("novels", ("text",), ("text",)),
)

# Files of evaluation sets that are no corpora, and their fields of text; none: plain lines. The
# sampled sentences repeat none of them; ko-small.txt is older than this list.
EVALUATION_FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("klue/klue-sts-v1.1_dev.json", ("sentence1", "sentence2")),
    ("klue/klue-nli-v1.1_dev.json", ("premise", "hypothesis")),
    ("flores/flores-dev.ko", ()),
    ("flores/flores-test.ko", ()),
)

_LINES = ("ko-small.txt",)

KO_SMALL = Corpus(
    name="ko-small",
    description="Korean text of many domains for pretraining, without any dev or test sentence",
    licence="CC0, CC BY, CC BY-SA, MIT, Apache-2.0, BSD-3-Clause, public domain (docs/data.md)",
    url="18 sources: see docs/data.md",
    columns={"text": "text"},
    format="lines",
    files=(
        CorpusFile(
            "ko-small.txt",
            "8a263b7e9416993f1ef0e25a094daddc98257e62fdd9beb5413ea066d92e842d",
            225_869_011,
            url="",
        ),
    ),
    splits={
        # Not the last thousandths, in which `nsmc-text` has its own dev and test rows.
        "train": (RowRange(_LINES, first=1, by="hash", key="text"),),
        "dev": (RowRange(_LINES, stop=1, by="hash", key="text"),),
    },
)

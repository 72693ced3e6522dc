"""Naver movie reviews: labelled with a sentiment, and unlabelled for language models."""

from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange

_ADDRESS = "https://raw.githubusercontent.com/e9t/nsmc/master"

NSMC = Corpus(
    name="nsmc",
    description="Naver movie reviews, negative or positive: 150,000 + 50,000",
    licence="CC0 1.0",
    url="https://github.com/e9t/nsmc",
    columns={"text": "document", "label": "label"},
    labels=("negative", "positive"),
    files=(
        CorpusFile(
            "ratings_train.txt",
            "e03b7d14e9e41be8d464a28057cd25d7396c53e67aa7fd5f7e552c59b0ee2940",
            14_628_807,
            f"{_ADDRESS}/ratings_train.txt",
        ),
        CorpusFile(
            "ratings_test.txt",
            "8ac9f64052f11dbf6ae0acb5e038f03d90a76f0eda7820cfb3a92d02edfcebda",
            4_893_335,
            f"{_ADDRESS}/ratings_test.txt",
        ),
    ),
    # There is no official development set; the training file is already in random order.
    splits={
        "train": (RowRange(("ratings_train.txt",), stop=140_000),),
        "dev": (RowRange(("ratings_train.txt",), first=140_000),),
        "test": (RowRange(("ratings_test.txt",)),),
    },
)

_LINES = ("unlabelled.txt",)

NSMC_TEXT = Corpus(
    name="nsmc-text",
    description="all other Naver movie reviews as plain text: 485,646 lines without a label",
    licence="CC0 1.0",
    url="https://github.com/e9t/nsmc (raw/)",
    columns={"text": "text"},
    format="lines",
    built=True,
    files=(
        CorpusFile(
            "unlabelled.txt",
            "575bfdf2b0d72d9fdab21a5e7a022a219965d9066b430d54dd345346737952ea",
            43_775_395,
            url="",
            folder="nsmc",
        ),
    ),
    # The file is sorted by film, so held-out rows are chosen by hash.
    splits={
        "train": (RowRange(_LINES, stop=990, by="hash", key="text"),),
        "dev": (RowRange(_LINES, first=990, stop=995, by="hash", key="text"),),
        "test": (RowRange(_LINES, first=995, by="hash", key="text"),),
    },
    excluded=("nsmc",),
)

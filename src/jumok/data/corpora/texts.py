"""Plain texts of about a megabyte, each read as one text, for character language models."""

from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange


def _one_text(name: str, about: str, licence: str, home: str, file: CorpusFile) -> Corpus:
    """The first 90 % of the characters are train, the rest dev, as in nanoGPT."""
    return Corpus(
        name=name,
        description=about,
        licence=licence,
        url=home,
        columns={"text": "text"},
        format="text",
        files=(file,),
        splits={
            "train": (RowRange((file.name,), stop=900, by="characters"),),
            "dev": (RowRange((file.name,), first=900, by="characters"),),
        },
    )


NOVELS = _one_text(
    name="novels",
    about="50 Korean short novels of the early 20th century as one text: 705,250 characters",
    licence="CC BY-SA 4.0 (the novels: public domain)",
    home="https://github.com/storidient/KoCoNovel",
    file=CorpusFile(
        "novels.txt",
        "b45977c0a423f7552452b9f352cf8e3a1076f5571cd07480b9a0f7e4c973acba",
        1_691_616,
        url="",
        folder="text",
    ),
)

SHAKESPEARE = _one_text(
    name="shakespeare",
    about="a part of Shakespeare's plays as one text: 1,115,394 characters",
    licence="public domain (gathered under MIT)",
    home="https://github.com/karpathy/char-rnn",
    file=CorpusFile(
        "input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        1_115_394,
        "https://raw.githubusercontent.com/karpathy/char-rnn/"
        "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
    ),
)

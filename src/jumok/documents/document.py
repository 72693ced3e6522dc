"""A document: what stays as it is, and the blocks between."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from jumok.documents.block import Block, FindTerms
from jumok.documents.placement import Link
from jumok.documents.plain import LINE_END
from jumok.errors import InputError, or_list
from jumok.registry import Registry

Read = Callable[[str], Sequence[str | Block]]
Translation = tuple[str, Sequence[Link] | None]  # of the text of a block; its links if known

FORMATS = Registry[Read](
    "jumok.documents",
    "format",
    {
        "text": "jumok.documents.plain:read",
        "wrapped": "jumok.documents.plain:read_wrapped",
        "html": "jumok.documents.html:read",
        "markdown": "jumok.documents.markdown:read",
        "po": "jumok.documents.po:read",
        "srt": "jumok.documents.subtitles:read",
        "vtt": "jumok.documents.subtitles:read",
    },
)
_BYTE_ORDER_MARK = "\ufeff"
SUFFIXES = {
    ".txt": "text",
    ".htm": "html",
    ".html": "html",
    ".xhtml": "html",
    ".markdown": "markdown",
    ".md": "markdown",
    ".po": "po",
    ".pot": "po",
    ".srt": "srt",
    ".vtt": "vtt",
}


def format_of(path: PurePath) -> str:
    """The format of a file by the end of its name. Raises InputError for an unknown one.

    >>> format_of(PurePath("docs/README.md"))
    'markdown'
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            "documents.unknown_suffix",
            "the name of a document must end with {suffixes}, got {name!r}; name its format with "
            "--format",
            suffixes=or_list([*SUFFIXES, ".docx"]),
            name=path.name,
        )
    return SUFFIXES[suffix]


@dataclass(frozen=True)
class Document:
    r"""The parts of a file in order: text that stays as it is, and blocks.

    >>> document = Document.read("제목\n\n  겨울은 추워요.\n")
    >>> [block.text for block in document.blocks], list(document.lines)
    (['제목', '겨울은 추워요.'], [1, 3])
    >>> document.write([("Title", None), ("Winter is cold.", None)])
    'Title\n\n  Winter is cold.\n'
    """

    parts: Sequence[str | Block]

    @classmethod
    def read(cls, source: str, format: str = "text") -> "Document":  # noqa: A002  its name
        """Read the characters of a file. Raises InputError for an unknown format."""
        text = source.removeprefix(_BYTE_ORDER_MARK)
        mark = source[: len(source) - len(text)]
        return cls([*([mark] if mark else []), *FORMATS.get(format)(text)])

    def with_terms(self, find: FindTerms) -> "Document":
        """The document whose terms are translated as `find` specifies: `Glossary.find`."""
        return replace(
            self,
            parts=[
                part.with_terms(find) if isinstance(part, Block) else part for part in self.parts
            ],
        )

    @property
    def blocks(self) -> list[Block]:
        """What is translated."""
        return [part for part in self.parts if isinstance(part, Block)]

    @property
    def lines(self) -> Iterator[int]:
        """The line of the file on which each block begins, from 1."""
        line = 1
        for part in self.parts:
            if isinstance(part, Block):
                yield line
            line += len(LINE_END.findall(part.raw if isinstance(part, Block) else part))

    def write(self, translations: Sequence[Translation]) -> str:
        """The file with the translation of each block."""
        return self.join(
            [block.write(*found) for block, found in zip(self.blocks, translations, strict=True)]
        )

    def join(self, written: Sequence[str]) -> str:
        """The file with its blocks as they are `written`."""
        found = iter(written)
        return "".join(part if isinstance(part, str) else next(found) for part in self.parts)

"""Marian's tokenisers: two SentencePiece models, source.spm and target.spm, and vocab.json.

The ids are those of vocab.json, which the two models share, unless `separate_vocabs` gives the
written language a target_vocab.json of its own. A text may begin with the language it is to be
translated into: ">>kor<< How are you?".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import sentencepiece

from jumok.errors import InputError
from jumok.text.pretrained.backend import Cut, checked_text, cleaned
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.special_tokens import named_pieces
from jumok.text.pretrained.tokenizer_config import NAMED, Settings, Token, check_ids
from jumok.text.pretrained.unigram import model_of

_DEFAULTS: Mapping[str, Token | None] = {
    "unk_token": "<unk>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
}
_SPACE = "▁"
_LANGUAGE = re.compile(r">>.*?<<", re.S)
_TEXTS_PER_THREAD = 512
MAX_LENGTH = 512  # where the files do not say


@dataclass(frozen=True)
class MarianCutter:
    """A `Cutter` for one of the two languages.

    `known` are the pieces this side writes and reads; `special` the pieces that are not cut, with
    their ids, which both sides share; `joined` is the model that puts texts together again.
    """

    model: sentencepiece.SentencePieceProcessor
    known: Mapping[str, int]
    written: Mapping[str, int]
    joined: sentencepiece.SentencePieceProcessor
    special: Mapping[str, int]
    added: Mapping[str, int]
    unknown: int
    clean_up: bool = False
    kind: str = "sentencepiece"

    @property
    def pieces(self) -> Mapping[str, int]:
        """Every piece and its id."""
        return {**self.known, **self.added}

    def exact(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that transformers gives: special pieces are cut out of a text first."""
        rows: list[list[int]] = []
        parts: list[str] = []  # what lies between special pieces, of all texts
        places: list[tuple[int, int]] = []  # in which row, and where in it
        for text in texts:
            row: list[int] = []
            for part in self._apart.split(checked_text(text)) if text else ():
                if part in self.added:
                    row.append(self.added[part])
                elif part:
                    places.append((len(rows), len(row)))
                    parts.append(part)
                    row.append(-1)
            rows.append(row)
        for (row_number, place), ids in zip(
            reversed(places), reversed(self._cut(parts)), strict=True
        ):
            rows[row_number][place : place + 1] = ids
        return rows

    def plain(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts as plain words."""
        return self._cut([checked_text(text) for text in texts])

    def cut(self, text: str, *, plain: bool = False) -> Cut:
        """Refused: transformers gives no offsets for Marian either."""
        raise InputError(
            f"Marian's tokenisers do not tell where in {text[:20]!r} a piece came from; use a "
            "model with a tokenizer.json for that"
        )

    def join(self, rows: Sequence[Sequence[int]], keep_special: bool) -> list[str]:
        """The texts of rows of ids."""
        texts = ["".join(self._joined(row, keep_special)) for row in rows]
        texts = [text.replace(_SPACE, " ").strip() for text in texts]
        return [cleaned(text) for text in texts] if self.clean_up else texts

    def _cut(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts that hold no special piece; a language in front is one piece."""
        languages = [_language(text) for text in texts]
        rest = [text[len(code) :] for text, code in zip(texts, languages, strict=True)]
        threads = max(1, len(rest) // _TEXTS_PER_THREAD)
        rows = self.model.encode(rest, out_type=str, num_threads=min(threads, 8)) if rest else []
        return [
            [self._id(piece) for piece in ([code, *row] if code else row)]
            for code, row in zip(languages, rows, strict=True)
        ]

    def _id(self, piece: str) -> int:
        found = self.added.get(piece)
        return self.known.get(piece, self.unknown) if found is None else found

    def _joined(self, row: Sequence[int], keep_special: bool) -> Iterator[str]:
        """The text of a row: the model joins the pieces between special ones."""
        words: list[str] = []
        for i in row:
            piece = self._names.get(i)
            if piece is None:
                continue
            if piece not in self.special:
                words.append(piece)
            elif keep_special:
                yield self.joined.decode_pieces(words) + piece + " "
                words = []
        yield self.joined.decode_pieces(words)

    @cached_property
    def _names(self) -> Mapping[int, str]:
        ids = {i: piece for piece, i in self.written.items()}
        return ids | {i: piece for piece, i in self.added.items()}

    @cached_property
    def _apart(self) -> re.Pattern[str]:
        """The special pieces, longest first, as what a text is split at."""
        longest = sorted(self.added, key=len, reverse=True)
        return re.compile("(" + "|".join(map(re.escape, longest)) + ")")


@dataclass(frozen=True)
class Marian:
    """The tokenisers of a Marian folder: of the language that is read and of the one written."""

    source: MarianCutter
    target: MarianCutter
    named: Mapping[str, str]


def marian(files: TokenizerFiles, settings: Settings) -> Marian:
    """The two tokenisers in these files."""
    if settings.options.get("sp_model_kwargs"):
        raise InputError("sp_model_kwargs changes how SentencePiece cuts; leave it out")
    vocab = _vocabulary(files, "vocab.json")
    separate = settings.flag("separate_vocabs", default=False)
    target_vocab = _vocabulary(files, "target_vocab.json") if separate else vocab
    named = named_pieces(settings, _DEFAULTS)
    if str(named["unk_token"]) not in vocab:
        raise InputError(f"vocab.json has no {named['unk_token']}, which Marian needs; add it")
    special, added = _added(vocab, settings, named)
    source, target = (_processor(files, name) for name in ("source.spm", "target.spm"))
    names = {name: str(token) for name, token in named.items() if token is not None}
    read = MarianCutter(
        source,
        known=vocab,
        written=target_vocab,
        joined=target if separate else source,  # as transformers 5 does it
        special=special,
        added=added,
        unknown=vocab[names["unk_token"]],
        clean_up=settings.flag("clean_up_tokenization_spaces", default=False),
    )
    unknown = target_vocab.get(names["unk_token"], read.unknown)
    write = replace(read, model=target, known=target_vocab, unknown=unknown)
    return Marian(read, write, {name: piece for name, piece in names.items() if name in NAMED})


def _vocabulary(files: TokenizerFiles, name: str) -> dict[str, int]:
    files.bytes_of(name)  # it must be there
    table = files.table(name)
    check_ids(table.values(), name)
    return table


def _processor(files: TokenizerFiles, name: str) -> sentencepiece.SentencePieceProcessor:
    model_of(files, name)  # its checks are stricter than SentencePiece's own
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(files.bytes_of(name))
    except RuntimeError as error:
        raise InputError(f"SentencePiece refuses {name} ({error}); get it again") from None
    return processor


def _added(
    vocab: Mapping[str, int], settings: Settings, named: Mapping[str, Token | None]
) -> tuple[dict[str, int], dict[str, int]]:
    """The special pieces, and all pieces that are never cut; new ones get the next free ids."""
    added = {token.content: i for i, token in settings.added.items()}
    greedy = [t.content for t in settings.added.values() if t.lstrip or t.rstrip or t.single_word]
    if greedy:
        raise InputError(f"the added piece {greedy[0]!r} takes spaces or whole words; let it not")
    extra = settings.extra if settings.extra is not None else settings.additional or ()
    wanted = [str(token) for token in (*named.values(), *extra) if token is not None]
    known = {**vocab, **added}
    for piece in wanted:
        if piece and piece not in added:
            added[piece] = known.setdefault(piece, len(known))
    return {piece: added[piece] for piece in wanted if piece}, added


def _language(text: str) -> str:
    """The language a text begins with, in its signs, or nothing.

    >>> _language(">>kor<< Hello"), _language("Hello")
    ('>>kor<<', '')
    """
    found = _LANGUAGE.match(text)
    return found[0] if found else ""

"""Marian tokenizers: two SentencePiece models, source.spm and target.spm, and vocab.json.

The two models share the ids of vocab.json, unless `separate_vocabs` gives the target language a
target_vocab.json of its own. A text may begin with its target language: ">>kor<< How are you?".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import sentencepiece

from jumok.errors import TokenizerError
from jumok.text.offsets import SPACE
from jumok.text.pretrained.backend import check_encodable, clean_up_spaces
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.special_tokens import named_pieces
from jumok.text.pretrained.tokenizer_config import NAMED, Token, TokenizerConfig, check_ids
from jumok.text.pretrained.unigram import load_processor, read_model_file
from jumok.text.tokenizer import Encoding, alternatives

_DEFAULTS: Mapping[str, Token | None] = {
    "unk_token": "<unk>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
}
_LANGUAGE = re.compile(r">>.*?<<", re.S)
_TEXTS_PER_THREAD = 512
DEFAULT_MAX_LENGTH = 512


@dataclass(frozen=True)
class MarianBackend:
    """A `Backend` for one of the two languages.

    `encoding_ids` are the ids of the pieces when this side encodes, `decoding_ids` when it decodes;
    both sides share the `special` pieces and the `added` ones, which are never split.
    """

    encoder: sentencepiece.SentencePieceProcessor
    encoding_ids: Mapping[str, int]
    decoder: sentencepiece.SentencePieceProcessor
    decoding_ids: Mapping[str, int]
    special: Mapping[str, int]
    added: Mapping[str, int]
    unk_id: int
    clean_up: bool = False
    kind: str = "sentencepiece"

    @property
    def pieces(self) -> Mapping[str, int]:
        """Every piece and its id."""
        return {**self.encoding_ids, **self.added}

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that transformers gives: a text is split at special pieces first."""
        rows: list[list[int]] = []
        parts: list[str] = []  # the texts between special pieces
        positions: list[tuple[int, int]] = []  # their rows, and their indices in these
        for text in texts:
            row: list[int] = []
            for part in self._added_pattern.split(check_encodable(text)) if text else ():
                if part in self.added:
                    row.append(self.added[part])
                elif part:
                    positions.append((len(rows), len(row)))
                    parts.append(part)
                    row.append(-1)
            rows.append(row)
        for (row_number, index), ids in zip(
            reversed(positions), reversed(self._encode(parts)), strict=True
        ):
            rows[row_number][index : index + 1] = ids
        return rows

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts in which a typed special piece is ordinary text."""
        return self._encode([check_encodable(text) for text in texts])

    def encode_with_offsets(self, text: str) -> Encoding:
        """Raises InputError: transformers gives no offsets for Marian either."""
        raise TokenizerError(
            "tokenizer.marian_without_offsets",
            "a Marian tokenizer has no offsets for {text!r}; use a model with a tokenizer.json",
            text=text[:20],
        )

    def decode(self, rows: Sequence[Sequence[int]], keep_special: bool) -> list[str]:
        """The texts of rows of ids."""
        texts = ["".join(self._decoded(row, keep_special)) for row in rows]
        texts = [text.replace(SPACE, " ").strip() for text in texts]
        return [clean_up_spaces(text) for text in texts] if self.clean_up else texts

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts without special pieces; a language code in front is one piece."""
        languages = [_language(text) for text in texts]
        rest = [text[len(code) :] for text, code in zip(texts, languages, strict=True)]
        threads = max(1, len(rest) // _TEXTS_PER_THREAD)
        rows = self.encoder.encode(rest, out_type=str, num_threads=min(threads, 8)) if rest else []
        return [
            [self._id(piece) for piece in ([code, *row] if code else row)]
            for code, row in zip(languages, rows, strict=True)
        ]

    def _id(self, piece: str) -> int:
        found = self.added.get(piece)
        return self.encoding_ids.get(piece, self.unk_id) if found is None else found

    def _decoded(self, row: Sequence[int], keep_special: bool) -> Iterator[str]:
        """The text of a row: the model decodes the pieces between special ones."""
        words: list[str] = []
        for i in row:
            piece = self._names.get(i)
            if piece is None:
                continue
            if piece not in self.special:
                words.append(piece)
            elif keep_special:
                yield self.decoder.decode_pieces(words) + piece + " "
                words = []
        yield self.decoder.decode_pieces(words)

    @cached_property
    def _names(self) -> Mapping[int, str]:
        ids = {i: piece for piece, i in self.decoding_ids.items()}
        return ids | {i: piece for piece, i in self.added.items()}

    @cached_property
    def _added_pattern(self) -> re.Pattern[str]:
        """The pattern that a text is split at: added pieces, longest first."""
        return re.compile(f"({alternatives(self.added)})")


@dataclass(frozen=True)
class MarianPair:
    """The tokenizers of a Marian folder: of the source language and of the target language."""

    source: MarianBackend
    target: MarianBackend
    named: Mapping[str, str]


def marian(files: TokenizerFiles, config: TokenizerConfig) -> MarianPair:
    """The two tokenizers in these files."""
    vocab = _vocabulary(files, "vocab.json")
    separate = config.flag("separate_vocabs", default=False)
    target_vocab = _vocabulary(files, "target_vocab.json") if separate else vocab
    named = named_pieces(config, _DEFAULTS)
    if str(named["unk_token"]) not in vocab:
        raise TokenizerError(
            "tokenizer.vocab_json_without_token",
            "vocab.json has no {named}, which Marian needs; add it",
            named=named["unk_token"],
        )
    special, added = _added(vocab, config, named)
    source, target = (_processor(files, name, config) for name in ("source.spm", "target.spm"))
    names = {name: str(token) for name, token in named.items() if token is not None}
    source_backend = MarianBackend(
        source,
        encoding_ids=vocab,
        decoder=target if separate else source,  # as in transformers 5
        decoding_ids=target_vocab,
        special=special,
        added=added,
        unk_id=vocab[names["unk_token"]],
        clean_up=config.flag("clean_up_tokenization_spaces", default=False),
    )
    unk_id = target_vocab.get(names["unk_token"], source_backend.unk_id)
    target_backend = replace(
        source_backend, encoder=target, encoding_ids=target_vocab, unk_id=unk_id
    )
    return MarianPair(
        source_backend,
        target_backend,
        {name: piece for name, piece in names.items() if name in NAMED},
    )


def _vocabulary(files: TokenizerFiles, name: str) -> dict[str, int]:
    files.data(name)  # raises if it is missing
    table = files.table(name)
    check_ids(table.values(), name)
    return table


def _processor(
    files: TokenizerFiles, name: str, config: TokenizerConfig
) -> sentencepiece.SentencePieceProcessor:
    read_model_file(files, name)  # its checks are stricter than those of SentencePiece
    return load_processor(files.data(name), name, config)


def _added(
    vocab: Mapping[str, int], config: TokenizerConfig, named: Mapping[str, Token | None]
) -> tuple[dict[str, int], dict[str, int]]:
    """The special pieces, and all pieces that are never split; new ones get the next free ids."""
    added = {token.content: i for i, token in config.added.items()}
    greedy = [t.content for t in config.added.values() if t.lstrip or t.rstrip or t.single_word]
    if greedy:
        raise TokenizerError(
            "tokenizer.added_piece_flags",
            "added pieces must not have lstrip, rstrip or single_word, got {greedy!r}; remove "
            "these flags",
            greedy=greedy[0],
        )
    extra = config.extra if config.extra is not None else config.additional or ()
    listed = [str(token) for token in (*named.values(), *extra) if token is not None]
    known = {**vocab, **added}
    for piece in listed:
        if piece and piece not in added:
            added[piece] = known.setdefault(piece, len(known))
    return {piece: added[piece] for piece in listed if piece}, added


def _language(text: str) -> str:
    """The language code that a text begins with, or "".

    >>> _language(">>kor<< Hello"), _language("Hello")
    ('>>kor<<', '')
    """
    found = _LANGUAGE.match(text)
    return found[0] if found else ""

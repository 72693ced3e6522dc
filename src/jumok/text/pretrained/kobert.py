"""KoBERT and DistilKoBERT: BERT's special pieces around the pieces of a SentencePiece model.

Two kinds of folders are on the Hub, and neither has a tokenizer.json:

    monologg/kobert, monologg/distilkobert    tokenizer_78b3253a26.model; vocab.txt has the ids
    skt/kobert-base-v1                        spiece.model; the ids are those of the model

Both tokenizers clean a text as XLNet's does (white space, quotes, accents, lower case) and cut a
comma off the number before it. The second folder names XLNetTokenizer, whose special pieces are
elsewhere; KoBERT has [CLS] A [SEP] and [CLS] A [SEP] B [SEP] (SKTBrain/KoBERT, kobert_hf).
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import sentencepiece

from jumok.text.offsets import SPACE, offsets
from jumok.text.pretrained.backend import check_encodable, clean_up_spaces
from jumok.text.pretrained.files import CONFIG, TOKENIZER, TokenizerFiles
from jumok.text.pretrained.special_tokens import BERT_PIECES, BERT_PIECES_WITH_ENDS, named_pieces
from jumok.text.pretrained.tokenizer_config import TokenizerConfig
from jumok.text.pretrained.unigram import load_processor, read_model_file
from jumok.text.sentencepiece_proto import PieceType, set_types
from jumok.text.tokenizer import Encoding, alternatives
from jumok.unicode_forms import normalize

_MODEL_FILES = ("tokenizer_78b3253a26.model", "spiece.model")
_CLASSES = ("KoBertTokenizer", "KoBERTTokenizer", "XLNetTokenizer", None)
_MODEL_TYPES = ("bert", "distilbert")
_VOCABULARY = "vocab.txt"
MAX_LENGTH = 512  # positions of all three models


def is_kobert(files: TokenizerFiles, model_config: Mapping[str, Any]) -> bool:
    """Whether these files are those of a BERT or DistilBERT with a SentencePiece model.

    >>> is_kobert(TokenizerFiles({"spiece.model": b"", "x": b""}), {"model_type": "bert"})
    True
    >>> is_kobert(TokenizerFiles({"spiece.model": b""}), {"model_type": "t5"})
    False
    """
    name = files.table(CONFIG).get("tokenizer_class") or model_config.get("tokenizer_class")
    return (
        TOKENIZER not in files
        and model_config.get("model_type") in _MODEL_TYPES
        and any(file in files for file in _MODEL_FILES)
        and name in _CLASSES
    )


@dataclass(frozen=True)
class KoBertBackend:
    """A `Backend` of one SentencePiece model whose pieces have the ids of `pieces`.

    `special` are the special pieces, which no text becomes except in `encode_hf`.
    """

    processor: sentencepiece.SentencePieceProcessor
    pieces: Mapping[str, int]
    special: Mapping[str, int]
    unk_id: int
    lower_case: bool = False
    remove_space: bool = True
    keep_accents: bool = False
    clean_up: bool = False
    kind: str = "sentencepiece"

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts in which a typed special piece is ordinary text."""
        return [self._ids(check_encodable(text)) for text in texts]

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of KoBERT's own tokenizer: a typed special piece is that piece."""
        rows = (self._special_pattern.split(check_encodable(text)) for text in texts)
        return [list(chain.from_iterable(map(self._ids_of_part, row))) for row in rows]

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids with their characters; InputError if the pieces spell another text."""
        pieces = self._pieces(check_encodable(text))
        return Encoding(self.encode([text])[0], offsets(text, pieces))

    def decode(self, rows: Sequence[Sequence[int]], keep_special: bool) -> list[str]:
        """The texts of rows of ids; special pieces are separated by spaces."""
        texts = [" ".join(filter(None, self._decoded(row, keep_special))) for row in rows]
        return [clean_up_spaces(text) for text in texts] if self.clean_up else texts

    def _decoded(self, row: Sequence[int], keep_special: bool) -> Iterator[str]:
        """The texts between special pieces, and these if they are kept."""
        words: list[str] = []
        for i in row:
            piece = self._names.get(i, "")
            if piece in self.special:
                if keep_special:
                    yield "".join(words).replace(SPACE, " ").strip()
                    yield piece
                    words = []
            else:
                words.append(piece)
        yield "".join(words).replace(SPACE, " ").strip()

    def _ids_of_part(self, part: str) -> list[int]:
        return [self.special[part]] if part in self.special else self._ids(part)

    def _ids(self, text: str) -> list[int]:
        return [self._id(piece) for piece in self._pieces(text)]

    def _id(self, piece: str) -> int:
        return self.unk_id if piece in self.special else self.pieces.get(piece, self.unk_id)

    def _pieces(self, text: str) -> list[str]:
        pieces: list[str] = self.processor.encode(self._clean(text), out_type=str)
        return list(chain.from_iterable(map(self._without_comma, pieces)))

    def _clean(self, text: str) -> str:
        if self.remove_space:
            text = " ".join(text.split())
        text = text.replace("``", '"').replace("''", '"')
        if not self.keep_accents:  # SentencePiece composes Hangul again
            decomposed = normalize("NFKD", text)
            text = "".join(c for c in decomposed if not unicodedata.combining(c))
        return text.lower() if self.lower_case else text

    def _without_comma(self, piece: str) -> list[str]:
        """The pieces of a number and of the comma after it; other pieces unchanged."""
        if not (len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()):
            return [piece]
        number = self.processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
        if number and not piece.startswith(SPACE) and number[0].startswith(SPACE):
            number = [number[0][1:], *number[1:]] if len(number[0]) > 1 else number[1:]
        return [*number, ","]

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return {i: piece for piece, i in self.pieces.items()}

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        return re.compile(f"({alternatives(self.special)})")


def kobert(files: TokenizerFiles, config: TokenizerConfig) -> tuple[KoBertBackend, dict[str, str]]:
    """The tokenizer in these files, and its special pieces by name."""
    name = next(file for file in _MODEL_FILES if file in files)
    model = read_model_file(files, name)
    if _VOCABULARY in files:
        lines = files.text(_VOCABULARY).removesuffix("\n").split("\n")
        pieces = {line.strip(): i for i, line in enumerate(lines)}
        named = named_pieces(config, BERT_PIECES)
    else:
        pieces = {piece: i for i, piece in enumerate(model.pieces)}
        named = named_pieces(config, BERT_PIECES_WITH_ENDS)
    names = {key: str(token) for key, token in named.items() if token is not None}
    special: dict[str, int] = {}
    for piece in (*names.values(), *map(str, config.extra or config.additional or ())):
        special[piece] = pieces.setdefault(piece, len(pieces))
    typed = {  # a special piece that a text can become
        i: PieceType.CONTROL
        for i, piece in enumerate(model.pieces)
        if piece in special and model.types[i] in (PieceType.NORMAL, PieceType.USER_DEFINED)
    }
    data = set_types(files.data(name), typed)
    backend = KoBertBackend(
        load_processor(data, name, config),
        pieces,
        special,
        unk_id=special[names["unk_token"]],
        lower_case=config.flag("do_lower_case", default=False),
        remove_space=config.flag("remove_space", default=True),
        keep_accents=config.flag("keep_accents", default=False),
        clean_up=config.flag("clean_up_tokenization_spaces", default=False),
    )
    return backend, names

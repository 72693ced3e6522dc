"""tokenizer.json, the file format of the tokenizers library: checked, then built."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import Tokenizer, models

from jumok.errors import InputError
from jumok.text.precompiled_charsmap import MAX_EXPANSION, check_expansion, max_expansion
from jumok.text.pretrained.files import TOKENIZER, TokenizerFiles
from jumok.text.pretrained.library_errors import check_pattern, library_errors
from jumok.text.pretrained.tokenizer_config import check_ids

Kind = Literal["WordPiece", "BPE", "Unigram", "WordLevel"]


@dataclass(frozen=True)
class TokenizerJson:
    """A checked tokenizer.json: `state` is its table, `text` the file itself."""

    state: Mapping[str, Any]
    text: str

    @classmethod
    def read(cls, files: TokenizerFiles) -> "TokenizerJson":
        """The tokenizer.json of these files; InputError for content that crashes the library."""
        state = files.table(TOKENIZER)
        model = state.get("model")
        if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
            raise InputError(f"{TOKENIZER} must have a model with a vocab; download it again")
        found = cls(state, files.text(TOKENIZER))
        vocab = model["vocab"]
        if isinstance(vocab, dict):
            check_ids(vocab.values(), TOKENIZER)
        elif not all(_is_scored(entry) for entry in vocab):
            raise InputError(f"{TOKENIZER}: the vocab must be a list of pieces and scores")
        check_ids((token.get("id") for token in found.added), TOKENIZER)
        if isinstance(vocab, dict) and found.kind == "BPE":
            _check_merges(found.merges, vocab, model.get("continuing_subword_prefix") or "")
        for part in ("normalizer", "pre_tokenizer", "decoder"):
            for pattern in _patterns(state.get(part)):
                check_pattern(pattern)
        check_expansion(_expansion(state.get("normalizer")))
        return found

    @property
    def model(self) -> Mapping[str, Any]:
        """The part that splits words into pieces."""
        model: Mapping[str, Any] = self.state["model"]
        return model

    @property
    def kind(self) -> str:
        """The type of the model; inferred from its parts in old files without a type."""
        kind = self.model.get("type")
        if isinstance(kind, str):
            return kind
        if isinstance(self.model["vocab"], list):
            return "Unigram"
        return "BPE" if "merges" in self.model else "WordPiece"

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The merges of a BPE model, in order, from both file formats."""
        pairs = []
        for merge in self.model.get("merges") or []:
            match merge.split(" ") if isinstance(merge, str) else merge:
                case [str(first), str(second)]:
                    pairs.append((first, second))
                case _:
                    raise InputError(f"{TOKENIZER}: merges must be pairs, got {str(merge)[:80]!r}")
        return pairs

    @property
    def added(self) -> list[Mapping[str, Any]]:
        """The pieces added to those of the model, special ones included."""
        added = self.state.get("added_tokens") or []
        if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
            raise InputError(f"{TOKENIZER}: added_tokens must be a list of tables")
        return added

    @property
    def processor(self) -> Mapping[str, Any] | None:
        """The post_processor, which adds special tokens."""
        state = self.state.get("post_processor")
        if not isinstance(state, dict | None):
            raise InputError(f"{TOKENIZER}: post_processor must be a table")
        return state

    @property
    def charsmap(self) -> str | None:
        """The charsmap of SentencePiece in base64, if the normalizer has one."""
        for step in _steps(self.state.get("normalizer")):
            if step.get("type") == "Precompiled" and "precompiled_charsmap" in step:
                return str(step["precompiled_charsmap"])
        return None

    @property
    def is_byte_level(self) -> bool:
        """Whether texts are split as bytes."""
        return any(
            step.get("type") == "ByteLevel" for step in _steps(self.state.get("pre_tokenizer"))
        )

    def option(self, part: str, name: str) -> str | None:
        """A string in the file's `truncation` or `padding`, such as the direction."""
        table = self.state.get(part)
        value = table.get(name) if isinstance(table, dict) else None
        return value if isinstance(value, str) else None

    def build(self) -> Tokenizer:
        """The library's tokenizer of the file, without truncation, padding and dropout."""
        with library_errors(f"{TOKENIZER} cannot be used"):
            tokenizer = Tokenizer.from_str(self.text)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            if isinstance(tokenizer.model, models.BPE):
                tokenizer.model.dropout = None  # so that ids are deterministic
            return tokenizer


def _steps(part: object) -> Iterator[Mapping[str, Any]]:
    """The steps of a normalizer or pre-tokenizer: itself, or the steps of a sequence."""
    if isinstance(part, dict):
        inner = part.get("normalizers", part.get("pretokenizers"))
        if part.get("type") == "Sequence" and isinstance(inner, list):
            for step in inner:
                yield from _steps(step)
        else:
            yield part


def _patterns(part: object) -> Iterator[str]:
    """Every regular expression in a part of the file."""
    if isinstance(part, dict):
        pattern = part.get("Regex")
        if isinstance(pattern, str):
            yield pattern
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for one in inner:
        yield from _patterns(one)


def _expansion(part: object) -> int:
    """The maximum expansion factor in bytes of the steps of a normalizer."""
    if isinstance(part, list):
        return _product(_expansion(one) for one in part)
    if not isinstance(part, dict):
        return 1
    inner = _product(_expansion(one) for one in part.values())
    return min(inner * _step_expansion(part), MAX_EXPANSION + 1)


def _step_expansion(step: Mapping[str, Any]) -> int:
    charsmap, content = step.get("precompiled_charsmap"), step.get("content")
    if isinstance(charsmap, str):
        return max_expansion(decode_charsmap(charsmap))
    return max(len(content.encode()), 1) if isinstance(content, str) else 1


def _product(factors: Iterator[int]) -> int:
    product = 1
    for factor in factors:
        product = min(product * factor, MAX_EXPANSION + 1)
    return product


def decode_charsmap(charsmap: str) -> bytes:
    """The bytes of a charsmap in base64."""
    try:
        return base64.b64decode(charsmap, validate=True)
    except ValueError as error:
        raise InputError(f"{TOKENIZER}: precompiled_charsmap must be base64 ({error})") from None


def _is_scored(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and isinstance(entry[1], int | float)
    )


def _check_merges(merges: list[tuple[str, str]], vocab: Mapping[str, int], prefix: str) -> None:
    for first, second in merges:
        merged = first + second[len(prefix) :]
        if not (first in vocab and second in vocab and merged in vocab):
            raise InputError(
                f"{TOKENIZER}: the merge of {first!r} and {second!r} must be a piece of the "
                "vocabulary; download the file again"
            )

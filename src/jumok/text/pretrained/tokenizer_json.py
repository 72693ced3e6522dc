"""tokenizer.json, the file format of the tokenizers library: checked, then built."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import Tokenizer, models

from jumok.errors import TokenizerError
from jumok.text.limits import check_pieces
from jumok.text.precompiled_charsmap import max_expansion
from jumok.text.pretrained.files import TOKENIZER, TokenizerFiles
from jumok.text.pretrained.growth import check_decoder, check_normalizer, check_steps, steps
from jumok.text.pretrained.library_errors import check_pattern, library_errors
from jumok.text.pretrained.tokenizer_config import check_ids

Kind = Literal["WordPiece", "BPE", "Unigram", "WordLevel"]

MAX_ADDED_PIECES = 50_000  # searched for in every text; Gemma 3 has 6,400
MAX_WORD_CHARS = 256  # of WordPiece, whose time is cubic in them; 100 in all usual tokenizers


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
            raise TokenizerError(
                "tokenizer.no_vocab",
                "{tokenizer} must have a model with a vocab; download it again",
                tokenizer=TOKENIZER,
            )
        found = cls(state, files.text(TOKENIZER))
        vocab = model["vocab"]
        if isinstance(vocab, dict):
            check_ids(vocab.values(), TOKENIZER)
            check_pieces(vocab)
        elif not all(_is_scored(entry) for entry in vocab):
            raise TokenizerError(
                "tokenizer.vocab_not_a_list",
                "{tokenizer}: the vocab must be a list of pieces and scores",
                tokenizer=TOKENIZER,
            )
        else:
            check_pieces(piece for piece, _ in vocab)
        _check_added(found.added)
        _check_word_length(model)
        if isinstance(vocab, dict) and found.kind == "BPE":
            _check_merges(found.merges, vocab, model.get("continuing_subword_prefix") or "")
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
            check_steps(part, state.get(part))
            for pattern in _patterns(state.get(part)):
                check_pattern(pattern)
        check_normalizer(state.get("normalizer"), charsmap_expansions(state.get("normalizer")))
        check_decoder(state.get("decoder"))
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
                    raise TokenizerError(
                        "tokenizer.merges",
                        "{tokenizer}: merges must be pairs, got {merge!r}",
                        tokenizer=TOKENIZER,
                        merge=str(merge)[:80],
                    )
        return pairs

    @property
    def added(self) -> list[Mapping[str, Any]]:
        """The pieces added to those of the model, special ones included."""
        added = self.state.get("added_tokens") or []
        if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
            raise TokenizerError(
                "tokenizer.added_tokens",
                "{tokenizer}: added_tokens must be a list of tables",
                tokenizer=TOKENIZER,
            )
        return added

    @property
    def processor(self) -> Mapping[str, Any] | None:
        """The post_processor, which adds special tokens."""
        state = self.state.get("post_processor")
        if not isinstance(state, dict | None):
            raise TokenizerError(
                "tokenizer.post_processor",
                "{tokenizer}: post_processor must be a table",
                tokenizer=TOKENIZER,
            )
        return state

    @property
    def charsmap(self) -> str | None:
        """The charsmap of SentencePiece in base64, if the normalizer has one."""
        for step in steps(self.state.get("normalizer")):
            if step.get("type") == "Precompiled" and "precompiled_charsmap" in step:
                return str(step["precompiled_charsmap"])
        return None

    @property
    def is_byte_level(self) -> bool:
        """Whether texts are split as bytes."""
        return any(
            step.get("type") == "ByteLevel" for step in steps(self.state.get("pre_tokenizer"))
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


def _patterns(part: object) -> Iterator[str]:
    """Every regular expression in a part of the file."""
    if isinstance(part, dict):
        pattern = part.get("Regex")
        if isinstance(pattern, str):
            yield pattern
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for one in inner:
        yield from _patterns(one)


def charsmap_expansions(part: object) -> dict[str, int]:
    """The longest replacement of every charsmap in a normalizer, by its base64."""
    charsmaps = {step.get("precompiled_charsmap") for step in steps(part)}
    return {
        charsmap: max_expansion(decode_charsmap(charsmap))
        for charsmap in charsmaps
        if isinstance(charsmap, str)
    }


def _check_added(added: list[Mapping[str, Any]]) -> None:
    check_ids((token.get("id") for token in added), TOKENIZER)
    if len(added) > MAX_ADDED_PIECES:
        raise TokenizerError(
            "tokenizer.too_many_added_tokens",
            "{tokenizer} must have at most {max_added_pieces:,} added_tokens, got {n_added:,}; "
            "download it again",
            tokenizer=TOKENIZER,
            max_added_pieces=MAX_ADDED_PIECES,
            n_added=len(added),
        )
    check_pieces(token["content"] for token in added if isinstance(token.get("content"), str))


def _check_word_length(model: Mapping[str, Any]) -> None:
    longest = model.get("max_input_chars_per_word", 0)
    if not isinstance(longest, int) or longest > MAX_WORD_CHARS:
        raise TokenizerError(
            "tokenizer.max_input_chars",
            "{tokenizer}: max_input_chars_per_word must be at most {max_word_chars}, got "
            "{longest}; download it again",
            tokenizer=TOKENIZER,
            max_word_chars=MAX_WORD_CHARS,
            longest=str(longest)[:40],
        )


def decode_charsmap(charsmap: str) -> bytes:
    """The bytes of a charsmap in base64."""
    try:
        return base64.b64decode(charsmap, validate=True)
    except ValueError as error:
        raise TokenizerError(
            "tokenizer.precompiled_charsmap",
            "{tokenizer}: precompiled_charsmap must be base64 ({error})",
            tokenizer=TOKENIZER,
            error=error,
        ) from None


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
            raise TokenizerError(
                "tokenizer.merge_of_unknown_piece",
                "{tokenizer}: the merge of {first!r} and {second!r} must be a piece of the "
                "vocabulary; download the file again",
                tokenizer=TOKENIZER,
                first=first,
                second=second,
            )

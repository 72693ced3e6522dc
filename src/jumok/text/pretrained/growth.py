"""How much a normalizer or a decoder may lengthen a text, from its steps in tokenizer.json.

A step that doubles a character is harmless, forty of them in a row are not: 2^40. A text of n bytes
becomes at most `factor * n + constant` bytes; both follow from the steps before any text is read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jumok.errors import TokenizerError
from jumok.text.limits import MAX_PRETRAINED_TEXT_BYTES
from jumok.text.precompiled_charsmap import MAX_EXPANSION, check_expansion

MAX_STEPS = 64  # of a part of tokenizer.json; usual ones have up to 10
MAX_PREPENDED = 100_000  # bytes that normalization may add to a text
MAX_DECODED_GROWTH = 16  # of a piece in decoding; 1 in usual tokenizers
MAX_NORMALIZED_BYTES = 4 * MAX_PRETRAINED_TEXT_BYTES  # decomposed Hangul has three times its bytes
_CAP = 10**12  # larger factors are all the same
_SLICE = 256  # characters
_STEP_KEYS = {"type", "content", "prepend", "precompiled_charsmap"}  # old files have no type

# The longest that Unicode makes of a character, as a multiple of its bytes (NFKC: U+FDFA).
_UNICODE = {"NFC": 4, "NFD": 4, "NFKC": 12, "NFKD": 12, "Lowercase": 2, "BertNormalizer": 16}
_UNICODE |= {"ByteLevel": 2, "WordPiece": 2, "BPEDecoder": 2, "CTC": 2}  # these two insert spaces


@dataclass(frozen=True)
class Growth:
    """A text of n bytes becomes at most `factor * n + constant`.

    >>> Growth(2).then(Growth(3, 10)).then(Growth(2))
    Growth(factor=12, constant=20)
    """

    factor: float = 1
    constant: float = 0

    def then(self, other: "Growth") -> "Growth":
        """The growth of two steps, this one first."""
        factor = min(self.factor * other.factor, _CAP)
        return Growth(factor, min(self.constant * other.factor + other.constant, _CAP))

    def of(self, n_bytes: int) -> float:
        """The length of a text of so many bytes at most."""
        return self.factor * n_bytes + self.constant


def steps(part: object) -> Iterator[Mapping[str, Any]]:
    """Every step of a part of tokenizer.json in order, those of nested sequences included."""
    if isinstance(part, dict):
        for value in part.values():
            yield from steps(value)
        if not _STEP_KEYS.isdisjoint(part):
            yield part
    elif isinstance(part, list):
        for value in part:
            yield from steps(value)


def check_steps(name: str, part: object) -> None:
    """Raise InputError for a part with too many steps."""
    n = sum(1 for _ in steps(part))
    if n > MAX_STEPS:
        raise TokenizerError(
            "tokenizer.too_many_steps",
            "the {name} must have at most {max_steps} steps, got {n:,}; download the file again",
            name=name,
            max_steps=MAX_STEPS,
            n=n,
        )


def check_normalizer(part: object, expansions: Mapping[str, int]) -> Growth:
    """The growth of a text in a normalizer. Raises InputError if it is too large.

    `expansions` are those of the charsmaps by their base64.
    """
    replaced = growth(part, expansions, unicode=False)
    check_expansion(int(replaced.factor))
    whole = growth(part, expansions)
    check_expansion(int(whole.factor / (12 * 2)))  # NFKC and lower case on top
    if whole.constant > MAX_PREPENDED:
        raise TokenizerError(
            "tokenizer.normalizer_growth",
            "the normalizer must add at most {max_prepended:,} bytes to a text, got "
            "{constant:,.0f}; download the file again",
            max_prepended=MAX_PREPENDED,
            constant=whole.constant,
        )
    return whole


def check_decoder(part: object) -> None:
    """Raise InputError for a decoder that makes far more text than its pieces have."""
    found = growth(part, {}).factor
    if found > MAX_DECODED_GROWTH:
        raise TokenizerError(
            "tokenizer.decoder_growth",
            "the decoder must lengthen a piece at most {max_decoded_growth} times, got "
            "{found:,.0f} times; download the file again",
            max_decoded_growth=MAX_DECODED_GROWTH,
            found=found,
        )


def growth(part: object, expansions: Mapping[str, int], *, unicode: bool = True) -> Growth:
    """The growth of a text in all steps of a part of tokenizer.json."""
    found = Growth()
    for step in steps(part):
        found = found.then(_growth(step, expansions))
        if unicode:
            found = found.then(Growth(_UNICODE.get(str(step.get("type")), 1)))
    return found


def _growth(step: Mapping[str, Any], expansions: Mapping[str, int]) -> Growth:
    """The growth in one step, without what Unicode defines."""
    charsmap, content, pattern, prefix = map(
        step.get, ("precompiled_charsmap", "content", "pattern", "prepend")
    )
    constant = _bytes(prefix) if isinstance(prefix, str) else 0
    if isinstance(charsmap, str):
        return Growth(expansions.get(charsmap, MAX_EXPANSION), constant)
    if not isinstance(content, str) or pattern is None:
        return Growth(1, constant)
    literal = pattern.get("String") if isinstance(pattern, dict) else None
    if isinstance(literal, str) and literal:
        return Growth(max(_bytes(content) / _bytes(literal), 1), constant)
    regex = pattern.get("Regex") if isinstance(pattern, dict) else None
    if isinstance(regex, str) and regex.startswith(r"\A") and "|" not in regex:  # matches once
        return Growth(1, constant + _bytes(content))
    return Growth(1 + _bytes(content), constant + _bytes(content))  # matches between characters


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def check_normalized(text: str, growth: Growth, normalizer: Any) -> None:
    """Raise InputError for a text that a normalizer makes longer than texts may be.

    Only a text that may become too long is normalized for this, in slices.
    """
    if growth.of(4 * len(text)) <= MAX_NORMALIZED_BYTES:
        return
    if growth.of(_bytes(text)) <= MAX_NORMALIZED_BYTES:
        return
    total = 0
    for start in range(0, len(text), _SLICE):
        total += _bytes(normalizer.normalize_str(text[start : start + _SLICE]))
        if total > MAX_NORMALIZED_BYTES:
            raise TokenizerError(
                "tokenizer.text_too_long",
                "a text must have at most {max_normalized_bytes:,} bytes after normalization, "
                "got more from {n_text:,} characters; split it",
                max_normalized_bytes=MAX_NORMALIZED_BYTES,
                n_text=len(text),
            )

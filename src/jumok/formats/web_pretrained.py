"""Imported tokenizers as the browser's tokenizer reads them (web/src/model/pretrained.ts).

WordPiece, byte-level BPE and Unigram, with the steps of their tokenizer.json. Which characters are
white space, punctuation, marks or Chinese is asked from the tokenizers library and written to the
file: browsers have other versions of Unicode.
"""

import base64
import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers, pre_tokenizers

from jumok.errors import Message
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.pretrained.backend import TokenizersBackend
from jumok.text.tokenizer import unk_id

Step = dict[str, Any]

KINDS = {"WordPiece": "wordpiece", "BPE": "byte_bpe", "Unigram": "unigram"}
DECODERS = {"wordpiece": "WordPiece", "byte_bpe": "ByteLevel", "unigram": "Metaspace"}
PREPENDED = [0x600, 0x605, 0x6DD, 0x6DD, 0x70F, 0x70F, 0x890, 0x891, 0x8E2, 0x8E2, 0xD4E, 0xD4E]
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# How GPT-2 splits words (Radford et al. 2019), which the library has in its byte level.
GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# What a pattern may consist of: it means the same in JavaScript, after `_javascript`.
_ATOMS = re.compile(
    r"\\p\{\^?[A-Z][a-z]?\}|\\P\{[A-Z][a-z]?\}|\\[sSrntd.'|]|\(\?[:=!]|\(\?<[=!]|[()|\[\]^$?*+.,:'\"/_-]"
    r"|\{\d+(,\d*)?\}|[A-Za-z0-9 !@#%&~`<>=;]|[^\x00-\x7f]"
)
_POSSESSIVE = re.compile(r"[?*+]\+|\{\d+(,\d*)?\}\+")
_IGNORING_CASE = re.compile(r"\(\?i:([a-z'|]+)\)")
_CASES = {"s": "[sSſ]", "k": "[kK\u212a]"}  # in Unicode, long s and the sign of Kelvin too


class _UnsupportedError(Exception):
    """A part of the tokenizer that the page lacks."""


def unsupported_pretrained(tokenizer: PretrainedTokenizer) -> Message | None:
    """Why the browser's tokenizer cannot read this one; None if it can."""
    try:
        _parts(tokenizer)
    except _UnsupportedError as what:
        return Message(
            "web.imported_tokenizer",
            "the page reads WordPiece, byte-level BPE and Unigram of imported models, got a "
            "tokenizer with {what}",
            what=str(what),
        )
    return None


def pretrained_config(tokenizer: PretrainedTokenizer) -> dict[str, Any]:
    """The settings of an imported tokenizer, as JSON."""
    state, parts = _parts(tokenizer)
    backend = tokenizer.backend
    pieces = {i: piece for piece, i in backend.pieces.items()}
    added = [token for token in state["added_tokens"] if not token["special"]]
    special = {token["id"] for token in state["added_tokens"] if token["special"]}
    vocab = state["model"]["vocab"]
    if isinstance(vocab, list):  # of Unigram, with scores
        vocab = {piece for piece, _ in vocab}
    return {
        **parts,
        "pieces": [pieces.get(i, "") for i in range(len(tokenizer))],
        "unknown": unk_id(tokenizer),
        "special": sorted(special),
        "added": [
            {
                **{key: token[key] for key in ("id", "content", "single_word", "lstrip", "rstrip")},
                "normalized": token["normalized"],
                "in_model": token["content"] in vocab,
            }
            for token in added
        ],
        "max_word": state["model"].get("max_input_chars_per_word", 0),
        "clean_up": backend.clean_up,
        "merges": list(_merges(state["model"], backend.special)),
        "ignore_merges": bool(state["model"].get("ignore_merges")),
        "skips_first_space": (state["decoder"] or {}).get("prepend_scheme") != "never",
        "characters": characters(),
    }


def pretrained_arrays(tokenizer: PretrainedTokenizer) -> dict[str, NDArray[Any]]:
    """The scores of the pieces of Unigram by their ids, and types, which it has none of."""
    state, parts = _parts(tokenizer)
    if parts["kind"] != "unigram":
        return {}
    scores = np.zeros(len(tokenizer), np.float32)
    found = [score for _, score in state["model"]["vocab"]]
    scores[: len(found)] = found
    return {"scores": scores, "types": np.zeros(len(tokenizer), np.uint8)}


def _parts(tokenizer: PretrainedTokenizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state of the tokenizer, and its steps. Raises _UnsupportedError."""
    backend = tokenizer.backend
    if not isinstance(backend, TokenizersBackend):
        raise _UnsupportedError(f"the algorithm {backend.kind}")
    state: dict[str, Any] = json.loads(backend.to_json())
    model = state["model"]
    if model["type"] not in KINDS:
        raise _UnsupportedError(f"the algorithm {model['type']}")
    words = [_word_step(step) for step in _steps(state["pre_tokenizer"])]
    kind = KINDS[model["type"]]
    is_bytes = bool(words) and words[-1]["type"] == "byte_level"
    if (kind == "byte_bpe") != is_bytes or any(s["type"] == "byte_level" for s in words[:-1]):
        raise _UnsupportedError(f"{model['type']} {'of' if is_bytes else 'without'} bytes")
    decoders = [step["type"] for step in _steps(state["decoder"])]
    if decoders != [DECODERS[kind]]:
        raise _UnsupportedError(f"the decoder {' and '.join(decoders) or 'none'}")
    if kind == "unigram":
        _check_unigram(model)
    options = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    for option in (*options, "fuse_unk") if is_bytes else ():
        if model.get(option):
            raise _UnsupportedError(option)
    if kind == "wordpiece" and model["continuing_subword_prefix"] != "##":
        raise _UnsupportedError(f"the prefix {model['continuing_subword_prefix']!r} inside words")
    return state, {
        "kind": kind,
        "normalizer": [_normalizer_step(step) for step in _steps(state["normalizer"])],
        "words": words,
        "trim_offsets": _trimmed(state["post_processor"]),
    }


def _check_unigram(model: Mapping[str, Any]) -> None:
    """Raise _UnsupportedError for what the page does not compute of Unigram."""
    if model["unk_id"] is None:
        raise _UnsupportedError("no [UNK]")
    if model.get("byte_fallback"):
        raise _UnsupportedError("byte_fallback")
    scores = np.array([score for _, score in model["vocab"]])
    if (scores.astype(np.float32) != scores).any():
        raise _UnsupportedError("scores of more than 32 bits")


def _steps(part: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """The steps of a part of the state in order, those of sequences included."""
    inner = (part or {}).get("normalizers") or (part or {}).get("pretokenizers")
    inner = inner or (part or {}).get("processors") or (part or {}).get("decoders")
    if inner is not None:
        for step in inner:
            yield from _steps(step)
    elif part is not None and part["type"] != "Sequence":
        yield part


def _normalizer_step(step: Mapping[str, Any]) -> Step:
    kind = step["type"]
    if kind in FORMS:
        return {"type": "form", "form": kind}
    if kind == "Lowercase":
        return {"type": "lowercase"}
    if kind == "Precompiled":
        charsmap = step["precompiled_charsmap"]
        attached = attached_characters(charsmap)
        return {
            "type": "charsmap",
            "charsmap": charsmap,
            "attached": attached,
            "prepended": PREPENDED,
        }
    if kind == "Replace":
        return {"type": "replace", "pattern": _pattern(step), "content": step["content"]}
    if kind != "BertNormalizer":
        raise _UnsupportedError(f"the normalizer {kind}")
    strips = step["strip_accents"]
    return {
        "type": "bert",
        "clean_text": step["clean_text"],
        "chinese": step["handle_chinese_chars"],
        "strip_accents": step["lowercase"] if strips is None else strips,
        "lowercase": step["lowercase"],
    }


def _word_step(step: Mapping[str, Any]) -> Step:
    kind = step["type"]
    if kind == "BertPreTokenizer":
        return {"type": "bert_words"}
    if kind == "ByteLevel":
        pattern = javascript(GPT2_WORDS) if step.get("use_regex", True) else ""
        spaced = step["add_prefix_space"]
        return {"type": "byte_level", "add_prefix_space": spaced, "pattern": pattern}
    if kind == "WhitespaceSplit":
        return {"type": "spaces_removed"}
    if kind == "Punctuation" and step["behavior"] == "Isolated":
        return {"type": "punctuation"}
    if kind == "Metaspace" and step["replacement"] == "▁":
        return {"type": "metaspace", "prefix": step["prepend_scheme"], "split": step["split"]}
    if kind == "Digits":
        pattern = r"\p{N}" if step["individual_digits"] else r"\p{N}+"
        return {"type": "split", "pattern": pattern, "removed": False, "invert": False}
    if kind != "Split" or step["behavior"] not in ("Isolated", "Removed"):
        raise _UnsupportedError(f"the splitter {kind} {step.get('behavior', '')}".strip())
    removed, pattern = step["behavior"] == "Removed", _pattern(step)
    return {"type": "split", "pattern": pattern, "removed": removed, "invert": step["invert"]}


def _pattern(step: Mapping[str, Any]) -> str:
    ((how, text),) = step["pattern"].items()
    return javascript(text) if how == "Regex" else _escaped(text)


def _escaped(text: str) -> str:
    return re.sub(r"[\\^$.*+?()\[\]{}|/]", r"\\\g<0>", text)


def javascript(pattern: str) -> str:
    r"""A pattern of the library's regular expressions as one of JavaScript.

    >>> javascript(r"(?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\s+(?!\S)")
    "(?:'[sSſ]|'[tT])|[^\\r\\n\\p{L}]?\\p{L}+|\\p{White_Space}+(?!\\P{White_Space})"
    """
    plain = _IGNORING_CASE.sub(lambda found: f"(?:{_any_case(found[1])})", pattern)
    at = 0
    while at < len(plain):
        atom = _ATOMS.match(plain, at)
        if atom is None or "[[" in plain or "&&" in plain or _POSSESSIVE.search(plain):
            raise _UnsupportedError(f"the pattern {pattern[:60]!r}")
        at = atom.end()
    plain = plain.replace(r"\'", "'").replace(r"\p{^", r"\P{").replace(r"\d", r"\p{Nd}")
    return plain.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")


def _any_case(letters: str) -> str:
    return "".join(_CASES.get(c, f"[{c}{c.upper()}]") if c.isalpha() else c for c in letters)


def _merges(model: Mapping[str, Any], special: Mapping[str, int]) -> Iterator[int]:
    """The ids of the pieces of each merge; without special pieces, which no text becomes."""
    vocab = model["vocab"]
    for pair in model.get("merges", ()):
        first, second = pair.split(" ") if isinstance(pair, str) else pair
        if not {first, second, first + second} & special.keys():
            yield from (vocab[first], vocab[second])


def _trimmed(processor: Mapping[str, Any] | None) -> str:
    """Whether spans leave out spaces, and a space that was inserted is not counted."""
    for step in _steps(processor):
        if step["type"] in ("ByteLevel", "RobertaProcessing") and step["trim_offsets"]:
            return "trim_inserted" if step["add_prefix_space"] else "trim"
    return ""


@cache
def characters() -> dict[str, list[int]]:
    """The first and last code points of ranges of characters, by what the library does with them.

    >>> characters()["spaces"][:4]
    [9, 10, 13, 13]
    """
    cleaner = normalizers.BertNormalizer(True, True, False, False)
    stripper = normalizers.BertNormalizer(False, False, True, False)
    found: dict[str, list[int]] = {
        kind: [] for kind in ("removed", "spaces", "chinese", "marks", "punctuation")
    }
    for start in range(0, sys.maxunicode + 1, _BLOCK):
        block = [c for c in range(start, start + _BLOCK) if not 0xD800 <= c <= 0xDFFF and c]
        results = zip(block, _normalized(cleaner, block), _normalized(stripper, block), strict=True)
        alone = _words(block)
        for code, cleaned, stripped in results:
            character = chr(code)
            if cleaned != character and character not in " |":
                kind = {"": "removed", " ": "spaces"}.get(cleaned, "chinese")
                _extend(found[kind], code)
            if not stripped:
                _extend(found["marks"], code)
            if code in alone:
                _extend(found["punctuation"], code)
    return found


@cache
def attached_characters(charsmap: str) -> list[int]:
    """The first and last code points of ranges of characters that join the one before them.

    The library replaces clusters of fewer than 6 bytes by the table as a whole, so it is asked for
    a character of 2 bytes that the table changes, with one of up to 3 after it. A table that
    changes none has no such clusters.
    """
    table = normalizers.Precompiled(base64.b64decode(charsmap))
    first = next((c for c in map(chr, range(0xA1, 0x250)) if _is_changed(table, c)), None)
    found: list[int] = []
    if first is None:
        return found
    value, mark = str(table.normalize_str(first)), "\u0316"  # a mark of 2 bytes
    for code in range(0x80, 0x10000):
        character = chr(code)
        if 0xD800 <= code <= 0xDFFF or table.normalize_str(first + character) != value:
            continue
        alone = table.normalize_str(character)  # one that is removed shows it by the next mark
        if alone or table.normalize_str(first + character + mark) == value + mark:
            _extend(found, code)
    return found


def _is_changed(table: normalizers.Normalizer, character: str) -> bool:
    return table.normalize_str(character) not in ("", character)


_BLOCK = 4096  # code points at a time


def _extend(ranges: list[int], code: int) -> None:
    """Add a code point after all others to ranges."""
    if ranges and ranges[-1] == code - 1:
        ranges[-1] = code
    else:
        ranges += [code, code]


def _normalized(normalizer: normalizers.Normalizer, block: list[int]) -> list[str]:
    """What each character becomes between two bars, which no other becomes."""
    texts = [chr(code).replace("|", "x") for code in block]
    return str(normalizer.normalize_str("|".join(["", *texts, ""]))).split("|")[1:-1]


def _words(block: list[int]) -> set[int]:
    """The characters that are words of their own between two letters."""
    text = "x".join(["", *map(chr, block), ""])
    words = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)
    return {block[start // 2] for _, (start, end) in words if end == start + 1 and start % 2}

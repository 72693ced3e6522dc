"""The tokenizer of a GGUF file: the keys `tokenizer.ggml.*`, from and to files of Hugging Face.

A whole tokenizer.json under `tokenizer.huggingface.json` is read before all else. Otherwise
byte-level BPE ("gpt2") becomes a tokenizer.json, and the BPE of SentencePiece ("llama", Gemma's
too) a tokenizer.model. The chat template is kept as text.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from jumok.errors import ModelFileError
from jumok.foreign_keys import KeyTable
from jumok.formats.gguf_reader import Scalar, Value
from jumok.safe_json import read_json
from jumok.text.pretrained import load_tokenizer
from jumok.text.pretrained.backend import TokenizersBackend
from jumok.text.pretrained.files import CHAT_TEMPLATE, TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.post_processor import parse_post_processor
from jumok.text.sentencepiece_proto import PieceType, bpe_model, read_model

# The regular expressions that split texts, by `tokenizer.ggml.pre`; None: that of GPT-2.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{%s}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PRE_TOKENIZERS = {
    "gpt-2": None,
    "exaone4": None,
    "exaone": r"\p{N}",  # then that of GPT-2
    "qwen2": _WORDS % "1",
    "llama-bpe": _WORDS % "1,3",
}
# those with which llama.cpp reads a word that is a token as that token, and adds [BOS] by default
WHOLE_WORDS = ("llama-bpe",)
SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
TOKENIZER_JSON = "tokenizer.huggingface.json"  # the whole file, if it was written
TEMPLATE = "tokenizer.chat_template"  # kept as text
TOKENIZER_KEYS = KeyTable(
    read={
        *(f"tokenizer.ggml.{name}_token_id" for name in SPECIAL.values()),
        *("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens"),
        *("tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"),
        *("tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"),
        *("tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces"),
        TEMPLATE,
    },
    without_effect={  # ids of tokens that stay ordinary tokens of the vocabulary
        *(f"tokenizer.ggml.{name}_token_id" for name in ("seperator", "separator", "cls", "mask")),
        *(
            f"tokenizer.ggml.fim_{name}_token_id"
            for name in ("pre", "suf", "mid", "pad", "rep", "sep")
        ),
        *(f"tokenizer.ggml.{name}_token_id" for name in ("prefix", "suffix", "middle")),
        "tokenizer.ggml.token_type_count",
    },
    named={"tokenizer.ggml.add_sep_token": (False,)},
    names_unknown=True,  # the texts of another tokenizer are compared by `jumok check`
)


def tokenizer_files(
    metadata: Mapping[str, Value], config: Mapping[str, Any]
) -> Mapping[str, bytes]:
    """The files of the tokenizer, by name; none for one that is not read."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    settings: dict[str, object] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name in SPECIAL:
        token = config.get(f"{name}_token_id")
        if isinstance(token, int) and isinstance(tokens, tuple) and token < len(tokens):
            settings[f"{name}_token"] = str(tokens[token])
    whole = metadata.get(TOKENIZER_JSON)
    found: dict[str, bytes] = {}
    if isinstance(whole, str):
        found["tokenizer.json"] = whole.encode()  # checked where the folder is opened
    elif isinstance(tokens, tuple) and metadata.get("tokenizer.ggml.model") == "gpt2":
        adds_bos = metadata.get("tokenizer.ggml.pre") in WHOLE_WORDS
        before, after = (
            _added(name, adds_bos and name == "bos", metadata, settings) for name in ("bos", "eos")
        )
        tree = _byte_level(tokens, metadata, before, after)
        found |= {} if tree is None else {"tokenizer.json": tree.encode()}
    elif isinstance(tokens, tuple) and metadata.get("tokenizer.ggml.model") == "llama":
        found["tokenizer.model"] = _sentencepiece(tokens, metadata, config)
        for name, default in (("bos", True), ("eos", False)):
            settings[f"add_{name}_token"] = bool(_added(name, default, metadata, settings))
    if found:
        found["tokenizer_config.json"] = json.dumps(settings).encode()
        template = metadata.get(TEMPLATE)
        found |= {CHAT_TEMPLATE: template.encode()} if isinstance(template, str) else {}
    return found


def _added(
    name: str, default: bool, metadata: Mapping[str, Value], settings: Mapping[str, object]
) -> list[str]:
    """The special token that the file's tokenizer adds to each text, if any."""
    adds = metadata.get(f"tokenizer.ggml.add_{name}_token", default) is True
    token = settings.get(f"{name}_token")
    return [token] if adds and isinstance(token, str) else []


def _byte_level(
    tokens: Sequence[Scalar],
    metadata: Mapping[str, Value],
    before: Sequence[str],
    after: Sequence[str],
) -> str | None:
    """Byte-level BPE as a tokenizer.json; None if texts are split in an unknown way.

    `before` and `after` are the special tokens around each text.
    """
    merges, pre = (metadata.get(f"tokenizer.ggml.{key}") for key in ("merges", "pre"))
    pre = "gpt-2" if pre is None else pre
    if not isinstance(merges, tuple) or not isinstance(pre, str) or pre not in PRE_TOKENIZERS:
        return None
    vocab = {str(token): i for i, token in enumerate(tokens)}
    parts = [str(merge).partition(" ") for merge in merges]
    pairs = [(left, right) for left, space, right in parts if space]
    if len(vocab) < len(tokens) or len(pairs) < len(merges):
        raise ModelFileError(
            "pretrained.token_twice",
            "its tokens must be unique and its merges pairs, got others; download it again",
        )
    with library_errors("the vocabulary cannot be used"):
        model = models.BPE(vocab=vocab, merges=pairs, ignore_merges=pre in WHOLE_WORDS)
        tokenizer = Tokenizer(model)
        pattern = PRE_TOKENIZERS[pre]
        by_words = pattern is None or pre == "exaone"
        steps: list[pre_tokenizers.PreTokenizer]
        steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=by_words)]
        if pattern is not None:
            steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.decoder = decoders.ByteLevel()
        types = _types(metadata, len(tokens))
        for added, special in ((PieceType.CONTROL, True), (PieceType.USER_DEFINED, False)):
            own = [str(token) for token, kind in zip(tokens, types, strict=True) if kind is added]
            plain = [AddedToken(token, special=special, normalized=False) for token in own]
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(plain)
        if before or after:
            single = [*before, "$A", *after]
            tokenizer.post_processor = processors.TemplateProcessing(
                single=single,
                pair=[*single, *(f"{part}:1" for part in (*before, "$B", *after))],
                special_tokens=[(token, vocab[token]) for token in {*before, *after}],
            )
        return str(tokenizer.to_str())


def _types(metadata: Mapping[str, Value], n: int) -> list[PieceType]:
    """The type of each token; normal where the file has none."""
    found = metadata.get("tokenizer.ggml.token_type")
    kinds = found if isinstance(found, tuple) and len(found) == n else (1,) * n
    known = {int(each) for each in PieceType}
    return [PieceType(int(kind)) if kind in known else PieceType.NORMAL for kind in kinds]


def _sentencepiece(
    tokens: Sequence[Scalar], metadata: Mapping[str, Value], config: Mapping[str, Any]
) -> bytes:
    """The BPE of SentencePiece as the bytes of a tokenizer.model."""
    found = metadata.get("tokenizer.ggml.scores")
    scores = [each for each in found if isinstance(each, float)] if isinstance(found, tuple) else []
    if len(scores) != len(tokens):
        raise ModelFileError(
            "pretrained.number_of_scores",
            "tokenizer.ggml.scores must have a number for each of {n_tokens:,} tokens, got "
            "{n_scores:,}; download it again",
            n_tokens=len(tokens),
            n_scores=len(scores),
        )
    ids = {name: config.get(f"{name}_token_id", 0 if name == "unk" else -1) for name in SPECIAL}
    special = {name: (i, str(tokens[i])) for name, i in ids.items() if 0 <= i < len(tokens)}
    return bpe_model(
        [str(token) for token in tokens],
        scores,
        _types(metadata, len(tokens)),
        special,
        dummy_prefix=metadata.get("tokenizer.ggml.add_space_prefix", True) is True,
        remove_extra_spaces=metadata.get("tokenizer.ggml.remove_extra_whitespaces") is True,
    )


def tokenizer_metadata(folder: Path, config: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """The tokenizer of a folder under the keys of llama.cpp: "none" without one."""
    files = TokenizerFiles.read(folder)
    if files is not None and files.chat_template is not None:
        yield TEMPLATE, files.chat_template
    path, sentencepiece = folder / "tokenizer.json", None
    if path.is_file():
        tree = read_json(path)
        template = parse_post_processor(tree.get("post_processor"))
        yield TOKENIZER_JSON, path.read_text(encoding="utf-8")
    else:
        tokenizer = load_tokenizer(folder, config)
        if tokenizer is None or not isinstance(tokenizer.backend, TokenizersBackend):
            yield "tokenizer.ggml.model", "none"
            return
        tree = json.loads(tokenizer.backend.to_json())
        template = tokenizer.source_template
        if "tokenizer.model" in tokenizer.files:
            sentencepiece = read_model(tokenizer.files.data("tokenizer.model"))
    model = tree["model"]
    unigram = model.get("type") == "Unigram"
    pieces = [piece for piece, _ in model["vocab"]] if unigram else list(model["vocab"])
    ids = {piece: i for i, piece in enumerate(pieces)} if unigram else dict(model["vocab"])
    added = {token["content"]: token for token in tree.get("added_tokens", ())}
    ids |= {content: token["id"] for content, token in added.items()}
    size = max(int(config.get("vocab_size", 0)), 1 + max(ids.values()))
    tokens, types = [f"[unused{i}]" for i in range(size)], [PieceType.UNUSED] * size
    for piece, i in ids.items():
        tokens[i], types[i] = piece, _type(piece, added)
    if unigram and isinstance(model.get("unk_id"), int):
        types[model["unk_id"]] = PieceType.UNKNOWN
    if sentencepiece is not None:
        types[: len(sentencepiece.types)] = sentencepiece.types
    is_bytes = '"ByteLevel"' in json.dumps(tree.get("pre_tokenizer"))
    yield "tokenizer.ggml.model", "t5" if unigram else "gpt2" if is_bytes else "llama"
    if is_bytes:
        yield "tokenizer.ggml.pre", _pre_tokenizer(tree)
    yield "tokenizer.ggml.tokens", tuple(tokens)
    yield "tokenizer.ggml.token_type", tuple(int(kind) for kind in types)
    if unigram:
        scores = [float(score) for _, score in model["vocab"]]
        yield "tokenizer.ggml.scores", tuple(scores + [0.0] * (size - len(scores)))
    else:
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
        yield "tokenizer.ggml.merges", tuple(merges)
        if not is_bytes:  # earlier merges first
            rank = {"".join(merge.split(" ")): -float(i) for i, merge in enumerate(merges)}
            ranks = [rank.get(token, -1e6) for token in tokens]
            if sentencepiece is not None:
                ranks[: len(sentencepiece.scores)] = sentencepiece.scores
                removed = sentencepiece.remove_extra_spaces
                yield "tokenizer.ggml.remove_extra_whitespaces", removed
            yield "tokenizer.ggml.scores", tuple(ranks)
            yield "tokenizer.ggml.add_space_prefix", _adds_space(tree)
    for key, name in SPECIAL.items():
        token = config.get(f"{key}_token_id")
        token = token[0] if isinstance(token, list) and token else token
        if isinstance(token, int) and not isinstance(token, bool) and 0 <= token < size:
            yield f"tokenizer.ggml.{name}_token_id", token
    n_before, n_after = template.n_before_and_after()
    yield "tokenizer.ggml.add_bos_token", n_before > 0
    yield "tokenizer.ggml.add_eos_token", n_after > 0


def _type(piece: str, added: Mapping[str, Mapping[str, Any]]) -> PieceType:
    if piece in added:
        return PieceType.CONTROL if added[piece].get("special") else PieceType.USER_DEFINED
    return PieceType.BYTE if re.fullmatch(r"<0x[0-9A-F]{2}>", piece) else PieceType.NORMAL


def _pre_tokenizer(tree: Mapping[str, Any]) -> str:
    """The name in llama.cpp of the regular expression that splits texts; that of GPT-2 if none."""
    text = json.dumps(tree.get("pre_tokenizer"))
    if '"Digits"' in text and '"individual_digits": true' in text:
        return "exaone"
    found = (name for name, rule in PRE_TOKENIZERS.items() if rule and json.dumps(rule) in text)
    return next(found, "gpt-2")


def _adds_space(tree: Mapping[str, Any]) -> bool:
    """Whether a space is put before a text."""
    text = json.dumps([tree.get("normalizer"), tree.get("pre_tokenizer")])
    if '"Metaspace"' in text:
        return '"prepend_scheme": "never"' not in text and '"add_prefix_space": false' not in text
    return '"Prepend"' in text

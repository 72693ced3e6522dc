"""Files made to hurt, and texts that are none: always one sentence, never a panic."""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from jumok.errors import InputError, StorageError
from jumok.text import limits
from jumok.text.pretrained import PretrainedTokenizer, files, load_tokenizer
from jumok.text.pretrained.library_errors import check_pattern
from tests.errors import raises

BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
ADDED = {"content": "x", "single_word": False, "lstrip": False, "rstrip": False}
ADDED |= {"normalized": False, "special": True}


def tokenizer(**parts: object) -> dict[str, object]:
    empty = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    return {"version": "1.0", "added_tokens": [], **dict.fromkeys(empty), "model": BPE, **parts}


def read(folder: Path, content: object, **config: object) -> PretrainedTokenizer:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "tokenizer.json").write_text(text)
    found = load_tokenizer(folder, {"model_type": "unheard", **config})
    assert found is not None
    return found


def template(**changes: object) -> dict[str, object]:
    single = [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    parts = {"single": single, "pair": [], "special_tokens": {}}
    return {"type": "TemplateProcessing", **parts, **changes}


TRIE = bytes([0, 4, 0, 0]) + bytes(4 * 256)  # of a table that replaces nothing


def precompiled(table: bytes) -> dict[str, object]:
    encoded = base64.b64encode(table).decode()
    return {"type": "Precompiled", "precompiled_charsmap": encoded}


def replace(content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": {"String": "a"}, "content": content}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"model": {}}',
        '{"model": {"vocab": {"a": 0}}, "model": {}}',
        '{"normalizer": ' * 100_000,
        tokenizer(model={**BPE, "vocab": {"a": 4_000_000_000}}),
        tokenizer(model={**BPE, "vocab": {"a": -1}}),
        tokenizer(model={**BPE, "vocab": {"a": 0.5}}),
        tokenizer(model={**BPE, "vocab": ["a"]}),
        tokenizer(model={**BPE, "vocab": {"a": 0, "b": 1}}),  # the merge has no piece
        tokenizer(model={**BPE, "merges": [["a", "c"]]}),
        tokenizer(model={**BPE, "merges": ["a b c"]}),
        tokenizer(model={**BPE, "merges": [7]}),
        tokenizer(model={"type": "Unheard", "vocab": {"a": 0}}),
        tokenizer(model={"type": "Unigram", "unk_id": 7, "vocab": [["a", 0.0]]}),
        tokenizer(added_tokens=[{**ADDED, "id": 4_000_000_000}]),
        tokenizer(added_tokens=[{**ADDED, "id": 7, "special": "yes"}]),
        tokenizer(added_tokens=7),
        tokenizer(post_processor=template()),  # a special piece without an id
        tokenizer(post_processor=7),
        tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        tokenizer(normalizer=precompiled(bytes([4, 0, 0, 0]) + bytes(4))),  # a trie of one unit
        tokenizer(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
                ],
            }
        ),
        tokenizer(
            normalizer={"type": "Replace", "pattern": {"Regex": "(?:a|aa)*$"}, "content": ""}
        ),
    ],
)
def test_a_malformed_tokenizer_json_is_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [
        tokenizer(pre_tokenizer={"type": "FixedLength", "length": 0}),
        tokenizer(model={"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]]}),
    ],
)
def test_an_error_that_only_a_text_causes_is_reported_then(content: object, tmp_path: Path) -> None:
    vocabulary = read(tmp_path, content)
    for encode in (
        vocabulary.encode,
        vocabulary.encode_with_special_tokens,
        vocabulary.encode_with_offsets,
    ):
        with pytest.raises(InputError, match="fails on"):
            encode("abz")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            precompiled(b"\xff\xff\xff\xff" + bytes(8)),
            "text.bad_replacement_table",
        ),  # 4 GB would be set aside: abort
        (precompiled(b"\3\0\0\0" + bytes(8)), "text.bad_replacement_table"),
        (
            precompiled(bytes(8)),
            "text.bad_replacement_table",
        ),  # no trie: a panic at the first text
        (precompiled(TRIE + b"\xff\0"), "text.bad_replacement_table"),
        (
            precompiled(TRIE + b"a" * 5000),
            "text.character_growth",
        ),  # no NUL: each character grew that long
        (replace("a" * 5000), "text.character_growth"),
        (
            {"type": "Sequence", "normalizers": [replace("a" * 40)] * 9},
            "text.character_growth",
        ),
    ],
)
def test_a_normalizer_that_makes_texts_too_long_is_refused(
    step: Mapping[str, object], words: str, tmp_path: Path
) -> None:
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["b", -1.0]]}
    with raises(InputError, words):
        read(tmp_path, tokenizer(normalizer=step, model=unigram))


def sequence(*steps: Mapping[str, object], kind: str = "normalizers") -> dict[str, object]:
    return {"type": "Sequence", kind: list(steps)}


def doubled(pattern: object = None) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern or {"String": "a"}, "content": "aa"}


LOWER, NFD, NFC = {"type": "Lowercase"}, {"type": "NFD"}, {"type": "NFC"}
SPECIAL = [{"SpecialToken": {"id": "X", "type_id": 0}}]
MANY = {"id": "X", "ids": [1] * 10**4, "tokens": ["a"] * 10**4}
WORDPIECE = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
WORDPIECE |= {"max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "##a": 2}}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"decoder": sequence(*[doubled()] * 40, kind="decoders")}, "tokenizer.decoder_growth"),
        (
            {"decoder": sequence(*[doubled({"String": ""})] * 9, kind="decoders")},
            "tokenizer.decoder_growth",
        ),
        ({"decoder": replace("b" * 10**6)}, "tokenizer.decoder_growth"),
        ({"decoder": sequence(*[LOWER] * 65, kind="decoders")}, "tokenizer.too_many_steps"),
        ({"normalizer": sequence(*[LOWER] * 10**5)}, "tokenizer.too_many_steps"),
        ({"normalizer": sequence(*[NFD, NFC] * 4 * 10**4)}, "tokenizer.too_many_steps"),
        (
            {"normalizer": {"type": "Prepend", "prepend": "a" * 10**6}},
            "tokenizer.normalizer_growth",
        ),
        (
            {"normalizer": sequence({"type": "Prepend", "prepend": "a" * 900}, *[doubled()] * 8)},
            "tokenizer.normalizer_growth",
        ),
        ({"normalizer": sequence(*[doubled({"Regex": "b?"})] * 7)}, "text.character_growth"),
        (
            {"normalizer": sequence(*[replace("ﷺ"), {"type": "NFKC"}] * 5)},
            "text.character_growth",
        ),
        (
            {"pre_tokenizer": sequence(*[{"type": "Whitespace"}] * 99, kind="pretokenizers")},
            "tokenizer.too_many_steps",
        ),
        ({"added_tokens": [{**ADDED, "id": 3}] * 50_001}, "tokenizer.too_many_added_tokens"),
        ({"added_tokens": [{**ADDED, "id": 3, "content": "x" * 1001}]}, "text.piece_too_long"),
        (
            {"model": {**BPE, "vocab": {"a": 0, "b": 1, "ab": 2, "c" * 1001: 3}}},
            "text.piece_too_long",
        ),
        (
            {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a" * 10**6, 0.0]]}},
            "text.piece_too_long",
        ),
        (
            {"model": {**WORDPIECE, "max_input_chars_per_word": 4000}},
            "tokenizer.max_input_chars",
        ),
        ({"model": {**WORDPIECE, "max_input_chars_per_word": "4"}}, "tokenizer.max_input_chars"),
        ({"post_processor": template(single=SPECIAL * 99)}, "tokenizer.too_many_special_tokens"),
        (
            {"post_processor": template(special_tokens={"X": MANY})},
            "tokenizer.too_many_special_tokens",
        ),
    ],
)  # fmt: skip
def test_a_file_that_takes_minutes_is_refused_at_once(
    parts: dict[str, object], words: str, tmp_path: Path
) -> None:
    began = time.process_time()
    with raises(InputError, words):
        read(tmp_path, tokenizer(**parts))
    assert time.process_time() - began < 2


def test_too_many_pieces_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PIECES", 9)
    (tmp_path / "vocab.txt").write_text("".join(f"{n}\n" for n in range(10)))
    with raises(InputError, "text.too_many_pieces"):
        load_tokenizer(tmp_path, {"model_type": "bert"})


def test_a_text_that_becomes_too_long_is_refused(tmp_path: Path) -> None:
    """A thousand bytes for a character are allowed, and so 131 MB for a text: not this one."""
    vocabulary = read(tmp_path, tokenizer(normalizer=replace("b" * 900)))
    assert len(vocabulary.encode("ab")) == 901
    for encode in (vocabulary.encode, vocabulary.encode_with_offsets):
        with raises(InputError, "tokenizer.text_too_long"):
            encode("a" * 100_000)
    assert len(vocabulary.encode("c" * 100_000)) == 0


@pytest.mark.parametrize(("length", "ids"), [(100, [1] + 99 * [2]), (101, [0]), (100_000, [0])])
def test_a_long_word_is_unknown_as_in_bert(tmp_path: Path, length: int, ids: list[int]) -> None:
    content = tokenizer(model=WORDPIECE, pre_tokenizer={"type": "Whitespace"})
    assert read(tmp_path, content).encode("a" * length) == ids


def test_a_normalizer_that_keeps_the_length_is_accepted(tmp_path: Path) -> None:
    steps = [precompiled(TRIE + b"a\0"), replace("b"), {"type": "NFC"}]
    content = tokenizer(normalizer={"type": "Sequence", "normalizers": steps})
    assert read(tmp_path, content).encode("a") == [1]


def test_a_decoder_that_panics_is_an_error(tmp_path: Path) -> None:
    content = tokenizer(decoder={"type": "Strip", "content": "a", "start": 3, "stop": 3})
    with pytest.raises(InputError, match="fails on these ids"):
        read(tmp_path, content).decode([0, 2])


def test_truncation_and_padding_of_a_file_are_ignored(tmp_path: Path) -> None:
    """`stride` as long as the row would panic."""
    cut = {"max_length": 2, "stride": 5, "strategy": "LongestFirst", "direction": "Left"}
    fill = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None}
    fill |= {"pad_id": 3, "pad_type_id": 0, "pad_token": "p"}
    model = {**BPE, "vocab": {**BPE["vocab"], "p": 3}}
    vocabulary = read(tmp_path, tokenizer(model=model, truncation=cut, padding=fill))
    assert vocabulary.pad_id == 3
    assert vocabulary.encode_with_special_tokens("abaabbaa").ids == [2, 0, 2, 1, 0, 0]
    assert vocabulary.encode_with_special_tokens("abaabbaa", max_length=3).ids == [
        1,
        0,
        0,
    ]  # but its side is


def test_ids_are_deterministic(tmp_path: Path) -> None:
    vocabulary = read(tmp_path, tokenizer(model={**BPE, "dropout": 0.9}))
    assert {tuple(vocabulary.encode("abab")) for _ in range(20)} == {(2, 2)}


@pytest.mark.parametrize("merged", [True, False])
def test_a_special_piece_among_other_ids_is_not_encoded_from_text(
    merged: bool, tmp_path: Path
) -> None:
    """A BPE model may build "ab" of a merge, a unigram model find it as a word: both special."""
    unigram = {"type": "Unigram", "unk_id": 3}
    unigram["vocab"] = [["a", -2.0], ["b", -2.0], ["ab", 0.0], ["?", -9.0]]
    added = [{**ADDED, "content": "ab", "id": 2}]
    model = BPE if merged else unigram
    vocabulary = read(tmp_path, tokenizer(model=model, added_tokens=added))
    assert vocabulary.encode_hf(["abab"]) == [[2, 2]]
    assert vocabulary.encode("abab") == [0, 1, 0, 1]
    assert vocabulary.encode_batch(["ba", "ab"]) == [[1, 0], [0, 1]]


@pytest.mark.parametrize("text", ["half \ud800", "\udfff", 7, None, b"a"])
def test_a_value_that_is_not_a_text_is_refused(text: str, tmp_path: Path) -> None:
    vocabulary = read(tmp_path, tokenizer())
    for encode in (
        vocabulary.encode,
        vocabulary.encode_with_special_tokens,
        vocabulary.encode_with_offsets,
        lambda text: vocabulary.encode_batch(["ab", text]),
    ):
        with pytest.raises(InputError):
            encode(text)


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MAX_VOCABULARY_BYTES", 100)
    with raises(StorageError, "storage.file_too_large"):
        read(tmp_path, tokenizer())


@pytest.mark.parametrize("name", ["../secret.json", "tokenizer.json"])
def test_files_that_a_file_names_are_not_opened(name: str, tmp_path: Path) -> None:
    """`vocab_file`, `tokenizer_file` and `fast_tokenizer_files` are paths in some folders."""
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "secret.json").write_text(json.dumps(tokenizer(model={**BPE, "merges": []})))
    paths = {"vocab_file": name, "tokenizer_file": name, "fast_tokenizer_files": [name]}
    (folder / "tokenizer_config.json").write_text(json.dumps(paths))
    assert read(folder, tokenizer()).encode("ab") == [2]


@pytest.mark.parametrize(
    ("files_of_it", "words"),
    [
        ({"vocab.json": b'{"a": 0}', "merges.txt": b"a b c\n"}, "tokenizer.merges_txt_syntax"),
        (
            {"vocab.json": b'{"a": 0}', "merges.txt": b"a b\n"},
            "tokenizer.merges_txt_of_other_vocabulary",
        ),
        ({"vocab.json": b'{"a": 0}', "merges.txt": b"\xff"}, "tokenizer.not_utf8"),
        ({"vocab.json": b'{"a": "b"}', "merges.txt": b""}, "tokenizer.ids_not_integers"),
        ({"vocab.json": b'{"a": 0, "a": 1}', "merges.txt": b""}, "comes twice"),
    ],
)
def test_byte_level_files_that_do_not_fit_are_refused(
    files_of_it: dict[str, bytes], words: str, tmp_path: Path
) -> None:
    for name, content in files_of_it.items():
        (tmp_path / name).write_bytes(content)
    with raises(InputError, words):
        load_tokenizer(tmp_path, {"model_type": "gpt2"})


@pytest.mark.parametrize("data", [b"", b"\x0a", b"no model at all", b"\xff" * 100])
@pytest.mark.parametrize("model_type", ["t5", "xlm-roberta", "mbart", "umt5"])
def test_broken_sentencepiece_models_are_refused(
    model_type: str, data: bytes, tmp_path: Path
) -> None:
    for name in ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"):
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError):
        load_tokenizer(tmp_path, {"model_type": model_type})


HONEST = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r" {2,}",
    r"[\(\)+*]{2,}|\(\+\)\*",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{M}]+(?i:'s|'t)?|\s*[\r\n]+|\s+(?!\S)|\s+",
]


@pytest.mark.parametrize("pattern", HONEST)
def test_patterns_of_real_tokenisers_pass(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["a*a*a*b", r"\s*(?:x|\s+y)\s*z", "(a+)(b+)(c+)", "(a+b+c+)"])
def test_patterns_of_three_repetitions_in_a_row_do_not(pattern: str) -> None:
    with raises(InputError, "tokenizer.too_many_repetitions"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a*)*", "(?:x+y?){2,}", "((a|b))+", "(a+){999}", "([ab]+c?)+"]
)
def test_patterns_that_repeat_a_repetition_do_not(pattern: str) -> None:
    with raises(InputError, "tokenizer.slow_regular_expression"):
        check_pattern(pattern)

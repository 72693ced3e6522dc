"""The browser's tokenizer for imported models: the ids, texts and spans of Python."""

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from jumok.formats.web_pretrained import characters, javascript, unsupported_pretrained
from jumok.formats.web_tokenizer import tokenizer_arrays, tokenizer_config, unsupported_tokenizer
from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from jumok.text.pretrained.backend import TokenizersBackend
from tests.formats.test_web_tokenizer import MAX_LENGTH, N_TEXTS, odd_texts
from tests.formats.web_module import run_module
from tests.pretrained_tokenizers import FOLDERS, TrainedTokenizers, sample, train_tokenizers

N_PAIRS = 1_000
N_ROWS = 1_000  # of random ids that are decoded
FAMILIES = ("bert", "bert-lower", "distilbert", "modernbert", "roberta", "gpt2-bos")
UNIGRAM = ("mt5", "xlm-r", "mbart", "mbart50")  # with an added piece, pairs, no table, a Replace
DECOMPOSED = [unicodedata.normalize("NFD", text) for text in ("한글 서울에 간다", "café 값이 뷁")]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="module")
def learned() -> TrainedTokenizers:
    return train_tokenizers(sample())


def _llama3(learned: TrainedTokenizers, folder: Path) -> None:
    """Byte-level BPE with a pattern of its own, whole words first, and pieces added by a user."""
    vocabulary, merges = learned.byte_level
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    splits = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    digits = pre_tokenizers.Digits(individual_digits=True)
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([splits, digits, bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.add_special_tokens(["[CLS]"])
    tokenizer.add_tokens(["한국어", "  ", "\t\t", "NEW"])
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


MAKERS: dict[str, Callable[[TrainedTokenizers, Path], None]] = {
    **{name: FOLDERS[name] for name in (*FAMILIES, *UNIGRAM)},
    "as Llama 3": _llama3,
}


def opened(make: Callable[[TrainedTokenizers, Path], None], learned: Any, folder: Path) -> Any:
    make(learned, folder)
    tokenizer = load_tokenizer(folder, json.loads((folder / "config.json").read_text()))
    assert isinstance(tokenizer, PretrainedTokenizer)
    return tokenizer


def texts_for(tokenizer: PretrainedTokenizer) -> list[str]:
    """Odd texts, and words that Python and a browser might split otherwise."""
    hard = [
        *DECOMPOSED,
        "[MASK] [CLS] ## ##가",
        "ÀÉÎ İ ß ǅ Σς",
        "don't 'S 'ſ 'LL",
        "\u3000\u2028\x85\xa0 \u200b",
        "½\u0301 ½\u200d½\u0e33 ª\u0340\u0301 \u06dd½\u0316 \r\n\u0301 \t\u0316 \xad\u0340\u0301",
        "ﬁ① Ａ\u0301 ｶﾞ ㈜ ＡＢ　Ｃ a\u0300\u0316 ▁가 ▁▁나▁",
    ]
    return [*hard, *odd_texts(tokenizer, N_TEXTS)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_the_ids_are_those_of_the_library(
    name: str, learned: TrainedTokenizers, tmp_path: Path
) -> None:
    draw = random.Random(2)
    tokenizer = opened(MAKERS[name], learned, tmp_path / "files")
    assert unsupported_tokenizer(tokenizer) is None
    texts = texts_for(tokenizer)
    own, template = tokenizer.encode_batch(texts), tokenizer.input_template
    chosen = [draw.sample(range(len(texts)), 2) for _ in range(N_PAIRS)]
    rows = [
        [draw.randrange(len(tokenizer)) for _ in range(draw.randint(0, 9))] for _ in range(N_ROWS)
    ]
    config, pairs = (
        tokenizer_config(tokenizer, MAX_LENGTH),
        [[texts[a], texts[b]] for a, b in chosen],
    )
    arrays = {"scores": [], "types": []} | {
        name: array.tolist() for name, array in tokenizer_arrays(tokenizer, "").items()
    }
    request = {"config": config, **arrays, "texts": texts, "rows": rows}
    request |= {"pairs": pairs, "spans": (spanned := texts[:N_PAIRS])}
    found = run_module({"tokenizers": [request]}, tmp_path)
    for kind, inputs, wanted in (
        ("ids", texts, [template.apply_one(row, None, MAX_LENGTH).ids for row in own]),
        ("pairs", pairs, [template.apply_one(own[a], own[b], MAX_LENGTH).ids for a, b in chosen]),
        ("texts", rows, tokenizer.decode_batch(rows)),
    ):
        got = found[kind][0]
        wrong = [each for each, a, b in zip(inputs, got, wanted, strict=True) if a != b]
        assert not wrong, f"{len(wrong)} of {len(got)} {kind}, such as {wrong[0]!a}"
    plain = [(text, a) for text, a in zip(spanned, found["spans"][0], strict=True)
             if has_plain_spans(text, config, tokenizer)]  # fmt: skip
    assert len(plain) > len(spanned) / 20
    for text, spans in plain:
        assert spans == [list(span) for span in tokenizer.encode_with_offsets(text).offsets], text


def has_plain_spans(text: str, config: dict[str, Any], tokenizer: PretrainedTokenizer) -> bool:
    """Whether the library's spans are what they are meant to be.

    It does not trim them where a special piece is typed, and in rare marks that a normalization
    form composes and orders anew, or that a table removes, it counts other characters.
    """
    backend = tokenizer.backend
    assert isinstance(backend, TokenizersBackend)
    if config["kind"] == "unigram" and backend.normalized(text) != text:
        return False
    special = [config["pieces"][each] for each in config["special"]]
    forms = [step["form"] for step in config["normalizer"] if step["type"] == "form"]
    plain = all(unicodedata.is_normalized(form, text) for form in forms) or text in DECOMPOSED
    return plain and not any(piece in text for piece in special)


def test_characters_are_those_of_the_library() -> None:
    found = characters()
    inside = {
        kind: lambda c, r=ranges: any(
            a <= ord(c) <= b for a, b in zip(r[::2], r[1::2], strict=True)
        )
        for kind, ranges in found.items()
    }
    assert inside["punctuation"]("!")
    assert inside["punctuation"]("…")
    assert inside["punctuation"]("$")  # all of ASCII but letters, digits and white space
    assert not inside["punctuation"]("가")
    assert inside["marks"]("\u0301")
    assert inside["chinese"]("漢")
    assert not inside["chinese"]("ㅋ")
    assert inside["removed"]("\u200d")
    assert inside["spaces"]("\u3000")


@pytest.mark.slow
def test_a_tokenizer_that_the_page_cannot_read_is_refused(
    learned: TrainedTokenizers, tmp_path: Path
) -> None:
    tokenizer = opened(FOLDERS["kobart"], learned, tmp_path / "kobart")
    assert "BPE without bytes" in str(unsupported_pretrained(tokenizer))


def test_patterns_that_the_page_cannot_read_are_refused() -> None:
    assert javascript(r"\p{N}{1,3}") == r"\p{N}{1,3}"
    with pytest.raises(Exception, match="the pattern"):
        javascript(r"\p{L}++")
    with pytest.raises(Exception, match="the pattern"):
        javascript(r"\h+")

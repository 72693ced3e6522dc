"""A tokenizer.model without other files gives the ids that SentencePiece gives."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from jumok.errors import InputError
from jumok.text.pretrained import load_tokenizer
from tests.errors import raises

TEXTS = [
    *("정말 재미있는 영화였다", "배우들의 연기가 좋았고 ㅋㅋ 웃겼다", "다시 보고 싶지는 않다 2024"),
    *("영화 음악이 좋다", "돈이 아깝다", "연기는 별로였고 음악도 별로였다", "ㅋㅋㅋㅋ 최고"),
]
ODD = [
    *(
        "  앞뒤에  빈칸이   있다  ",
        "ㅋㅋㅋㅋ웃겼다ㅋㅋ",
        "▁밑줄▁이 있다",
        "탭\t과\n줄",
        "🎬 영화 👍🏽",
    ),
    *("㈜주목 ㋀ ㅋ ㅋㅋ ㅋㅋㅋㅋ", "\u110f\u110f ㅎㅎ ㅋ\u110f", "최고㈜최고 ＡＢ"),
    *("", " ", "재미있는영화", "ｆｕｌｌ　ｗｉｄｔｈ", "모르는 漢字 글자"),
]
OWN = {"user_defined_symbols": ["ㅋㅋ"], "normalization_rule_name": "identity"}
# NFKC, the default, changes these; SentencePiece does not apply it to user-defined pieces
CHANGED = {"user_defined_symbols": ["ㅋㅋ", "㈜", "ｆｕ", "최고"]}
LONGER = {"user_defined_symbols": ["ㅋㅋ", "ㅋㅋㅋ", "㈜", "㈜주목"]}
SETTINGS: dict[str, dict[str, Any]] = {
    "bpe": {"model_type": "bpe", "byte_fallback": True, **OWN},
    "bpe-plain": {"model_type": "bpe"},
    "bpe-no-prefix": {"model_type": "bpe", "add_dummy_prefix": False, "byte_fallback": True},
    "bpe-spaces": {"model_type": "bpe", "remove_extra_whitespaces": False},
    "bpe-changed": {"model_type": "bpe", "byte_fallback": True, **CHANGED},
    "bpe-longer": {"model_type": "bpe", **LONGER},
    "unigram-changed": {"model_type": "unigram", **CHANGED},
    "unigram": {"model_type": "unigram", "byte_fallback": True},
    "unigram-own": {"model_type": "unigram", **OWN},
    "unigram-no-prefix": {"model_type": "unigram", "add_dummy_prefix": False},
}


def save(folder: Path, settings: dict[str, Any], **config: Any) -> Any:
    """A folder with tokenizer.model; returns the processor of SentencePiece."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 3),
        model_writer=written,
        **{
            "vocab_size": 340 if settings.get("byte_fallback") else 84,
            "minloglevel": 2,
            "hard_vocab_limit": False,
        }
        | settings,
    )
    (folder / "tokenizer.model").write_bytes(written.getvalue())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


@pytest.mark.parametrize("name", SETTINGS)
def test_ids_and_texts_equal_sentencepiece(name: str, tmp_path: Path) -> None:
    processor = save(tmp_path, SETTINGS[name])
    tokenizer = load_tokenizer(tmp_path, {"model_type": "umt5"})
    assert tokenizer is not None
    for text in (*TEXTS, *ODD):
        ids = processor.encode(text)
        assert tokenizer.encode_hf([text]) == [ids], (text, processor.id_to_piece(ids))
        # SentencePiece writes an unknown piece as "⁇", and removes two spaces at the beginning
        if processor.unk_id() not in ids and not text.startswith("▁"):
            assert tokenizer.decode(ids) == processor.decode(ids), text


def test_a_space_is_inserted_after_special_pieces_unless_legacy_is_false(tmp_path: Path) -> None:
    processor = save(tmp_path, SETTINGS["bpe"])
    for legacy, expected in ((True, "▁영화"), (False, "영화")):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"legacy": legacy}))
        tokenizer = load_tokenizer(tmp_path, {"model_type": "umt5"})
        assert tokenizer is not None
        [ids] = tokenizer.encode_hf(["음악</s>영화"])
        rest = ids[ids.index(processor.eos_id()) + 1 :]
        assert "".join(processor.id_to_piece(rest)) == expected


def test_models_of_words_are_refused(tmp_path: Path) -> None:
    save(tmp_path, {"model_type": "word"})
    with raises(InputError, "tokenizer.unknown_model_kind"):
        load_tokenizer(tmp_path, {"model_type": "umt5"})


def test_too_many_pieces_that_the_table_changes_are_refused(tmp_path: Path) -> None:
    own = [f"㈜{number}" for number in range(1_001)]
    save(tmp_path, {"model_type": "bpe", "user_defined_symbols": own, "vocab_size": 1_100})
    with raises(InputError, "tokenizer.too_many_changed_pieces"):
        load_tokenizer(tmp_path, {"model_type": "umt5"})

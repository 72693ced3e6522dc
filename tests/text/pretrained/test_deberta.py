"""The tokenizer of DeBERTa v3 without a tokenizer.json: the ids of SentencePiece."""

import json
from pathlib import Path

import sentencepiece

from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from tests.hf_folders import lines, spm

ODD = [
    "12, 13, 14, 15",
    "ＡＢＣ １２３ ㎏",
    "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "뷁쀍 😀",
    "이  영화\t재미\n있다 ",
    "",
]
CONTROL = {
    "pad_id": 0,
    "bos_id": 1,
    "eos_id": 2,
    "unk_id": 3,
    "pad_piece": "[PAD]",
    "bos_piece": "[CLS]",
    "eos_piece": "[SEP]",
    "unk_piece": "[UNK]",
}
MODEL = {"model_type": "deberta-v2"}


def tokenizer(folder: Path, **settings: object) -> tuple[PretrainedTokenizer, bytes]:
    data = spm([*lines(), *ODD[:5] * 5], size=300, **CONTROL)
    (folder / "spm.model").write_bytes(data)
    found = {"do_lower_case": False, "vocab_type": "spm"} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(found))
    loaded = load_tokenizer(folder, MODEL)
    assert loaded is not None
    return loaded, data


def test_ids_are_those_of_sentencepiece(tmp_path: Path) -> None:
    made, data = tokenizer(tmp_path)
    reference = sentencepiece.SentencePieceProcessor(model_proto=data)
    texts = [*lines()[:200], *ODD]
    rows = made.encode_batch_with_special_tokens(texts, max_length=100)
    assert [row.ids[1:-1] for row in rows] == reference.encode(texts)
    assert {(row.ids[0], row.ids[-1]) for row in rows} == {(1, 2)}
    assert made.special_ids["[MASK]"] == len(made) - 1 == reference.get_piece_size()
    (pair,) = made.encode_batch_with_special_tokens(["삼 일"], ["오"], max_length=100)
    assert pair.token_type_ids == sorted(pair.token_type_ids)
    assert pair.token_type_ids[-1] == 1
    assert pair.ids.count(2) == 2


def test_settings_change_the_ids(tmp_path: Path) -> None:
    plain, _ = tokenizer(tmp_path)
    lower, _ = tokenizer(tmp_path, do_lower_case=True)
    assert lower.encode("ABC") == plain.encode("abc") != plain.encode("ABC")
    split, _ = tokenizer(tmp_path, split_by_punct=True)
    assert len(split.encode("12, 13")) > len(plain.encode("12, 13"))

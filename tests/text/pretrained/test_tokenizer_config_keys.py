"""The keys of tokenizer_config.json: those of transformers pass, unknown ones are named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumok.tasks.inputs.tokenizer_pair import read_hf_tokenizer
from tests import hf_folders

MAKERS: dict[str, Callable[[Path], Any]] = {
    "bert": hf_folders.bert,
    "roberta": hf_folders.roberta,
    "gpt2": hf_folders.gpt2,
    "llama": hf_folders.llama,
    "t5": hf_folders.t5,
    "bart": hf_folders.bart,
    "marian": hf_folders.marian,
    "mt5": hf_folders.mt5,
}


@pytest.mark.parametrize("family", MAKERS)
def test_the_keys_that_transformers_writes_pass_in_silence(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    MAKERS[family](tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    capsys.readouterr()
    assert read_hf_tokenizer(tmp_path, config, {}) is not None
    if family != "marian":  # whose SentencePiece files are not enough for a saved one
        saved = transformers.AutoTokenizer.from_pretrained(tmp_path)
        saved.save_pretrained(tmp_path)
        assert read_hf_tokenizer(tmp_path, config, {}) is not None
    assert "not read" not in capsys.readouterr().err


def test_an_unknown_key_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf_folders.bert(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "invented": 0.5, "off": None, "image_token": "[UNK]"}))
    capsys.readouterr()
    read_hf_tokenizer(tmp_path, json.loads((tmp_path / "config.json").read_text()), {})
    line = "jumok: tokenizer_config.json: keys without support are not read: invented\n"
    assert capsys.readouterr().err == line

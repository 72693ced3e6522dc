"""config.json of another library: every key is read, known to have no effect, named or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import jumok
from jumok.errors import ModelFileError
from tests import hf_folders
from tests.errors import raises


def change(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values), encoding="utf-8")


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text"])
def test_keys_of_a_decoder_without_support_are_named(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hf_folders.llama(tmp_path, family)
    jumok.load(tmp_path)
    assert "not read" not in capsys.readouterr().err
    change(tmp_path, num_experts=4, logit_scale=None, residual_multiplier=0.5)
    jumok.load(tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("config.json: keys without support are not read: num_experts, "
                         "residual_multiplier")  # fmt: skip


def test_keys_of_the_rotation_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf_folders.llama(tmp_path)
    change(tmp_path, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "beta_fast": 32})
    jumok.load(tmp_path)
    assert "are not read: rope_parameters.beta_fast\n" in capsys.readouterr().err


def test_quantized_weights_and_contradictory_labels_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hf_folders.bert(tmp_path, "ForSequenceClassification", labels=("a", "b", "c"))
    jumok.load(tmp_path)
    assert "not read" not in capsys.readouterr().err
    change(tmp_path, num_labels=5)
    with raises(ModelFileError, "pretrained.config_value"):
        jumok.load(tmp_path)
    change(tmp_path, num_labels=3, id2label={"0": "a", "1": "a", "2": "b"})
    with raises(ModelFileError, "pretrained.config_value"):
        jumok.load(tmp_path)
    change(tmp_path, id2label={"0": "a", "1": "c", "2": "b"}, quantization_config={"bits": 4})
    with raises(ModelFileError, "pretrained.config_value_unsupported"):
        jumok.load(tmp_path)

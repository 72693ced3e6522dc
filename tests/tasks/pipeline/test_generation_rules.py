"""generation_config.json: the texts of transformers, and the keys that are named in a notice."""

import json
from pathlib import Path
from typing import Any

import pytest

import jumok
from jumok.errors import InputError
from jumok.tasks.pipeline.generation_rules import KEYS
from tests import hf_folders
from tests.errors import raises

TEXT = "이 영화 재미있어요"


def write(folder: Path, **settings: Any) -> None:
    """Add settings to the generation_config.json of a folder."""
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_length": 12, **settings}))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sequence_bias": [[[30], 9.0], [[30, 31], 40.0], [[31, 30], -50.0]]},
        {"begin_suppress_tokens": list(range(5, 60))},
        {"begin_suppress_tokens": list(range(5, 60)), "forced_bos_token_id": 70},
    ],
    ids=["none", "sequence_bias", "begin", "begin after a forced token"],
)
def test_the_same_texts_as_transformers(
    settings: dict[str, Any], beams: int, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    hf_folders.bart(tmp_path)
    write(tmp_path, num_beams=beams, **settings)
    model = transformers.BartForConditionalGeneration.from_pretrained(tmp_path).eval()
    pipeline = jumok.load(tmp_path, device="cpu")
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)(TEXT, return_tensors="pt").input_ids
    expected = model.generate(input_ids=ids)[0].tolist()[1:]  # without the start token
    found = [token.id for token in pipeline(TEXT).tokens]
    assert found == expected[: len(found)]
    assert len(expected) - len(found) <= 0 or set(expected[len(found) :]) <= {
        model.config.eos_token_id,
        model.config.pad_token_id,
    }


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"encoder_repetition_penalty": 3.0}, "encoder_repetition_penalty"),
        ({"exponential_decay_length_penalty": [3, 2.5]}, "exponential_decay_length_penalty"),
        ({"renormalize_logits": True, "num_beam_groups": 2}, "num_beam_groups, renormalize_logits"),
        ({"sequence_bias": [[[30], 9.0]], "repetition_penalty": 1.2}, "sequence_bias"),
        ({"invented": 0.5}, "invented"),
    ],
)
def test_settings_without_support_are_named(
    settings: dict[str, Any], names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hf_folders.bart(tmp_path)
    write(tmp_path, **settings)
    jumok.load(tmp_path, device="cpu")
    err = capsys.readouterr().err
    assert err.endswith(f"generation_config.json: keys without support are not read: {names}\n")


def test_all_defaults_of_transformers_pass_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GenerationConfig()
    known = {*KEYS.read, *KEYS.without_effect, *KEYS.named}
    assert set(config.to_dict()) <= known
    hf_folders.bart(tmp_path)
    capsys.readouterr()
    for content in (config.to_dict(), config.to_diff_dict()):
        write(tmp_path, **(content | {"max_new_tokens": 3}))
        jumok.load(tmp_path, device="cpu")
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("value", [[[5, 1.0]], [[[5], "a"]], "x", {"5": 1.0}])
def test_invalid_biases_are_refused(value: object, tmp_path: Path) -> None:
    hf_folders.bart(tmp_path)
    write(tmp_path, sequence_bias=value)
    with raises(InputError, "pipeline.sequence_bias"):
        jumok.load(tmp_path, device="cpu")

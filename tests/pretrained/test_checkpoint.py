"""open_checkpoint: a folder is read exactly, or an error names the file."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from jumok.errors import InputError
from jumok.pretrained.checkpoint import MAX_SHARDS, open_checkpoint
from jumok.safetensors_io import serialize
from tests.errors import raises

CONFIG = {"model_type": "bert", "hidden_size": 8}
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def write(folder: Path, **files: object) -> Path:
    """Write files to `folder`: dicts as JSON, bytes unchanged; `__` in a name is a dot."""
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def sharded(
    folder: Path, weight_map: Mapping[str, object], shards: Mapping[str, list[str]]
) -> Path:
    """A sharded checkpoint; each shard has a tensor of ones for each of its names."""
    for shard, names in shards.items():
        (folder / shard).write_bytes(serialize({name: torch.ones(2) for name in names}))
    index = {"metadata": {"total_size": 8}, "weight_map": weight_map}
    return write(folder, config__json=CONFIG, model__safetensors__index__json=index)


def test_configs_and_tensors_are_read(tmp_path: Path) -> None:
    weight = torch.randn(3, 4, dtype=torch.float64)
    data = serialize({"bert.weight": weight, "half": torch.ones(2).half()})
    write(tmp_path, config__json=CONFIG, model__safetensors=data)
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.config == CONFIG
    assert checkpoint.generation_config == {}
    assert torch.equal(checkpoint.tensors["bert.weight"], weight)
    assert checkpoint.tensors["half"].dtype == torch.float16
    assert checkpoint.checksums["model.safetensors"] == hashlib.sha256(data).hexdigest()
    write(tmp_path, generation_config__json={"num_beams": 4})
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.generation_config == {"num_beams": 4}
    assert list(checkpoint.checksums) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
    ]


def test_missing_files_are_named(tmp_path: Path) -> None:
    with raises(InputError, "pretrained.no_such_folder"):
        open_checkpoint(tmp_path / "nowhere")
    with raises(InputError, "pretrained.no_config_json"):
        open_checkpoint(tmp_path)
    write(tmp_path, config__json=CONFIG)
    with raises(InputError, "pretrained.no_weights"):
        open_checkpoint(tmp_path)


def test_invalid_json_raises_input_error(tmp_path: Path) -> None:
    write(tmp_path, config__json=b'{"a": 1, "a": 2}')
    with pytest.raises(InputError, match=r"config\.json: .*comes twice"):
        open_checkpoint(tmp_path)
    write(tmp_path, config__json=CONFIG, generation_config__json=b'{"length_penalty": NaN}')
    with pytest.raises(InputError, match=r"generation_config\.json: .*NaN"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "auto_map",
    [
        {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"},
        {"AutoModel": ["evil.Model"]},
        "evil",
    ],
)
def test_custom_model_code_raises_input_error(tmp_path: Path, auto_map: object) -> None:
    write(tmp_path, config__json=CONFIG | {"auto_map": auto_map}, model__safetensors=serialize({}))
    write(tmp_path, evil__py=b"raise SystemExit")
    with raises(InputError, "pretrained.custom_code"):
        open_checkpoint(tmp_path)


def test_custom_tokenizer_code_is_ignored(tmp_path: Path) -> None:
    named = {"auto_map": {"AutoTokenizer": ["tokenization.Own", None]}}
    write(tmp_path, config__json=CONFIG | named, model__safetensors=serialize({"a": torch.ones(1)}))
    assert open_checkpoint(tmp_path).tensors.keys() == {"a"}


def test_precedence_of_weight_files(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": ONE}, {ONE: ["a"]})
    write(tmp_path, pytorch_model__bin=b"not even a zip")
    assert open_checkpoint(tmp_path).tensors.keys() == {"a"}
    write(tmp_path, model__safetensors=serialize({"b": torch.ones(1)}))
    assert open_checkpoint(tmp_path).tensors.keys() == {"b"}


def test_sharded_checkpoint(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": TWO, "b": ONE, "c": TWO}, {ONE: ["b"], TWO: ["a", "c"]})
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.tensors.keys() == {"a", "b", "c"}
    assert list(checkpoint.checksums) == ["config.json", "model.safetensors.index.json", ONE, TWO]


@pytest.mark.parametrize(
    ("shards", "reason"),
    [
        ({ONE: ["a"]}, f"{TWO}: missing, but named in"),
        ({ONE: [], TWO: ["b"]}, "pretrained.does_not_match"),
        ({ONE: ["a", "x"], TWO: ["b"]}, "pretrained.does_not_match"),
        ({ONE: ["a", "b"], TWO: ["b"]}, "pretrained.does_not_match"),
        ({ONE: ["b"], TWO: ["a"]}, "pretrained.does_not_match"),
    ],
)
def test_shards_that_do_not_match_the_index(
    tmp_path: Path, shards: Mapping[str, list[str]], reason: str
) -> None:
    sharded(tmp_path, {"a": ONE, "b": TWO}, shards)
    with raises(InputError, reason):
        open_checkpoint(tmp_path)


def test_long_list_of_differences_is_truncated(tmp_path: Path) -> None:
    sharded(tmp_path, {f"t{number}": ONE for number in range(30)}, {ONE: []})
    with raises(InputError, "pretrained.does_not_match"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "shard",
    [
        *("../model.safetensors", "/etc/model.safetensors", "a/b.safetensors", ".safetensors"),
        *("..\\model.safetensors", "C:model.safetensors", "a\0.safetensors", "a\n.safetensors"),
        *("model.bin", "", "%2e%2e/x.safetensors", "x" * 256 + ".safetensors", 3, None, ["a"]),
        "\u202emodel.safetensors",
    ],
)
def test_invalid_shard_names(tmp_path: Path, shard: object) -> None:
    subfolder = tmp_path / "subfolder"
    subfolder.mkdir()
    (tmp_path / "model.safetensors").write_bytes(serialize({"a": torch.ones(2)}))
    sharded(subfolder, {"a": shard}, {})
    with raises(InputError, "pretrained.file_of_other_folder"):
        open_checkpoint(subfolder)


@pytest.mark.parametrize("weight_map", [None, [], {}, "a", 3])
def test_index_without_weight_map(tmp_path: Path, weight_map: object) -> None:
    index = {"weight_map": weight_map}
    write(tmp_path, config__json=CONFIG, model__safetensors__index__json=index)
    with raises(InputError, "pretrained.weight_map"):
        open_checkpoint(tmp_path)


def test_index_with_too_many_shards(tmp_path: Path) -> None:
    many = {f"t{number}": f"{number}.safetensors" for number in range(MAX_SHARDS + 1)}
    sharded(tmp_path, many, {})
    with raises(InputError, "pretrained.too_many_files"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "_orig_mod.module."])
def test_names_of_wrapped_modules(prefix: str, tmp_path: Path) -> None:
    """DataParallel and torch.compile put a prefix before all names."""
    tensors = {f"{prefix}{name}": torch.ones(2) for name in ("bert.a", "bert.b")}
    write(tmp_path, config__json=CONFIG, model__safetensors=serialize(tensors))
    assert sorted(open_checkpoint(tmp_path).tensors) == ["bert.a", "bert.b"]
    tensors["other"] = torch.ones(2)  # not of a wrapper
    write(tmp_path, model__safetensors=serialize(tensors))
    assert sorted(open_checkpoint(tmp_path).tensors) == sorted(tensors)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "config.json"])
def test_pointers_of_git_lfs(name: str, tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"
    write(tmp_path, config__json=CONFIG)
    (tmp_path / name).write_text(pointer)
    with raises(InputError, "file.git_lfs_pointer") as caught:
        open_checkpoint(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert "run git lfs pull" in str(caught.value)
    (tmp_path / name).write_text("\n<!DOCTYPE html>\n<html><head>sign in</head></html>")
    with raises(InputError, "file.web_page"):
        open_checkpoint(tmp_path)

"""A foreign folder: taken exactly as its files say, or refused with the file's name."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from jumok.errors import InputError
from jumok.pretrained.checkpoint import MAX_SHARDS, open_checkpoint
from jumok.safetensors_io import serialize

CONFIG = {"model_type": "bert", "hidden_size": 8}
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def write(folder: Path, **files: object) -> Path:
    """Files in `folder`: JSON for tables, bytes as they are; `__` in a name stands for a dot."""
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def sharded(
    folder: Path, weight_map: Mapping[str, object], shards: Mapping[str, list[str]]
) -> Path:
    """A checkpoint in several files, each holding a tensor of ones of every name given."""
    for shard, names in shards.items():
        (folder / shard).write_bytes(serialize({name: torch.ones(2) for name in names}))
    index = {"metadata": {"total_size": 8}, "weight_map": weight_map}
    return write(folder, config__json=CONFIG, model__safetensors__index__json=index)


def test_a_folder_is_opened(tmp_path: Path) -> None:
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


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such folder"):
        open_checkpoint(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"no config\.json"):
        open_checkpoint(tmp_path)
    write(tmp_path, config__json=CONFIG)
    with pytest.raises(InputError, match=r"no weights in it; one of model\.safetensors"):
        open_checkpoint(tmp_path)


def test_json_that_lies_is_refused(tmp_path: Path) -> None:
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
def test_a_model_that_is_code_is_refused(tmp_path: Path, auto_map: object) -> None:
    write(tmp_path, config__json=CONFIG | {"auto_map": auto_map}, model__safetensors=serialize({}))
    write(tmp_path, evil__py=b"raise SystemExit")
    with pytest.raises(InputError, match=r"auto_map names code of its own .*evil"):
        open_checkpoint(tmp_path)


def test_a_tokeniser_that_is_code_says_nothing_of_the_model(tmp_path: Path) -> None:
    named = {"auto_map": {"AutoTokenizer": ["tokenization.Own", None]}}
    write(tmp_path, config__json=CONFIG | named, model__safetensors=serialize({"a": torch.ones(1)}))
    assert open_checkpoint(tmp_path).tensors.keys() == {"a"}


def test_one_file_goes_before_many_and_both_before_a_pickle(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": ONE}, {ONE: ["a"]})
    write(tmp_path, pytorch_model__bin=b"not even a zip")
    assert open_checkpoint(tmp_path).tensors.keys() == {"a"}
    write(tmp_path, model__safetensors=serialize({"b": torch.ones(1)}))
    assert open_checkpoint(tmp_path).tensors.keys() == {"b"}


def test_many_files_are_one_checkpoint(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": TWO, "b": ONE, "c": TWO}, {ONE: ["b"], TWO: ["a", "c"]})
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.tensors.keys() == {"a", "b", "c"}
    assert list(checkpoint.checksums) == ["config.json", "model.safetensors.index.json", ONE, TWO]


@pytest.mark.parametrize(
    ("shards", "reason"),
    [
        ({ONE: ["a"]}, f"{TWO}: named in .*, but not there"),
        ({ONE: [], TWO: ["b"]}, "a is missing"),
        ({ONE: ["a", "x"], TWO: ["b"]}, "x is not in the index"),
        ({ONE: ["a", "b"], TWO: ["b"]}, "b is not in the index"),
        ({ONE: ["b"], TWO: ["a"]}, "a is missing; b is not in the index"),
    ],
)
def test_files_that_are_not_as_the_index_says(
    tmp_path: Path, shards: Mapping[str, list[str]], reason: str
) -> None:
    sharded(tmp_path, {"a": ONE, "b": TWO}, shards)
    with pytest.raises(InputError, match=reason):
        open_checkpoint(tmp_path)


def test_a_long_list_of_differences_is_cut(tmp_path: Path) -> None:
    sharded(tmp_path, {f"t{number}": ONE for number in range(30)}, {ONE: []})
    with pytest.raises(InputError, match="and 20 more"):
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
def test_names_of_files_that_are_not_plain(tmp_path: Path, shard: object) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "model.safetensors").write_bytes(serialize({"a": torch.ones(2)}))
    sharded(inside, {"a": shard}, {})
    with pytest.raises(InputError, match="no plain name of a"):
        open_checkpoint(inside)


@pytest.mark.parametrize("weight_map", [None, [], {}, "a", 3])
def test_an_index_without_a_map(tmp_path: Path, weight_map: object) -> None:
    index = {"weight_map": weight_map}
    write(tmp_path, config__json=CONFIG, model__safetensors__index__json=index)
    with pytest.raises(InputError, match="weight_map has to say"):
        open_checkpoint(tmp_path)


def test_an_index_of_very_many_files(tmp_path: Path) -> None:
    many = {f"t{number}": f"{number}.safetensors" for number in range(MAX_SHARDS + 1)}
    sharded(tmp_path, many, {})
    with pytest.raises(InputError, match="1,001 files"):
        open_checkpoint(tmp_path)

"""Tokenizer, config and weights of a folder belong together: a mix is an error."""

import shutil
from pathlib import Path

import pytest

import jumok
from benchmarks.trust.fuzz_corpus import write_run
from jumok.errors import InputError
from jumok.safetensors_io import read_tensors, serialize
from tests.errors import raises

FILES = ("config.json", "model.safetensors", "recipe.toml", "vocabulary.model")
OTHER = ("model.d_ff=12", 'data.labels=["yes", "no"]')


def mix(own: Path, other: Path, name: str) -> Path:
    """A copy of one folder with one file of another."""
    mixed = own.parent / "mixed"
    shutil.copytree(own, mixed)
    shutil.copyfile(other / name, mixed / name)
    return mixed


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_run_is_an_error(tmp_path: Path, name: str) -> None:
    own = write_run(tmp_path / "own")
    other = write_run(tmp_path / "other", kind="bpe", words=OTHER)
    jumok.load(other)
    with pytest.raises(InputError, match="restore the run's own file"):
        jumok.load(mix(own, other, name))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_weights_of_another_run_are_an_error(tmp_path: Path, name: str) -> None:
    """Same recipe, same vocabulary, same shapes: only checksums differ."""
    own, other = write_run(tmp_path / "own"), write_run(tmp_path / "other", seed=1)
    with raises(InputError, "run.file_damaged"):
        jumok.load(mix(own, other, name))


def test_a_config_of_another_task_is_an_error(tmp_path: Path) -> None:
    own = write_run(tmp_path / "own", "language_modeling")
    recipe = own / "recipe.toml"
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(
        text.replace("language_modeling", "classification").replace('"decoder"', '"encoder"'),
        encoding="utf-8",
    )
    with raises(InputError, "run.files_disagree"):
        jumok.load(own)


def test_one_flipped_bit_is_an_error(tmp_path: Path) -> None:
    path = write_run(tmp_path / "own") / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with raises(InputError, "run.file_damaged"):
        jumok.load(path.parent)


def test_a_run_without_the_checksum_of_its_weights_is_rejected(tmp_path: Path) -> None:
    path = write_run(tmp_path / "own") / "config.json"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(line for line in lines if "weights_sha256" not in line))
    with pytest.raises(InputError, match="must hold weights_sha256; restore"):
        jumok.load(path.parent)


IMPORTED = (
    "config.json",
    "model.safetensors",
    "origin/config.json",
    "origin/unused.safetensors",
    "origin/origin.json",
    "vocabulary/vocab.txt",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMPORTED)
def test_a_file_of_another_import_is_an_error(tmp_path: Path, name: str) -> None:
    """Two checkpoints of one architecture with different weights, labels and pieces."""
    pytest.importorskip("transformers")
    from jumok.tasks.runs.import_checkpoint import import_checkpoint
    from tests.hf_folders import bert

    for side in ("own", "other"):
        labels = ("no", "yes") if side == "own" else ("yes", "no")
        bert(tmp_path / f"from-{side}", "ForSequenceClassification", labels)
    vocab = tmp_path / "from-other" / "vocab.txt"
    pieces = vocab.read_text(encoding="utf-8").split("\n")
    pieces[-2], pieces[-3] = pieces[-3], pieces[-2]
    vocab.write_text("\n".join(pieces), encoding="utf-8")
    weights = tmp_path / "from-other" / "model.safetensors"
    turned = {name: -tensor for name, tensor in read_tensors(weights).items()}
    weights.write_bytes(serialize(turned))
    for side in ("own", "other"):
        import_checkpoint(tmp_path / f"from-{side}", tmp_path / side)
    jumok.load(tmp_path / "other")
    mixed = tmp_path / "own"
    if (mixed / name).read_bytes() == (tmp_path / "other" / name).read_bytes():
        assert name == "origin/unused.safetensors"  # the same position ids in both
        (mixed / name).write_bytes(b"")
    else:
        shutil.copyfile(tmp_path / "other" / name, mixed / name)
    with pytest.raises(InputError, match="restore the run's own file"):
        jumok.load(mixed)

"""Fully sharded data parallelism: training, checkpoints, failures."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jumok.errors import InputError
from jumok.safetensors_io import read_tensors
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.config import TrainingConfig
from tests.cli.commands import environment
from tests.training.parallel.test_data_parallel import (
    STEPS,
    Runs,
    bits,
    codes,
    first_gradients,
    stopped,
    untimed_records,
)
from tests.training.torchrun import GroupExit, WorkerGroup, outputs_of

SHARDED = (
    "training.sharding=full",
    f"training.keep_checkpoints={STEPS}",
    "training.precision=float32",
)
Ends = list[tuple[WorkerGroup, GroupExit]]


# Real processes


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, review_recipe: Path) -> tuple[Path, Ends]:
    """One process, three, 2 that become 1 and then 3, and a run that diverges."""
    folder = tmp_path_factory.mktemp("sharded")
    runs = Runs(review_recipe, folder)
    for size in (1, 3):
        runs.train(str(size), size, *SHARDED)
    runs.train("changed", 2, *SHARDED, **stopped(1))
    runs.resume("changed", 1, **stopped(3))
    runs.resume("changed", 3)
    runs.train("steep", 2, *SHARDED, "training.learning_rate=9", "training.weight_decay=1e6")
    return folder, runs.run()


@pytest.mark.slow
def test_a_sharded_model_learns_what_a_whole_one_learns(trained: tuple[Path, Ends]) -> None:
    """3 processes have 1, 1 and 2 of 4 microbatches; some weights have fewer than 3 rows."""
    folder, ends = trained
    assert codes(ends[:5]) == [[0], [0, 0, 0], [143, 143], [143], [0, 0, 0]], outputs_of(ends[1][0])
    one, three = (first_gradients(folder / name) for name in ("1", "3"))
    assert one.keys() == three.keys()
    assert max(gradient.abs().max() for gradient in one.values()) > 1e-3
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, three[name], rtol=0, atol=1e-6)
    for name in ("3", "changed"):
        assert_same_curve(folder / name, folder / "1")
        assert_same_weights(folder / name, folder / "1")


@pytest.mark.slow
def test_a_checkpoint_has_the_same_files_for_any_number_of_processes(
    trained: tuple[Path, Ends],
) -> None:
    folder, _ = trained
    one, three = (CheckpointStore(folder / name).checkpoint(STEPS) for name in ("1", "3"))
    assert one.states == three.states
    for state in one.states:
        kinds = [
            {name: (tensor.shape, tensor.dtype) for name, tensor in each.state(state).items()}
            for each in (one, three)
        ]
        assert kinds[0] == kinds[1]


@pytest.mark.slow
def test_all_processes_stop_at_a_bad_step(trained: tuple[Path, Ends]) -> None:
    folder, ends = trained
    group, ended = ends[5]
    assert ended.codes == [4, 4]
    first, second = outputs_of(group)
    assert "the loss or a gradient is not finite, first in encoder." in first
    # torch 2.8 prints each connection
    assert [line for line in second.splitlines() if not line.startswith("[Gloo]")] == []
    assert len(list((folder / "steep" / "bad-steps").iterdir())) == 2


@pytest.mark.slow
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(
    tmp_path: Path, review_recipe: Path
) -> None:
    runs = Runs(review_recipe, tmp_path)
    runs.train("whole", 2, *SHARDED)
    runs.train("run", 2, *SHARDED, **stopped(2))
    runs.resume("run", 2)
    assert codes(runs.run()) == [[0, 0], [143, 143], [0, 0]]
    assert bits(tmp_path / "run") == bits(tmp_path / "whole")
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "within"),
    [
        (
            (
                "training.activation_checkpointing=true",
                'training.freeze=["embeddings", "layers.0"]',
            ),
            1e-5,
        ),
        (("training.precision=bfloat16",), 0.02),
    ],
    ids=["recomputed and frozen", "bfloat16"],
)
def test_sharding_with_other_settings(
    tmp_path: Path, review_recipe: Path, overrides: tuple[str, ...], within: float
) -> None:
    runs = Runs(review_recipe, tmp_path)
    for n in (1, 2):
        runs.train(str(n), n, *SHARDED, *overrides)
    assert codes(runs.run()) == [[0], [0, 0]]
    assert_same_curve(tmp_path / "2", tmp_path / "1", within)
    if len(overrides) > 1:
        store, name = CheckpointStore(tmp_path / "2"), "encoder.embedding.tokens.weight"
        first, last = (store.checkpoint(step).load() for step in (1, STEPS))
        assert torch.equal(first["model"][name], last["model"][name])
        assert not torch.equal(first["model"]["output.weight"], last["model"]["output.weight"])
        assert f"exp_avg:{name}" not in last["optimizer"]


@pytest.mark.slow
def test_generation_uses_the_whole_model(tmp_path: Path, reading_recipe: Path) -> None:
    """An encoder-decoder with tied embeddings: beams of different lengths, each output once."""
    runs = Runs(reading_recipe, tmp_path)
    for size in (1, 2):
        runs.train(str(size), size, *SHARDED, "augmentation.token_dropout=0")
    assert codes(runs.run()) == [[0], [0, 0]]
    assert_same_curve(tmp_path / "2", tmp_path / "1")
    results = json.loads((tmp_path / "2" / "results.json").read_text())
    assert results["n"] == 40


@pytest.mark.slow
def test_a_killed_process_ends_the_others_and_the_run_resumes(
    tmp_path: Path, review_recipe: Path, trained: tuple[Path, Ends]
) -> None:
    runs = Runs(review_recipe, tmp_path)
    runs.train("lost", 3, *SHARDED, by=int(signal.SIGKILL), hit=1, step=2)
    runs.resume("lost", 2)
    (group, killed), (_, resumed) = runs.run()
    assert killed.codes == [6, -9, 6], outputs_of(group)
    assert killed.seconds < 60
    assert resumed.codes == [0, 0]
    assert all("Traceback" not in text for text in outputs_of(group))
    assert_same_curve(tmp_path / "lost", trained[0] / "1")


@pytest.mark.slow
def test_a_run_resumes_with_another_sharding(
    tmp_path: Path, review_recipe: Path, trained: tuple[Path, Ends]
) -> None:
    """Whole, then sharded, then whole: `recipe.toml` may change each time."""
    runs = Runs(review_recipe, tmp_path)
    runs.train("run", 2, *SHARDED[1:], **stopped(1))
    assert codes(runs.run()) == [[143, 143]]
    recipe = tmp_path / "run" / "recipe.toml"
    for now, then, signals in (("full", "none", stopped(3)), ("none", "full", {})):
        text = recipe.read_text(encoding="utf-8")
        assert f'sharding = "{then}"' in text
        recipe.write_text(text.replace(f'sharding = "{then}"', f'sharding = "{now}"'), "utf-8")
        runs = Runs(review_recipe, tmp_path)
        runs.resume("run", 2, **signals)
        assert codes(runs.run()) == [[143, 143] if signals else [0, 0]]
    assert_same_curve(tmp_path / "run", trained[0] / "1")


@pytest.mark.slow
def test_a_sharded_model_is_gathered_and_restored(tmp_path: Path) -> None:
    """With the same bits, without pickle, and without traces of the sharding."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.training.fsdp_worker", str(tmp_path), "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
        env=environment(),
    )
    assert process.stdout.split() == ["0", "0", "0"], process.stderr


def assert_same_curve(mine: Path, reference: Path, within: float = 1e-5) -> None:
    for a, b in zip(untimed_records(mine), untimed_records(reference), strict=True):
        assert a["step"] == b["step"]
        assert a["loss"] == pytest.approx(b["loss"], rel=within)  # a few steps on


def assert_same_weights(mine: Path, reference: Path) -> None:
    """The weights of finished runs; AdamW moves weights without a real gradient by rounding."""
    a, b = (read_tensors(folder / "model.safetensors") for folder in (mine, reference))
    assert a.keys() == b.keys()
    gradients = first_gradients(reference)
    for name, tensor in a.items():
        if gradients[f"exp_avg:{name}"].abs().max() > 1e-6:  # the bias of the keys has no gradient
            torch.testing.assert_close(tensor, b[name], rtol=0, atol=1e-4)


@pytest.mark.parametrize("word", ["strict", "compile"])
def test_sharding_excludes_strict_and_compile(word: str) -> None:
    config = TrainingConfig(steps=1, sharding="full")
    with pytest.raises(
        InputError, match=rf"^training\.{word} must be left out with training\.sharding"
    ):
        replace(config, **{word: True})

"""A model that does not fit into memory is an error before any memory is allocated."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import jumok
from benchmarks.trust.fuzz_corpus import write_run
from jumok.device import memory_bytes
from jumok.errors import InputError
from jumok.models import Encoder, EncoderDecoder, TransformerConfig
from jumok.models.size import MIN_LAYER_BYTES, min_bytes, min_parameter_count
from jumok.models.weights import named_weights
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.runs.new_model import check_memory
from jumok.training.config import TrainingConfig
from tests.cli.commands import call
from tests.errors import raises

Capture = pytest.CaptureFixture[str]
SMALL = {"vocabulary_size": 30, "d_model": 16, "n_heads": 2, "d_ff": 64, "n_layers": 3}
STEPS = TrainingConfig(steps=1)
GIANT = ("model.d_model=65536", "model.d_ff=65536", "model.n_heads=8", "model.n_layers=64")


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative"])
def test_the_minimum_size_is_a_lower_bound(positions: str) -> None:
    config = TransformerConfig(**SMALL, positions=positions, max_length=100)  # type: ignore[arg-type]
    for model in (Encoder(config), EncoderDecoder(config)):
        n_weights = sum(p.numel() for p in named_weights(model).values())
        tables = {id(b): b.numel() for b in model.buffers()}
        assert n_weights * 0.4 < min_parameter_count(config) <= n_weights + sum(tables.values())


def test_narrow_layers_need_memory() -> None:
    config = TransformerConfig(vocabulary_size=8, d_model=1, n_heads=1, d_ff=1, n_layers=2**31)
    assert min_bytes(config) > MIN_LAYER_BYTES * 2**31


@pytest.mark.parametrize(
    "sizes",
    [
        {"d_model": 2**20, "n_heads": 8},
        {"n_layers": 2**31},
        {"d_ff": 2**31},
        {"max_length": 2**31, "positions": "learned"},
        {"vocabulary_size": 2**31},
        {"d_head": 2**31},
    ],
)
def test_each_hyperparameter_may_be_too_large(sizes: dict[str, int]) -> None:
    with raises(InputError, "run.model_too_large"):
        check_memory(ModelConfig(**SMALL | sizes), STEPS)  # type: ignore[arg-type]


def test_frozen_weights_need_less_memory() -> None:
    rows = memory_bytes() // 2 // (4 * 16)
    config = ModelConfig(**SMALL | {"vocabulary_size": min(rows, 2**31)})
    check_memory(config, TrainingConfig(steps=1, freeze=("encoder",)))
    if rows < 2**31:
        with pytest.raises(InputError):
            check_memory(config, STEPS)


@pytest.mark.parametrize("overrides", [(), ("--dry-run",)])
def test_a_recipe_with_a_trillion_parameters(
    capsys: Capture, review_recipe: Path, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    out = () if overrides else ("--out", tmp_path / "run")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = call(capsys, "train", review_recipe, *GIANT, *overrides, *out)
    assert (done.code, done.out) == (2, "")
    sentence = done.err.splitlines()[-1]
    assert "1,649,2" in sentence
    assert "reduce model.d_model" in sentence
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000
    assert not (tmp_path / "run").exists()


FORGED = """
import sys, resource, jumok
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30,) * 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    jumok.load(sys.argv[1])
except jumok.errors.InputError as error:
    print(error)
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 300_000
"""


@pytest.mark.slow
def test_a_run_with_a_forged_config(tmp_path: Path) -> None:
    """Its recipe and its config.json agree, and both were forged: 4 x 10^9 parameters."""
    run = write_run(tmp_path / "run")
    tree = json.loads((run / "config.json").read_text(encoding="utf-8"))
    d_ff = tree["model"]["d_ff"]
    tree["model"]["d_ff"] = 2**28
    (run / "config.json").write_text(json.dumps(tree), encoding="utf-8")
    recipe = run / "recipe.toml"
    text = recipe.read_text(encoding="utf-8")
    assert f"d_ff = {d_ff}\n" in text
    recipe.write_text(text.replace(f"d_ff = {d_ff}\n", f"d_ff = {2**28}\n"), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"config\.json must describe the stored weights, got a model of at least"
    ):
        jumok.load(run)
    done = subprocess.run(
        [sys.executable, "-c", FORGED, str(run)], capture_output=True, text=True, check=False
    )
    assert "got a model of at least" in done.stdout, done.stderr
    assert done.returncode == 0

"""Runs, checkpoints, imported folders and traces that the first format wrote still work.

`fixtures/format1` was written by the code before the names changed: tiny runs, one of them stopped
by SIGTERM at step 46 of 120, imported random checkpoints, traces, and the outputs of that code.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch

import jumok
from jumok.migrations import RENAMED_KEYS, migrate_recipe, rename_tensors
from jumok.safetensors_io import deserialize
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.train import resume

FOLDER = Path(__file__).parent / "fixtures" / "format1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
TOLERANCE = 2e-5  # of probabilities and logits: other processors sum in another order


@pytest.mark.parametrize(
    "name", ["seq2seq_finished", "classifier_finished", "masked_lm_finished", "causal_lm_finished"]
)
def test_a_finished_run_gives_the_same_answers(name: str) -> None:
    pipeline = jumok.load(str(FOLDER / name))
    for expected in EXPECTED[name]:
        output = pipeline(expected["text"])
        if "label" in expected:
            assert output.label == expected["label"]
            assert output.probability == pytest.approx(expected["probability"], abs=TOLERANCE)
        else:
            assert output.output == expected["output"]
            assert output.score == pytest.approx(expected["score"], rel=1e-4)


@pytest.mark.parametrize("name", ["imported_bert", "imported_marian", "imported_t5"])
def test_an_imported_checkpoint_gives_the_same_logits(name: str) -> None:
    decoder = {} if name == "imported_bert" else {"decoder_input_ids": torch.tensor([[7, 8, 3]])}
    logits = jumok.load(str(FOLDER / name)).logits(torch.tensor([[5, 9, 11, 30, 2]]), **decoder)
    assert logits[0, -1, :8].tolist() == pytest.approx(EXPECTED[name], abs=TOLERANCE)


def test_the_recipe_of_a_run_is_translated() -> None:
    recipe = Run(FOLDER / "seq2seq_finished").recipe()
    assert recipe.training.gradient_accumulation_steps == 2
    assert recipe.training.log_every == 5
    assert recipe.training.ema_decay == 0.9
    assert recipe.training.on_nonfinite == "skip"
    assert recipe.training.spike_factor == 50.0
    assert recipe.training.activation_checkpointing
    assert recipe.augmentation.rdrop_alpha == 1.0  # the paper's alpha is twice the former value
    assert recipe.decoding.early_stopping is False
    assert recipe.decoding.kernel == "auto"
    assert Run(FOLDER / "masked_lm_finished").recipe().masking.mlm_probability == 0.2


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for keys in RENAMED_KEYS.values() for key in keys])
@pytest.mark.parametrize("value", [[[]], [1], {}])
def test_a_value_of_a_wrong_type_is_left_to_the_reader(key: str, value: object) -> None:
    table, _, name = key.partition(".")
    (converted,) = migrate_recipe({table: {name: value}})[table].values()
    assert converted == value


def test_an_interrupted_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    """Identical bits on the processor of the fixture; on others the loss within 2 %."""
    run = tmp_path / "run"
    shutil.copytree(FOLDER / "seq2seq_interrupted", run)
    resume(run)
    written = deserialize((FOLDER / "seq2seq_finished" / "model.safetensors").read_bytes())
    expected = rename_tensors(written, 1)
    weights = Run(run).read_weights()
    assert weights.keys() == expected.keys()
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    dev_loss = [record["loss"] for record in records if record["kind"] == "dev"][-1]
    assert dev_loss == pytest.approx(EXPECTED["final_dev_loss"], rel=0.02)
    if EXPECTED["machine"] == {"torch": torch.__version__, "processor": _processor()}:
        for name, weight in weights.items():
            assert torch.equal(weight, expected[name]), name


def _processor() -> str:
    """Vendor, family and model of the processor on Linux; "" elsewhere."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    fields = dict(reversed([map(str.strip, line.split(":", 1)) for line in lines if ":" in line]))
    return " ".join(fields.get(key, "") for key in ("vendor_id", "cpu family", "model"))


@pytest.mark.parametrize("name", ["seq2seq", "classifier"])
def test_a_trace_opens(name: str) -> None:
    trace = jumok.Trace.open(FOLDER / f"trace_{name}.safetensors")
    weights = trace.weights("encoder", layer=0)
    torch.testing.assert_close(
        torch.as_tensor(weights).sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0
    )

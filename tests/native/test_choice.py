"""The kernel "auto" depends on the processor, the model and the precision; warnings come once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from jumok.models import EncoderDecoder, TransformerConfig
from jumok.native import choice
from jumok.native.build import KernelError
from jumok.native.choice import FASTER, choose_kernel
from jumok.native.instruction_sets import INSTRUCTION_SETS, InstructionSet, usable
from jumok.native.packed_weights import PRECISIONS, DecoderPrecision

CONFIG = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
BEST = usable()[0].name


@pytest.fixture(autouse=True)
def _warnings_again() -> None:
    choice.warned.clear()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is there."""
    monkeypatch.setattr(choice, "compiled_kernel", lambda: Path("kernel.so"))
    monkeypatch.setattr(choice, "kernel_path", lambda: Path("kernel.so"))


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is neither a kernel nor a compiler."""

    def no_compiler() -> None:
        raise KernelError("test.error", "no compiler was found")

    monkeypatch.setattr(choice, "compiled_kernel", lambda: None)
    monkeypatch.setattr(choice, "kernel_path", no_compiler)


def model() -> EncoderDecoder:
    return EncoderDecoder(CONFIG)


def on_processor(monkeypatch: pytest.MonkeyPatch, found: InstructionSet) -> None:
    monkeypatch.setattr(choice, "best_instruction_set", lambda: found)


def test_every_instruction_set_has_an_entry() -> None:
    assert FASTER.keys() == {each.name for each in INSTRUCTION_SETS}


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("found", INSTRUCTION_SETS, ids=lambda found: found.name)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_auto_is_native_where_it_is_faster(
    found: InstructionSet, precision: DecoderPrecision, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_processor(monkeypatch, found)
    chosen = choose_kernel(model(), "auto", precision)
    assert chosen.kernel == ("native" if precision in FASTER[found.name] else "torch")
    assert found.name in chosen.reason


@pytest.mark.skipif("float32" not in FASTER[BEST], reason="no kernel is faster on this processor")
@pytest.mark.usefixtures("missing")
def test_auto_without_a_kernel_is_torch(caplog: pytest.LogCaptureFixture) -> None:
    chosen = choose_kernel(model(), "auto")
    assert chosen.kernel == "torch"
    assert chosen.reason == (
        f"no kernel for {BEST} is compiled; compile it with python -m jumok.native.build"
    )
    assert caplog.text == ""
    for _ in range(2):
        assert choose_kernel(model(), "auto", "int8").reason == "no compiler was found"
    assert [record.getMessage() for record in caplog.records] == [
        "decoding.precision=int8 is slower than float32 in PyTorch (no compiler was found); leave "
        "it out, or make the C++ kernel available"
    ]
    with pytest.raises(KernelError, match="no compiler was found"):
        choose_kernel(model(), "native")


@pytest.mark.usefixtures("compiled")
def test_a_slower_request_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on_processor(monkeypatch, next(each for each in INSTRUCTION_SETS if each.name == "generic"))
    for _ in range(2):
        assert choose_kernel(model(), "native").kernel == "native"
    (record,) = caplog.records
    assert record.getMessage() == (
        'decoding.kernel="native" is slower than PyTorch in float32 on generic; leave it at "auto"'
    )


def test_emulated_bfloat16_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choice, "has_fast_bfloat16", lambda device: False)
    for _ in range(2):
        assert choose_kernel(model(), "torch", "bfloat16").kernel == "torch"
    (record,) = caplog.records
    assert "bfloat16 is slower than float32 on this processor" in record.getMessage()
    monkeypatch.setattr(choice, "has_fast_bfloat16", lambda device: True)
    choice.warned.clear()
    choose_kernel(model(), "torch", "bfloat16")
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("compiled")
def test_what_the_kernel_does_not_cover_is_torch() -> None:
    assert choose_kernel(model(), "torch").reason == 'decoding.kernel is "torch"'
    assert "reads attention weights" in choose_kernel(model(), coverage=True).reason
    assert "the model is on meta" in choose_kernel(model().to("meta")).reason
    hooked = model()
    hooked.decoder.register_forward_hook(lambda *_: None)
    assert "does not call hooks" in choose_kernel(hooked).reason
    assert "got Linear" in choose_kernel(nn.Linear(1, 1)).reason


@pytest.mark.slow
@pytest.mark.parametrize("cap", [each.name for each in usable()])
def test_jumok_cpu_caps_the_choice(cap: str, reading_run: Path) -> None:
    """A real process under each cap: --timing names the choice, and the answer is the same."""
    command = [sys.executable, "-m", "jumok", "predict", str(reading_run), "삼 일 오", "--json"]
    environment = {**os.environ, "JUMOK_CPU": cap, "OMP_NUM_THREADS": "1"}
    plain, auto = (
        subprocess.run(
            [*command, "--timing", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        for words in (["--decoding", "kernel=torch"], ["--decoding", "kernel=auto"])
    )
    answer, expected = json.loads(auto.stdout), json.loads(plain.stdout)
    assert answer["output"] == expected["output"]
    assert answer["score"] == pytest.approx(expected["score"], rel=1e-4, abs=1e-4)
    timing = json.loads(auto.stderr.splitlines()[-1])["timing"]
    assert cap in timing["kernel"]["reason"]
    assert timing["kernel"]["kernel"] in (["native", "torch"] if FASTER[cap] else ["torch"])
    assert 0 < timing["open_seconds"] < timing["first_answer_seconds"] <= timing["total_seconds"]
    assert timing["texts"] == 1

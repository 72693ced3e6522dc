"""A run generates the same with the native kernel, also with a pattern or choices."""

from pathlib import Path

import pytest
import torch

import jumok
from jumok.decoding import DecodingConfig
from jumok.errors import InputError
from jumok.inference import optimize
from jumok.native import KernelError, build, library
from jumok.native.choice import FASTER
from jumok.native.instruction_sets import best_instruction_set
from jumok.pretrained import memory_map
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.load import load
from jumok.tasks.runs.train import train
from tests.combinations import singly
from tests.errors import raises
from tests.tiny_runs import readings

SPOKEN = [spoken for spoken, _ in readings(12, 5)]


@pytest.mark.parametrize(
    ("precision", "search"),
    singly(["float32", "bfloat16", "int8", "q8_0", "q4_0"], ["beam=1", "beam=3"]),
)
def test_the_native_kernel_generates_the_same(
    reading_run: Path, precision: str, search: str
) -> None:
    loaded = load(reading_run, "cpu")
    reference = ["kernel=torch", f"precision={precision}"] if precision == "q4_0" else []
    plain = loaded.with_decoding([search, *reference]).predict(SPOKEN)
    overrides = [search, "kernel=native", f"precision={precision}"]
    native = loaded.with_decoding(overrides).predict(SPOKEN)
    same = sum(a.display == b.display for a, b in zip(native, plain, strict=True))
    least = {"float32": len(SPOKEN), "q4_0": 6}  # of 12; the run is small
    assert same >= least.get(precision, 10)
    if precision == "float32":  # the order of sums differs, nothing else
        for actual, reference in zip(native, plain, strict=True):
            assert vars(actual)["score"] == pytest.approx(
                vars(reference)["score"], rel=1e-4, abs=1e-4
            )


@pytest.mark.parametrize(
    ("precision", "search"), singly(["bfloat16", "int8", "q8_0", "q4_0"], ["beam=1", "beam=3"])
)
def test_lower_precision_needs_no_compiler(
    reading_run: Path, precision: str, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "kernel_path", lambda: pytest.fail("it was compiled"))
    loaded = load(reading_run, "cpu")
    plain = loaded.with_decoding([search]).predict(SPOKEN)
    small = loaded.with_decoding([search, "kernel=torch", f"precision={precision}"])
    copy = small.backends.model_in_precision(loaded.model)
    assert copy is not loaded.model
    assert small.backends.model_in_precision(loaded.model) is copy
    requests: list[object] = []
    copy.get_submodule("decoder").register_forward_hook(lambda *given: requests.append(given))
    same = sum(a.display == b.display for a, b in zip(small.predict(SPOKEN), plain, strict=True))
    assert same >= (6 if precision == "q4_0" else 10)  # of 12; the run knows little
    assert requests
    assert next(loaded.model.parameters()).dtype is torch.float32
    fast = small.with_models(lambda model: optimize(model, "float32"))
    with raises(InputError, "pipeline.two_precisions"):
        fast.predict(SPOKEN)


def test_an_optimized_encoder_is_not_packed_again(reading_run: Path) -> None:
    loaded = load(reading_run, "cpu").with_decoding(["kernel=native"])
    fast = loaded.with_models(lambda model: optimize(model, "float32"))
    with pytest.raises(KernelError, match="is already optimized; leave"):
        fast.predict(SPOKEN)


def test_one_native_model_is_used_for_all_requests(reading_run: Path) -> None:
    loaded = load(reading_run, "cpu").with_decoding(["kernel=native"])
    first = loaded.backends._native_model(loaded.model)
    loaded.predict(SPOKEN)
    assert loaded.backends._native_model(loaded.model) is first


def test_the_default_is_the_kernel_where_it_is_faster(compiled: Path, reading_run: Path) -> None:
    loaded = load(reading_run, "cpu")
    fast = "float32" in FASTER[best_instruction_set().name]
    assert loaded.kernel.kernel == ("native" if fast else "torch")
    assert loaded.backends.is_native(loaded.model) == fast
    alone = [vars(loaded(text)) for text in SPOKEN]
    assert not fast or [vars(each) for each in loaded.predict(SPOKEN)] == alone


def test_a_hooked_model_decodes_with_pytorch(reading_run: Path) -> None:
    """`record` sees the attention weights of a run that the kernel decodes otherwise."""
    loaded = load(reading_run, "cpu")
    before = loaded.predict(SPOKEN)
    with jumok.record(loaded.model) as weights:
        recorded = loaded.predict(SPOKEN)
    assert weights
    assert [one.display for one in recorded] == [one.display for one in before]
    assert vars(loaded.predict(SPOKEN)[0]) == vars(before[0])


@pytest.mark.parametrize("kernel", ["auto", "native"])
def test_changed_weights_are_packed_again(reading_run: Path, kernel: str) -> None:
    loaded = load(reading_run, "cpu").with_decoding([f"kernel={kernel}"])
    loaded.predict(SPOKEN)
    with torch.no_grad():
        loaded.model.output.weight.mul_(1.5)
    plain = loaded.with_decoding(["kernel=torch"]).predict(SPOKEN)
    for one, expected in zip(loaded.predict(SPOKEN), plain, strict=True):
        assert vars(one)["score"] == pytest.approx(vars(expected)["score"], rel=1e-4, abs=1e-4)


def test_other_settings_share_the_packed_weights(reading_run: Path) -> None:
    loaded = load(reading_run, "cpu").with_decoding(["kernel=native"])
    first = loaded.backends._native_model(loaded.model)
    wide = loaded.with_decoding(["beam=2"])
    assert wide.backends._native_model(loaded.model) is first
    small = loaded.with_decoding(["precision=int8"])
    assert small.backends._native_model(loaded.model) is not first
    assert loaded.refreshed().backends._native_model(loaded.model) is not first


def test_packed_weights_are_released(reading_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory-mapped weight is in memory once, in packed form."""
    put: list[int] = []
    monkeypatch.setattr(memory_map, "release_pages", lambda weight: put.append(weight.data_ptr()))
    loaded = load(reading_run, "cpu").with_decoding(["kernel=native"])
    loaded.predict(SPOKEN)
    assert loaded.model.output.weight.data_ptr() in put


def test_an_invalid_pattern_is_an_error(reading_run: Path) -> None:
    with pytest.raises(InputError, match=r"\("):
        load(reading_run, "cpu").with_decoding(["pattern=(1"]).predict(["일"])


def test_an_unavailable_kernel_is_an_error_before_the_training(
    reading_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.kernel_path.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # without a compiled kernel
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with raises(KernelError, "kernel.no_compiler"):
        train(load_recipe(str(reading_recipe), ["decoding.kernel=native"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (DecodingConfig(precision="int8"), "decoding.precision int8"),
        (DecodingConfig(precision="q4_0"), "decoding.precision q4_0"),
        (DecodingConfig(kernel="native"), 'decoding.kernel "native"'),
        (DecodingConfig(precision="bfloat16"), None),
    ],
)
def test_cpu_only_settings_are_an_error_before_the_training(
    config: DecodingConfig, setting: str | None
) -> None:
    kernels = DecoderBackends(config)
    if setting is None:
        kernels.check_available(torch.device("cuda"))
        return
    with pytest.raises(InputError, match=f"^{setting} needs a model on the CPU"):
        kernels.check_available(torch.device("cuda"))

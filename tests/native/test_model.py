"""Which models NativeModel supports, and how it packs their weights."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from jumok.errors import InputError
from jumok.models import TextClassifier
from jumok.native import (
    KernelError,
    NativeDecoder,
    NativeModel,
    packed_weights,
    unsupported_reason,
)
from jumok.native.packed_weights import PRECISIONS, DecoderPrecision
from jumok.nn import record
from tests.errors import raises
from tests.native.conftest import KINDS, config, encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize("kind", KINDS)
def test_every_config_is_supported(kind: str) -> None:
    assert unsupported_reason(encoder_decoder(kind)) is None
    assert unsupported_reason(language_model(kind)) is None


def test_unsupported_models_raise_kernel_error() -> None:
    with pytest.raises(KernelError, match="got TextClassifier"):
        NativeModel(TextClassifier(config(), n_labels=2))
    model = language_model()
    with record(model), pytest.raises(KernelError, match="does not call hooks, got a hook on"):
        NativeModel(model)
    model.decoder.stack.layers[0].feed_forward.up = nn.Bilinear(1, 1, 1)
    with pytest.raises(KernelError, match=r"does not support the Bilinear at .*feed_forward\.up"):
        NativeModel(model)
    with raises(InputError, "config.wrong_type"):
        NativeModel(language_model(), "int4")  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["output.weight", "decoder.embedding.norm.weight"])
def test_weights_that_are_not_finite_are_not_packed(precision: DecoderPrecision, name: str) -> None:
    model = language_model("untied")
    for value in (torch.inf, torch.nan, 3.4e38 if precision == "bfloat16" else -torch.inf):
        with torch.no_grad():
            model.get_parameter(name).view(-1)[-1] = value
        if value == 3.4e38 and "norm" in name:  # a vector stays in float32
            continue
        with raises(InputError, "model.weights_not_finite"):
            NativeModel(model, precision)


def test_packed_weights_are_independent_of_the_model() -> None:
    model = language_model()
    native = NativeModel(model, "float32")
    ids = torch.tensor([[5, 6]])
    before = NativeDecoder(native, capacity=4).step(ids)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    del model
    decoder = NativeDecoder(native, capacity=4)
    del native
    assert torch.equal(decoder.step(ids), before)


def test_bfloat16_model_is_supported() -> None:
    model = language_model().bfloat16()
    logits = NativeDecoder(NativeModel(model, "bfloat16"), capacity=4).step(torch.tensor([[5]]))
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_packing_in_parts_gives_the_same_weights(
    precision: DecoderPrecision, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ids = language_model(), torch.tensor([[5, 6, 7]])
    whole = NativeDecoder(NativeModel(model, precision), capacity=4).step(ids)
    monkeypatch.setattr(packed_weights, "_ROWS_PER_UPLOAD", 10)  # of 77, 24 and 50 rows
    assert torch.equal(NativeDecoder(NativeModel(model, precision), capacity=4).step(ids), whole)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_on_packed_is_called_once_per_matrix(precision: DecoderPrecision) -> None:
    for model in (language_model(), encoder_decoder()):
        packed: list[int] = []
        NativeModel(
            model,
            precision,
            on_packed=lambda weight, packed=packed: packed.append(weight.data_ptr()),
        )
        modules = [part for part in model.modules() if isinstance(part, nn.Linear)]
        assert set(packed) >= {part.weight.data_ptr() for part in modules}
        assert len(set(packed)) == len(packed)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory as Linux reports it")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_packing_makes_no_second_copy(precision: DecoderPrecision) -> None:
    code = f"""
import resource, torch
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import NativeModel
def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
torch.set_num_threads(1)
small = dict(n_layers=1, d_model=256, d_ff=256, tie_embeddings="none")
NativeModel(LanguageModel(TransformerConfig(vocabulary_size=9, **small)), "{precision}")
model = LanguageModel(TransformerConfig(vocabulary_size=100_000, **small))
before = peak()
print(NativeModel(model, "{precision}").weight_bytes, peak() - before)
"""
    weights, grown = map(int, run_python(code).split())
    assert weights > 25e6  # two tables of 25.6 million weights, of 4.5 bits or more
    assert grown < weights + 15e6


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="sets a memory limit of Linux")
@pytest.mark.parametrize("threads", [1, 4])
def test_out_of_memory_while_packing_raises_jumok_error(threads: int) -> None:
    """The process does not abort; if no thread can be started, the work runs serially."""
    code = f"""
import resource, torch
from jumok.errors import JumokError
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import NativeModel, NativeDecoder
from jumok.native.library import library
library()
torch.set_num_threads(1)
model = LanguageModel(TransformerConfig(vocabulary_size=60_000, n_layers=1, d_model=256))
small = NativeDecoder(NativeModel(LanguageModel(TransformerConfig(vocabulary_size=9))), capacity=2)
status = open("/proc/self/status").read().split()
used = 1024 * int(status[status.index("VmSize:") + 1])
resource.setrlimit(resource.RLIMIT_AS, (used + 12 * 2**20,) * 2)
torch.set_num_threads({threads})
print(tuple(small.step(torch.tensor([[5, 6]])).shape))
try:
    NativeModel(model, "float32")
except JumokError as error:
    print(error)
"""
    output = run_python(code)
    assert output.startswith("(1, 9)\nmemory ran out while the weights of output were packed")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="sets a memory limit of Linux")
@pytest.mark.parametrize("threads", [1, 4])
def test_out_of_memory_in_a_step_disables_the_decoder(threads: int) -> None:
    code = f"""
import resource, torch
from jumok.errors import JumokError
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import NativeModel, NativeDecoder
torch.set_num_threads({threads})
native = NativeModel(LanguageModel(TransformerConfig(vocabulary_size=9, n_layers=1)))
NativeDecoder(native, capacity=2).step(torch.tensor([[5, 6]]))
many, decoder = torch.ones(100_000, 1, dtype=torch.int64), NativeDecoder(native, capacity=2)
status = open("/proc/self/status").read().split()
used = 1024 * int(status[status.index("VmSize:") + 1])
resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
for _ in range(2):
    try:
        decoder.step(many)
    except JumokError as error:
        print(error)
print(tuple(NativeDecoder(native, capacity=2).step(torch.tensor([[5, 6]])).shape))
"""
    assert run_python(code).splitlines() == [
        "memory ran out while decoding; decode fewer rows at once",
        "memory ran out in an earlier step; start again with a new decoder",
        "(1, 9)",
    ]


def run_python(code: str) -> str:
    """The stdout of a separate Python process."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    ).stdout

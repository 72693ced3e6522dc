"""Which models the kernel takes, and that its copy is one."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from jumok.models import TextClassifier
from jumok.native import KernelError, NativeDecoder, NativeModel, unsupported_reason
from jumok.native import packed_weights as packing
from jumok.native.packed_weights import PRECISIONS, WeightPrecision
from jumok.nn import record
from tests.native.conftest import KINDS, config, encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize("kind", KINDS)
def test_every_config_is_taken(kind: str) -> None:
    assert unsupported_reason(encoder_decoder(kind)) is None
    assert unsupported_reason(language_model(kind)) is None


def test_what_the_kernel_cannot_write_with_is_refused() -> None:
    with pytest.raises(KernelError, match="a TextClassifier came"):
        NativeModel(TextClassifier(config(), n_labels=2))
    model = language_model()
    with record(model), pytest.raises(KernelError, match="watched, and the fast kernel shows"):
        NativeModel(model)
    model.decoder.stack.layers[0].feed_forward.up = nn.Bilinear(1, 1, 1)
    with pytest.raises(KernelError, match=r"feed_forward\.up is a Bilinear"):
        NativeModel(model)
    with pytest.raises(KernelError, match="precision 'int4' is unknown"):
        NativeModel(language_model(), "int4")  # type: ignore[arg-type]


def test_the_copy_outlives_the_model_and_does_not_follow_it() -> None:
    model = language_model()
    native = NativeModel(model, "float32")
    ids = torch.tensor([[5, 6]])
    before = NativeDecoder(native, capacity=4).step(ids)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    del model
    writer = NativeDecoder(native, capacity=4)
    del native
    assert torch.equal(writer.step(ids), before)


def test_a_model_in_bfloat16_is_taken_too() -> None:
    model = language_model().bfloat16()
    logits = NativeDecoder(NativeModel(model, "bfloat16"), capacity=4).step(torch.tensor([[5]]))
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_given_by_parts_are_the_same(
    precision: WeightPrecision, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ids = language_model(), torch.tensor([[5, 6, 7]])
    whole = NativeDecoder(NativeModel(model, precision), capacity=4).step(ids)
    monkeypatch.setattr(packing, "_ROWS", 10)  # of 77 tokens, of 24 and 50 outputs
    assert torch.equal(NativeDecoder(NativeModel(model, precision), capacity=4).step(ids), whole)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_matrix_is_told_of_when_it_is_packed(precision: WeightPrecision) -> None:
    for model in (language_model(), encoder_decoder()):
        told: list[int] = []
        NativeModel(
            model, precision, on_packed=lambda weight, told=told: told.append(weight.data_ptr())
        )
        modules = [part for part in model.modules() if isinstance(part, nn.Linear)]
        assert set(told) >= {part.weight.data_ptr() for part in modules}
        assert len(set(told)) == len(told)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is Linux's")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_packing_holds_no_second_copy(precision: WeightPrecision) -> None:
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
    weights, grown = map(int, in_a_process(code).split())
    assert weights > 50e6  # two tables of 25.6 million numbers
    assert grown < weights + 15e6


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.parametrize("threads", [1, 4])
def test_weights_that_memory_does_not_hold_are_an_error(threads: int) -> None:
    """No abort of the process; and with threads that cannot be had the work is done without."""
    code = f"""
import resource, torch
from jumok.errors import JumokError
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import NativeModel, NativeWriter
from jumok.native.library import library
library()
torch.set_num_threads(1)
model = LanguageModel(TransformerConfig(vocabulary_size=60_000, n_layers=1, d_model=256))
small = NativeWriter(NativeModel(LanguageModel(TransformerConfig(vocabulary_size=9))), room=2)
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
    written = in_a_process(code)
    assert written.startswith("(1, 9)\nmemory ran out while the weights of output were packed")


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.parametrize("threads", [1, 4])
def test_a_step_that_memory_does_not_hold_ends_the_writer(threads: int) -> None:
    code = f"""
import resource, torch
from jumok.errors import JumokError
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import NativeModel, NativeWriter
torch.set_num_threads({threads})
native = NativeModel(LanguageModel(TransformerConfig(vocabulary_size=9, n_layers=1)))
NativeWriter(native, room=2).step(torch.tensor([[5, 6]]))
many, writer = torch.ones(100_000, 1, dtype=torch.int64), NativeWriter(native, room=2)
status = open("/proc/self/status").read().split()
used = 1024 * int(status[status.index("VmSize:") + 1])
resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
for _ in range(2):
    try:
        writer.step(many)
    except JumokError as error:
        print(error)
print(tuple(NativeWriter(native, room=2).step(torch.tensor([[5, 6]])).shape))
"""
    assert in_a_process(code).splitlines() == [
        "memory ran out while writing; write fewer rows at once",
        "memory ran out in an earlier step; begin anew with a new writer",
        "(1, 9)",
    ]


def in_a_process(code: str) -> str:
    """What a program of its own prints."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    ).stdout

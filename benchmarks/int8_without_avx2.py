"""The encoder of ko-small-vectors on 64 tokens with no newer instructions than SSE4.

    JUMOK_CPU=generic ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 \
        MKL_ENABLE_INSTRUCTIONS=SSE4_2 python benchmarks/int8_without_avx2.py

Prints the least processor time of 40 calls on one thread.
"""

import time
from collections.abc import Callable

import torch

import jumok
from jumok.models import Encoder
from jumok.native import NativeEncoder
from jumok.native.quantize import quantize_int8
from jumok.native.threads import set_kernel_threads

T = 64


def milliseconds(call: Callable[[], object]) -> float:
    """The least processor time."""
    times = []
    for _ in range(40):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return 1000 * min(times)


@torch.no_grad()
def main() -> None:
    """Print the four times."""
    torch.set_num_threads(1)
    set_kernel_threads(1)
    model = jumok.load("ko-small-vectors").model
    stack = next(part for part in model.modules() if isinstance(part, Encoder)).stack
    x, places = torch.randn(T, 256, generator=torch.Generator().manual_seed(0)), torch.arange(T)
    kernels = {name: NativeEncoder(stack, 256, name) for name in ("int8", "float32")}
    for name, kernel in kernels.items():
        seconds = milliseconds(lambda: kernel(x, torch.tensor([T]), places, places))  # noqa: B023
        print(f"kernel, {name:<8} {seconds:6.1f} ms")
    for name, layers in (("float32", stack), ("int8", quantize_int8(stack))):
        seconds = milliseconds(lambda: layers(x[None], places[None]))  # noqa: B023
        print(f"PyTorch, {name:<7} {seconds:6.1f} ms")


if __name__ == "__main__":
    main()

"""Quantization and serving."""

# %% quantize
import torch

torch.manual_seed(0)
weight = torch.randn(4, 8)  # (N, K): four outputs
scale = weight.abs().amax(1, keepdim=True) / 127  # (N, 1)
quantized = (weight / scale).round().to(torch.int8)  # (N, K), -127 ... 127
error = (quantized * scale - weight).abs()  # (N, K)
assert quantized.shape == (4, 8)
assert bool((error <= scale / 2 + 1e-7).all())
print(quantized[0].tolist())
print(f"largest error / scale: {(error / scale).max():.1f}")

# %% guess-bytes
from torch import nn

from jumok.native.quantize import QuantizedLinear

linear = nn.Linear(512, 2048, bias=False)
small = QuantizedLinear(linear)
before = linear.weight.numel() * linear.weight.element_size()
after = sum(buffer.numel() * buffer.element_size() for buffer in small.buffers())
guess = 4  # guess
assert guess == round(before / after), "힌트: 32비트와 8비트 / Hint: 32 bits and 8 bits"
print(f"{before:,} bytes -> {after:,} bytes")

# %% int8
import jumok
from jumok.native.quantize import quantize_int8

model = jumok.load("note", device="cpu")
eight_bits = model.with_models(quantize_int8)
for text in ("겨울은 추워요.", "감기 조심하세요.", "나는 집으로 재빠르게 간다."):
    float32, int8 = model(text), eight_bits(text)
    assert float32.output == int8.output
    print(f"{int8.output}  score {float32.score:.2f} and {int8.score:.2f}")


# %% slip-scale
class Slipped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc_q = nn.Linear(512, 512)
        self.scale = torch.sqrt(torch.tensor(512 / 8))  # neither weight nor buffer
        self.register_buffer("mended", torch.sqrt(torch.tensor(512 / 8)))


moved = Slipped().to("meta")  # as .to("cuda"), without a GPU
assert moved.fc_q.weight.shape == (512, 512)
print(*(f"{n}: {getattr(moved, n).device.type}" for n in ("scale", "mended")))
print("saved:", *moved.state_dict())

# %% serve
import atexit
import socket
import subprocess
import sys

with socket.create_server(("127.0.0.1", 0)) as free:  # a free port
    port = free.getsockname()[1]
command = [sys.executable, "-m", "jumok", "serve", "note", "--port", str(port)]
server = subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8")
atexit.register(server.kill)
line = next(line for line in server.stderr or () if " ready " in line)  # after the time
assert server.poll() is None
print(*line.split()[1:3])

# %% request
import json
from http.client import HTTPConnection


def post(*texts: str) -> list[dict[str, object]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    kind = {"Content-Type": "application/json", "Connection": "close"}
    connection.request("POST", "/v1/predict", json.dumps({"texts": texts}), kind)
    return json.load(connection.getresponse())["answers"]


alone, together = post("겨울은 추워요."), post("감기 조심하세요.", "겨울은 추워요.")
assert alone[0] == together[1]
print([answer["output"] for answer in together])
server.terminate()
server.communicate()

# %% answer-exercises
weight = torch.randn(4, 8) * torch.tensor([[10.0], [1.0], [1.0], [1.0]])  # (N, K)
errors = {}
for name, dims in (("rows", 1), ("all", (0, 1))):
    step = weight.abs().amax(dims, keepdim=True) / 127  # (N, 1) or (1, 1)
    errors[name] = ((weight / step).round() * step - weight).abs()[1:].max()
assert errors["all"] > errors["rows"]  # of the three rows with small weights
print(f"1. {errors['all'] / errors['rows']:.0f} times as large where weights are small")
print(f"2. {127 / 7:.1f} times")

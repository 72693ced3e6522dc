"""Feed-forward, Add & Norm."""

# %% feed-forward
import torch

from jumok.nn import PositionwiseFeedForward

torch.manual_seed(0)
x = torch.randn(2, 8, 128)  # (B, T, D): two sentences, eight tokens, width 128
ffn = PositionwiseFeedForward(128, 512).eval()
inner = x @ ffn.up.weight.T + ffn.up.bias  # (B, T, F)
output = inner.clamp(min=0) @ ffn.down.weight.T + ffn.down.bias  # (B, T, D)
assert inner.shape == (2, 8, 512)
assert output.shape == (2, 8, 128)
assert torch.allclose(ffn(x), output, atol=1e-5)
print(tuple(x.shape), "->", tuple(inner.shape), "->", tuple(output.shape))

# %% conv1d
from torch import nn

conv1, conv2 = nn.Conv1d(128, 512, kernel_size=1), nn.Conv1d(512, 128, kernel_size=1)
for conv, linear in ((conv1, ffn.up), (conv2, ffn.down)):
    conv.load_state_dict({"weight": linear.weight[..., None], "bias": linear.bias})
channels_first = conv1(x.transpose(1, 2))  # (B, F, T)
by_convolution = conv2(channels_first.relu()).transpose(1, 2)  # (B, T, D)
assert channels_first.shape == (2, 512, 8)
assert by_convolution.shape == (2, 8, 128)
assert torch.allclose(by_convolution, output, atol=1e-5)
print("Conv1d", tuple(channels_first.shape), " Linear", tuple(inner.shape))

# %% guess-changed
changed = x.clone()
changed[0, 3] += 1  # one token of the first sentence
differs = (ffn(changed) - ffn(x)).abs().amax(-1) > 1e-6  # (B, T)
guess = 1  # guess
assert guess == int(differs.sum()), (
    "힌트: 식 (2)에서 다른 위치의 x를 찾아보세요. / Hint: look for another position in (2)."
)
print(differs.int())

# %% add-norm
from jumok.nn import LayerConfig, ResidualNorm

add_norm = ResidualNorm(LayerConfig(d_model=128, n_heads=2, d_ff=512)).eval()
h = x + ffn(x)  # Add (B, T, D)
mean = h.mean(-1, keepdim=True)  # (B, T, 1)
variance = h.var(-1, correction=0, keepdim=True)  # (B, T, 1)
normed = (h - mean) / (variance + 1e-5).sqrt()  # Norm with gamma 1 and beta 0
assert mean.shape == (2, 8, 1)
assert normed.shape == (2, 8, 128)
assert torch.allclose(add_norm(x, ffn), normed, atol=1e-5)
for name, row in (("x + F(x)", h[0, 0]), ("norm    ", normed[0, 0])):
    print(f"{name} mean {row.mean().abs():.2f} std {row.std(correction=0):.2f}")


# %% residual
def gradient(n_layers: int, residual: bool) -> float:
    torch.manual_seed(0)
    start = torch.randn(1, 8, 128, requires_grad=True)
    y = start
    for _ in range(n_layers):
        layer = PositionwiseFeedForward(128, 512)
        y = y + layer(y) if residual else layer(y)
    [slope] = torch.autograd.grad((y * torch.randn_like(y)).sum(), start)
    return float(slope.norm())


for n in (1, 6, 12):
    plain, added = gradient(n, residual=False), gradient(n, residual=True)
    print(f"{n:2d} layers: F(x) {plain:.0e}, x + F(x) {added:.0e}")


# %% slip-compare
layers = nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128)


class Slipped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear == nn.Sequential(*layers)


try:
    Slipped()
except AttributeError as error:
    print("AttributeError:", error)
mended = nn.Sequential(*layers)  # with a single =
assert mended(x).shape == (2, 8, 128)
print("mended:", sum(weight.numel() for weight in mended.parameters()), "weights")

# %% answer-exercises
paper = PositionwiseFeedForward(512, 2048)
print("1.", sum(weight.numel() for weight in paper.parameters()))
norm = nn.LayerNorm(128)
assert torch.allclose(norm(10 * x), norm(x), atol=1e-4)
print("2. by 1: mean and standard deviation are ten times as large too")

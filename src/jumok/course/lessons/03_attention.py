"""Attention in one line: equation (1) of the paper, by hand and with the model "note"."""

# %% three-tokens
import torch

tokens = ["겨울은", "정말", "추워요"]
x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # (T, D)
query, key, value = x, x, x
scores = query @ key.T  # (T, S)
assert x.shape == (3, 2)
assert scores.shape == (3, 3)

# %% guess-score
guess = 2.0  # guess
assert guess == scores[2, 2].item(), "힌트: 1·1 + 1·1 / Hint: 1·1 + 1·1"
print(scores)

# %% softmax
weights = (scores / 2**0.5).softmax(-1)  # (T, S)
context = weights @ value  # (T, D)
assert torch.allclose(weights.sum(-1), torch.ones(3))
assert context.shape == x.shape
for token, row in zip(tokens, weights.tolist(), strict=True):
    print(token, [round(weight, 3) for weight in row])

# %% slip-scale
torch.manual_seed(0)
q, k = torch.randn(1000, 128), torch.randn(1000, 128)  # (T, D)
for name, scale in (("1", 1.0), ("1/√64", 64**-0.5), ("1/√128", 128**-0.5)):
    scores = q @ k.T * scale  # (T, S)
    largest = scores.softmax(-1).max(-1).values.mean()
    print(f"{name:7} std {scores.std():5.2f}  max weight {largest:.3f}")

# %% one-line
from torch.nn.functional import scaled_dot_product_attention

from jumok.nn import attention_weights

q, k, v = torch.randn(3, 1, 2, 5, 16)  # 3 x (B, H, T, K)
weights = attention_weights(q, k)  # (B, H, T, S)
assert weights.shape == (1, 2, 5, 5)
assert torch.allclose(weights @ v, scaled_dot_product_attention(q, k, v), atol=1e-6)

# %% note-model
import jumok

model = jumok.load("note", device="cpu")
pieces = [model.vocabulary.piece(i) for i in model.vocabulary.encode("겨울은 추워요.")]
with jumok.record(model.model) as recorded:
    print(model("겨울은 추워요.").output)
[weights] = recorded["encoder.stack.layers.0.self_attention"]  # (B, H, T, S)
for piece, row in zip(pieces, weights[0, 0], strict=False):
    print(f"{piece:4}", [round(weight, 2) for weight in row.tolist()])

# %% picture-weights
trace = jumok.trace(model, "겨울은 추워요.")
figure = trace.figure("attention", block="encoder", layer=0, head=0)
figure

# %% answer-exercises
scores = x @ x.T  # (T, S)
even = (0 * scores).softmax(-1)
print("1. weights 1/3, output:", (even @ x)[0].numpy().round(2))
assert torch.allclose((scores + 5).softmax(-1), scores.softmax(-1))
print("2. nothing: e⁵ is a factor of every term, and cancels")
other = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])  # (S, D)
print("3.", ((scores / 2**0.5).softmax(-1) @ other)[2].numpy().round(3))

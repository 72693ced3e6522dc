"""Positions: from plain numbers to sines and cosines, and the rotation between two positions."""

# %% order-blind
import torch

from jumok.nn import MultiHeadAttention

torch.manual_seed(0)
attention = MultiHeadAttention(d_model=32, n_heads=2)
x = torch.randn(1, 4, 32)  # (B, T, D)
forwards, backwards = attention(x, x), attention(x.flip(1), x.flip(1))
assert forwards.shape == (1, 4, 32)
same = torch.allclose(forwards, backwards.flip(1), atol=1e-6)
print("same vectors in reverse:", same)


# %% slip-normalized
def normalized(index, length):
    return index / (length - 1)


print(f"length 11: {normalized(3, 11):.3f}")
print(f"length 22: {normalized(3, 22):.3f}")
assert round(normalized(3, 22), 2) != 0.15
assert normalized(3, 21) == 0.15

# %% sinusoids
from jumok.nn import sinusoids

p, i = torch.arange(4.0)[:, None], torch.arange(8)  # (T, 1), (D,)
angle = p / 10000 ** (2 * (i // 2) / 8)  # (T, D)
by_hand = torch.where(i % 2 == 0, angle.sin(), angle.cos())  # (T, D)
table = sinusoids(4, 8)  # (T, D)
assert table.shape == (4, 8)
assert torch.allclose(by_hand, table, atol=1e-6)
for row in table.tolist():
    print([round(value, 3) for value in row])

# %% guess-length
guess = 4.0  # guess
hint = "힌트: sin² + cos² = 1, 쌍이 네 개 / Hint: sin² + cos² = 1, four pairs"
assert guess == round((table[3] @ table[3]).item(), 4), hint

# %% rotation
distance, frequency = 2, 1.0
turn = torch.tensor(distance * frequency)
c, s = turn.cos(), turn.sin()
shift = torch.tensor([[c, s], [-s, c]])  # turns (sin, cos) by `distance` positions
pairs = sinusoids(10, 8)[:, :2]  # (T, 2), the pair of the highest frequency
assert torch.allclose(pairs[:-2] @ shift.T, pairs[2:], atol=1e-6)
print([[round(value, 3) for value in row] for row in shift.tolist()])

# %% similarity
table = sinusoids(64, 32)  # (T, D)
similarity = table @ table.T  # (T, T)
assert similarity.shape == (64, 64)
print([round(value, 1) for value in similarity[20, 20:26].tolist()])
print([round(value, 1) for value in similarity[40, 40:46].tolist()])

# %% picture-table
from jumok.viewer.figures.positional_comparison import positional_comparison

figure = positional_comparison(length=64, width=32)
figure

# %% answer-exercises
near = similarity[10].clone()
near[10] = 0  # itself
print("1.", near.topk(2).indices.sort().values.tolist())
assert torch.allclose(pairs[2:] @ shift, pairs[:-2], atol=1e-6)
print("2. the rotation back by two positions")

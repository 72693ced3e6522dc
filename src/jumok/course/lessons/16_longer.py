"""A paper repeated: which position encodings read numbers longer than those of the training?"""

# %% task
import torch

from jumok.data.numbers.number_words import DIGITS

PIECES = [*DIGITS.replace("영", "공"), *"0123456789", "="]


def rows(n, B=64):
    digits = torch.randint(0, 10, (B, n))
    return torch.cat([digits, torch.full((B, 1), 20), digits + 10], 1)  # (B, 2n + 1)


torch.manual_seed(0)
[row] = rows(4, B=1).tolist()
print("".join(PIECES[i] for i in row))

# %% guess-order
from dataclasses import replace

import jumok


def decoder(positions, layers=2):
    torch.manual_seed(1)
    config = jumok.TransformerConfig(
        vocabulary_size=21, d_model=32, n_heads=4, d_ff=64, n_layers=layers, dropout=0.0
    )
    config = replace(config, positions=positions, max_length=32, norm_first=True)
    return jumok.LanguageModel(config).eval()


ids = torch.tensor([[3, 7, 5, 20], [7, 3, 5, 20]])  # 삼칠오= and 칠삼오=: (2, T)
difference = decoder("none", layers=1)(ids)[:, -1].diff(dim=0).abs().max().item()
guess = True  # guess
hint = "힌트: 가중합은 순서를 압니까 / Hint: does a weighted sum know an order?"
assert guess == (difference < 1e-5), hint

# %% two-layers
difference = decoder("none", layers=2)(ids)[:, -1].diff(dim=0).abs().max().item()
print("the same answer with two layers:", difference < 1e-5)

# %% unseen
from jumok.nn.positions import LearnedPositions

model = decoder("learned")
model(rows(4)[:, :-1]).square().sum().backward()
[table] = [part for part in model.modules() if isinstance(part, LearnedPositions)]
gradient = table.weight.grad
assert gradient is not None
trained = gradient.abs().sum(1) > 0  # (max_length,)
print(trained.sum().item(), "of", len(trained), "positions have a gradient")

# %% alibi
slopes = 2.0 ** (-8 * torch.arange(1, 5) / 4)  # one for each of four heads
distance = 3 - torch.arange(4)  # of the last query to each of four keys
bias = slopes[:, None] * -distance  # (H, S), added to the scores
print(bias[0].tolist(), bias[1].tolist())


# %% train
def exact(model, n):
    ids = rows(n, B=200)
    with torch.no_grad():
        written = model(ids[:, :-1])[:, n:].argmax(-1)
    return (written == ids[:, n + 1 :]).all(1).float().mean().item()


for positions in ("rotary", "none"):
    model = decoder(positions)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(150):
        n = 1 + step % 3  # digits
        logits, answer = model((ids := rows(n))[:, :-1])[:, n:], ids[:, n + 1 :]
        torch.nn.functional.cross_entropy(logits.mT, answer).backward()
        optimizer.step(), optimizer.zero_grad()
    print(positions, *(f"{n} digits: {exact(model, n) > 0.7}," for n in (2, 6)))

# %% picture-lengths
import json
from importlib import resources

from matplotlib.figure import Figure

text = resources.files("jumok.course").joinpath("data/lengths.json").read_text("utf-8")
found = json.loads(text).items()
measured = {name: [list(row.values()) for row in seeds] for name, seeds in found}
axes = (figure := Figure(figsize=(6.4, 3), layout="constrained")).subplots()
for name, shares in measured.items():
    mean = torch.tensor(shares).mean(0).tolist()  # (digits,)
    axes.plot(range(1, len(mean) + 1), mean, marker=".", label=name)
axes.axvline(4.5, color="0.6", linestyle=":")
axes.set_xlabel("n")
axes.legend(frameon=False)
figure

# %% answer-longer
print("1.", *(f"1/{2**head}" for head in range(1, 9)))
for name, shares in measured.items():
    print("2.", f"{name:10}", *(f"{row[4]:.2f}" for row in shares))

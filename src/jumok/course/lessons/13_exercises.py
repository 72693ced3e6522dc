"""Exercises: copy and reverse in a minute, and what scale, residual and warm-up are for."""

# %% task
import torch


def batch(n, reverse):
    source = torch.randint(3, 13, (n, 6))  # (B, S): ten digits; 1 is [BOS]
    target = source.flip(1) if reverse else source
    start = torch.ones(n, 1, dtype=torch.long)
    return source, torch.cat([start, target[:, :-1]], 1), target


source, shifted, target = batch(2, reverse=True)
assert source.shape == shifted.shape == target.shape == (2, 6)
assert torch.equal(shifted[:, 1:], target[:, :-1])

# %% model
from dataclasses import replace

import jumok
from jumok.nn import ResidualNorm

SMALL = jumok.TransformerConfig(
    vocabulary_size=13, d_model=32, n_heads=2, d_ff=64, n_layers=2, dropout=0.0
)


def build(residual=True, **settings):
    torch.manual_seed(0)
    model = jumok.EncoderDecoder(replace(SMALL, **settings))
    for part in model.modules():
        if isinstance(part, ResidualNorm) and not residual:
            part.dropout.add_residual = lambda x, y: y  # the sublayer alone
    return model


# %% train
def train(model, reverse=True, steps=240, rate=3e-3, warmup=50):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    loss = torch.tensor(0.0)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / warmup)
        source, shifted, target = batch(64, reverse)
        logits = model(source, shifted)  # (B, T, V)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


# %% guess-chance
chance = torch.nn.functional.cross_entropy(torch.zeros(1, 10), torch.tensor([3]))
guess = 10  # guess
hint = "힌트: 숫자는 몇 가지입니까 / Hint: how many digits are there?"
assert guess == round(chance.exp().item()), hint


# %% copy-reverse
def result(loss):
    learned, partly = loss < 0.3, loss < 0.9 * chance.item()
    return "learned" if learned else "partly" if partly else "chance"


losses = {name: train(build(), name == "reverse") for name in ("copy", "reverse")}
print({name: result(loss) for name, loss in losses.items()})

# %% without
variants = {
    "without the scale": train(build(attention_scale=1.0)),
    "without residuals": train(build(residual=False)),
    "rate 3e-2": train(build(), rate=3e-2),
    "rate 3e-2, no warm-up": train(build(), rate=3e-2, warmup=1),
}
for name, loss in variants.items():
    print(f"{name:22} {result(loss)}")


# %% answer-paper
x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # (T, D), of lesson 3
other = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])  # (S, D)
scores = x @ x.T / 2**0.5  # (T, S)
print("1.", (scores.softmax(-1) @ other)[2].numpy().round(3))
hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
causal = scores.masked_fill(hidden, float("-inf")).softmax(-1)
print("2.", [[round(w, 2) for w in row] for row in causal.tolist()])
print("3.", (10 * scores).softmax(-1)[2].numpy().round(3))

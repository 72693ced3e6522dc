"""Build it: the learner's own file learns a task, and gives the answers of the model "note"."""

# %% task
import torch
from torch.nn.functional import cross_entropy, pad

from jumok.course.transformer import Transformer, greedy, learning_rate, load_note


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.randint(3, 17, (n, 6))  # (B, S): 14 signs; 1 is [BOS], 2 is [EOS]
    return source, pad(pad(source.flip(1), (1, 0), value=1), (0, 1), value=2)


torch.manual_seed(0)
source, target = batch(2)
assert target.shape == (2, 8)
print(source[0].tolist(), "->", target[0].tolist())

# %% guess-size
with torch.device("meta"):  # shapes without numbers
    base = Transformer(37_000)  # the vocabulary of section 5.1
weights = sum(weight.numel() for weight in base.parameters())
guess = 63  # guess
hint = "힌트: 37,000 × 512 + 6 × (3.15 + 4.20)백만 / Hint: add 6 × (3.15 + 4.20) million"
assert guess == round(weights / 1e6), hint

# %% train
torch.manual_seed(0)
model = Transformer(17, d_model=32, n_heads=2, d_ff=96, n_layers=1, dropout=0.0)
optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)  # 5.3
for step in range(1, 601):
    optimizer.param_groups[0]["lr"] = learning_rate(step, d_model=32, warmup=100)
    source, target = batch(64)
    loss = cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% greedy
source, target = batch(50)
written = [greedy(model, row[None], bos=1, eos=2, longest=8)[0] for row in source]
right = sum(torch.equal(w, t[1:]) for w, t in zip(written, target, strict=True))
print(source[0].tolist(), "->", written[0].tolist())
assert right >= 45  # of 50 that it has not seen

# %% note
import jumok
from jumok.shipped import resolve_model

mine, note = load_note(resolve_model("note")), jumok.load("note", device="cpu")
vocabulary = note.vocabulary
for text in ("겨울은 추워요.", "감기 조심하세요."):
    source = torch.tensor([[*vocabulary.encode(text), vocabulary.eos_id]])  # (1, S)
    ids = greedy(mine, source, vocabulary.bos_id, vocabulary.eos_id, longest=60)
    target = pad(ids, (1, 0), value=vocabulary.bos_id)  # (1, T)
    logits = mine(source, target)  # (1, T, V)
    assert torch.equal(logits, note.model(source, target))  # to the last bit
    print(text, "->", vocabulary.decode(ids[0, :-1].tolist()))

# %% plain-python
from jumok.course import microjumok as micro

small = micro.Transformer(len(micro.PIECES))
(source, target), losses = micro.pair(325), []
matrix = small.weights["encoder.self_attention.query.weight"]
for change in (1e-5, -2e-5, 1e-5):  # a little more, a little less, and as it was
    matrix.rows[0][0] += change
    losses.append(micro.cross_entropy(small(source, target[:-1]), target[1:]))
losses[2].backward()
slope = (losses[0].rows[0][0] - losses[1].rows[0][0]) / 2e-5
assert abs(slope - matrix.grad[0][0]) < 1e-8

# %% answer-exercises
torch.manual_seed(0)
from jumok.course import transformer

before = transformer.positional_encoding
transformer.positional_encoding = lambda length, d_model: torch.zeros(length, d_model)
a, b = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[6, 5, 4, 3]])  # (1, S)
start = torch.tensor([[1]])  # [BOS]
assert torch.allclose(mine(a, start), mine(b, start), atol=1e-4)
transformer.positional_encoding = before
assert not torch.allclose(mine(a, start), mine(b, start), atol=1e-4)
print("1. no: both sources give the same first prediction")
print("2.", sum(weight.numel() for weight in mine.parameters()))

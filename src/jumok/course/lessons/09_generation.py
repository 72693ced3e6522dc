"""Generation: cache and beam."""

# %% reverse-task
import torch

PIECES = ["[PAD]", "[BOS]", "[EOS]", *"가나다라마바사아자차카타파하"]


def pairs(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.randint(3, len(PIECES), (64, length))  # (B, S)
    target = torch.nn.functional.pad(source.flip(1), (1, 1), value=1)  # [BOS] ...
    target[:, -1] = 2  # ... [EOS]
    return source, target  # (B, S), (B, S+2)


torch.manual_seed(0)
source, target = pairs(5)
assert source.shape == (64, 5)
assert target.shape == (64, 7)
print(*(PIECES[i] for i in source[0]), "->", *(PIECES[i] for i in target[0]))

# %% train
from jumok import EncoderDecoder, TransformerConfig

small = TransformerConfig(
    vocabulary_size=len(PIECES), d_model=48, n_heads=2, d_ff=96, n_layers=1, dropout=0.0
)
model = EncoderDecoder(small)
optimizer = torch.optim.Adam(model.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, 600)  # warm-up
for number in range(600):
    source, target = pairs(2 + number % 5)
    logits = model(source, target[:, :-1])  # (B, T, V): all positions at once
    torch.nn.functional.cross_entropy(logits.mT, target[:, 1:]).backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()


# %% greedy
def ids(word: str) -> torch.Tensor:
    return torch.tensor([[PIECES.index(syllable) for syllable in word]])  # (1, S)


@torch.no_grad()
def write(source: torch.Tensor) -> torch.Tensor:
    written = torch.tensor([[1]])  # [BOS]
    while written[0, -1] != 2 and written.shape[1] < 9:  # until [EOS]
        newest = model.eval()(source, written)[:, -1]  # (1, V): the last position
        written = torch.cat([written, newest.argmax(-1, keepdim=True)], 1)
    return written  # (1, T)


print(*(PIECES[i] for i in write(ids("가나다라마"))[0]))

# %% guess-cache
from jumok.decoding.incremental.decoder import Seq2SeqDecoder

counts: list[int] = []  # how many positions each call projects
key = model.decoder.stack.layers[0].self_attention.key
hook = key.register_forward_hook(lambda linear, x, y: counts.append(y.shape[1]))
written = write(ids("가나다라마"))
guess = 21  # guess
assert guess == sum(counts), "힌트: 1 + 2 + ... / Hint: 1 + 2 + ..."
decoder = Seq2SeqDecoder(model, ids("가나다라마"), capacity=9)
cached = [decoder.step(written[:, t : t + 1]) for t in range(6)]  # 6 x (1, V)
assert torch.allclose(cached[5], model(ids("가나다라마"), written[:, :6])[:, -1], atol=1e-3)
print("keys without a cache:", sum(counts[:6]), " with a cache:", sum(counts[6:12]))

# %% beam
first = {"가": 0.6, "나": 0.4}
second = {"가": {"다": 0.4, "라": 0.3, "마": 0.3}, "나": {"다": 0.9, "라": 0.1}}
for width in (1, 2):
    kept = sorted(first, key=first.__getitem__, reverse=True)[:width]
    both = {a + b: first[a] * p for a in kept for b, p in second[a].items()}
    best = max(both, key=both.__getitem__)
    assert len(best) == 2
    print(f"beam {width}: {best} {both[best]:.2f}  of", *both)

# %% sampling
torch.manual_seed(0)
logits = torch.tensor([2.0, 1.0, 0.0, -1.0])  # (V), of 가, 나, 다, 라
for temperature in (0.5, 1.0, 2.0):
    p = (logits / temperature).softmax(-1)  # (V)
    drawn = p.multinomial(1000, replacement=True).bincount(minlength=4)
    print(temperature, [round(x, 2) for x in p.tolist()], "drawn:", drawn.tolist())
lowest = logits.topk(2).values[-1]
kept = logits.masked_fill(logits < lowest, float("-inf")).softmax(-1)
assert kept[2:].sum() == 0
print("top-k 2", [round(x, 2) for x in kept.tolist()])

# %% slip-bos
answer = ids("마라다나가")  # (1, 5)
for name, start in (("without [BOS]", answer[:, :0]), ("with [BOS]", written[:, :1])):
    inputs = torch.cat([start, answer], 1)  # (1, T)
    with torch.no_grad():
        logits = model(ids("가나다라마"), inputs)  # (1, T, V)
    assert logits.shape == (1, inputs.shape[1], len(PIECES))
    print(name, inputs.shape[1], "predictions; first:", PIECES[logits[0, 0].argmax()])

# %% answer-exercises
hypotheses = {"short": (-3.0, 4), "long": (-3.4, 7)}  # log-probability, tokens
for alpha in (0.0, 0.6, 1.0):
    scores = {name: p / ((5 + n) / 6) ** alpha for name, (p, n) in hypotheses.items()}
    print(f"1. alpha {alpha}: {max(scores, key=scores.__getitem__)}", end="  ")
assert max(scores, key=scores.__getitem__) == "long"
logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
cold, hot = ((logits / t).softmax(-1).max() for t in (0.01, 1000.0))
print(f"\n2. {cold:.2f} and {hot:.2f}: greedy search, and every token alike")

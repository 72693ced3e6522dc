"""NSMC from end to end."""

# %% rows
from importlib.resources import files

from jumok import SentencePieceTokenizer
from jumok.text.sentencepiece import VocabularyConfig

file = files("jumok.course").joinpath("data", "reviews.tsv")
rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()[1:]]
train, dev, test = rows[:2400], rows[2400:2700], rows[2700:]
assert (len(train), len(dev), len(test)) == (2400, 300, 300)
reviews = [review for review, _ in train]  # neither dev nor test
vocabulary = SentencePieceTokenizer.train(reviews, VocabularyConfig(size=2000))
for review, label in (train[1], train[5]):
    print(label, "|", *vocabulary.pieces(review))

# %% batch
import torch


def batch(part: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [torch.tensor(vocabulary.encode(review)) for review, _ in part]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # [PAD] is 0
    return ids, torch.tensor([int(label == "긍정") for _, label in part])


ids, labels = batch(train[:32])  # (B, T), (B)
assert len(ids) == len(labels) == 32
print(tuple(ids.shape), f"{(ids == 0).float().mean():.0%} padding")

# %% guess-steps
from jumok import TransformerConfig
from jumok.models import EncoderDecoderClassifier

torch.manual_seed(3)
V = len(vocabulary)
config = TransformerConfig(
    vocabulary_size=V, d_model=64, n_heads=2, d_ff=256, n_layers=1, dropout=0.2
)
model = EncoderDecoderClassifier(config, n_labels=2)
guess = 75  # guess
assert guess == len(torch.arange(len(train)).split(32)), (
    "힌트: 2,400개를 32개씩 나눕니다. / Hint: 2,400 reviews, 32 at a time."
)
print(sum(weight.numel() for weight in model.parameters()), "weights")


# %% step
def forward(part: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    ids, labels = batch(part)
    bos = torch.full((len(ids), 1), vocabulary.bos_id)  # (B, 1): the decoder's input
    return model(ids, bos, ids != 0), labels  # (B, 2), (B)


def step(part: list[list[str]]) -> float:
    loss = torch.nn.functional.cross_entropy(*forward(part))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

# %% train
rows = []
for epoch in range(1, 5):
    model.train()
    order = torch.randperm(len(train)).split(32)
    losses = [step([train[i] for i in chosen]) for chosen in order]
    model.eval()
    with torch.inference_mode():
        logits, labels = forward(dev)  # (300, 2), (300)
    dev_loss = torch.nn.functional.cross_entropy(logits, labels)
    accuracy = (logits.argmax(-1) == labels).float().mean()
    rows.append((epoch, 75 * epoch, sum(losses) / 75, dev_loss.item(), accuracy.item()))
    print(f"epoch {epoch}  loss {sum(losses) / 75:.1f}  accuracy {accuracy:.1f}")

# %% picture-history
from jumok import History
from jumok.training.reporting.metrics import Evaluation


def evaluation(row):
    return Evaluation(*row, metric="accuracy", tokens_per_second=None, seconds=0)


figure = History(map(evaluation, rows)).plot()
figure

# %% slip-test
torch.manual_seed(0)
answers = torch.randint(2, (1000, 1, 300))  # the labels of 1,000 test sets
coins = torch.randint(2, (1000, 10, 300))  # for each, ten classifiers that toss a coin
scores = (coins == answers).float().mean(-1)  # (1000, 10)
assert scores.shape == (1000, 10)
print(f"all ten: {scores.mean():.3f}")
print(f"the best on the test set: {scores.amax(-1).mean():.3f}")
other = (coins == torch.randint(2, (1000, 1, 300))).float().mean(-1)  # new reviews
again = other.gather(1, scores.argmax(-1)[:, None])  # (1000, 1)
print(f"the same on new reviews: {again.mean():.3f}")

# %% answer-exercises
with torch.inference_mode():
    logits, labels = forward(dev)
majority = max(labels.bincount()) / len(labels)
print(f"1. {majority:.2f}")
confusion = torch.zeros(2, 2, dtype=torch.long)
for answer, predicted in zip(labels, logits.argmax(-1), strict=True):
    confusion[answer, predicted] += 1  # rows: labels, columns: predictions
assert confusion.trace() == (logits.argmax(-1) == labels).sum()
print("2. the right answers are on the diagonal")
smooth = torch.tensor([0.95, 0.05])  # the target, and the best prediction
entropy = -(smooth * smooth.log()).sum()
print(f"3. {entropy:.3f} instead of 0")

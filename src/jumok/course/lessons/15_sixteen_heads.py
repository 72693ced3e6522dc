"""A paper repeated: are sixteen heads really better than one?"""

# %% base
import jumok
from jumok import experiment as ex
from jumok.models.points import attention_modules
from jumok.tasks.runs.evaluate import evaluation_tables

model = jumok.load("note", device="cpu")
table = evaluation_tables(model.recipe, "dev")["dev"]
rows = list(zip(table.column("source"), table.column("target"), strict=True))


def score(mute=()):
    return jumok.evaluate(model, rows, mute=mute)["exact_match"]


print(len(rows), f"{score():.2f}")

# %% alone
layers = [(each.block, each.layer) for each in attention_modules(model.model)]
heads = [(*layer, head) for layer in layers for head in range(2)]
alone = {head: score(mute=[head]) for head in heads}
assert len(alone) == 12
for layer in layers:
    print(*layer, *(f"{alone[*layer, head]:.2f}" for head in range(2)))

# %% guess-worst
worst = min(alone, key=lambda head: alone[head])
guess = "cross"  # guess
hint = "힌트: 번역은 어디에서 원문을 읽습니까 / Hint: where does a translation read its source?"
assert guess == worst[0], hint

# %% importance
sites = ex.heads(model)  # the output of each head
change = ex.attribution_patch(model, rows, None, ex.mean_log_probability, sites)
size = abs(change).mean(1)  # |dL/dξ|, the mean over the rows: (heads,)
importance = {}
for site, value in zip(sites, size, strict=True):
    block, layer, _ = site.point.split(".")
    same = [i for i, other in enumerate(sites) if other.point == site.point]
    importance[block, int(layer), site.head] = value / (size[same] ** 2).sum() ** 0.5
assert importance.keys() == alone.keys()
order = sorted(importance, key=lambda head: importance[head])
print(*(f"{block}.{layer}.{head}" for block, layer, head in order[:4]))

# %% prune
for n in (0, 1, 2, 3, 4, 6):
    print(f"{n:2} of 12 muted: {score(mute=order[:n]):.2f}")

# %% picture-pruned
import json
from importlib import resources

from matplotlib.figure import Figure

text = resources.files("jumok.course").joinpath("data/heads.json").read_text("utf-8")
measured = json.loads(text)
figure = Figure(figsize=(6.4, 3), layout="constrained")
left, right = figure.subplots(1, 2, sharey=True)
for axes, curves in ((left, measured["pruned"]), (right, measured["tested"])):
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=name)
    axes.set(xlabel="%", ylabel="BLEU")
    axes.legend(frameon=False)
figure

# %% answer-heads
both = {layer: score(mute=[(*layer, 0), (*layer, 1)]) for layer in layers}
print("1.", *(f"{block}.{i} {found:.2f}" for (block, i), found in both.items()))
single = sorted(alone, key=lambda head: alone[head], reverse=True)
print("2.", *(f"{score(mute=single[:n]):.2f}" for n in (1, 2, 3, 4, 6)))
changed = sum(sure for *_, sure in measured["single"])
print("3.", changed, "of", len(measured["single"]))

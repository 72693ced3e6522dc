"""A text of a megabyte, letter by letter: three minutes of `characters` beside nanoGPT's.

    python benchmarks/character_lm.py --text FILE --nanogpt CHECKOUT [--out FOLDER] [--minutes 3]

One after the other on the same cores, whole commands timed: nanoGPT's train.py with the words of
its README for a machine without a GPU (2,000 iterations), the same with as many iterations as fit
the minutes, and `jumok train characters`. The last tenth of the text is the validation split of
all, and one function measures them: -log p of every character of it but the first, each foreseen
once, in windows as wide as the model was trained on; then with windows that overlap by half.
nanoGPT is read from its checkout at run time (train.py, model.py and configurator.py, copied into
FOLDER beside the text as its prepare.py would write it); nothing of it is part of this project.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RESULTS = Path(__file__).parent / "results" / "character_lm.txt"
DATASET = "text"  # a folder of nanoGPT's data
PUBLISHED = 2_000  # iterations
TOGETHER = 32  # windows measured at once
EVALUATED = 250  # iterations between two evaluations
MARGIN = 0.96  # of the minutes: what nanoGPT's longer run aims at, as its speed varies

# config/train_shakespeare_char.py, then what the README lays over it for a CPU
NANOGPT = {
    "eval_interval": EVALUATED,
    "log_interval": 10,
    "always_save_checkpoint": False,
    "dataset": DATASET,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-3,
    "min_lr": 1e-4,
    "beta2": 0.99,
    "warmup_iters": 100,
    "device": "cpu",
    "compile": False,
    "eval_iters": 20,
    "block_size": 64,
    "batch_size": 12,
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 128,
    "dropout": 0.0,
}


@dataclass(frozen=True)
class Result:
    """A trained model, measured; losses are nats a character."""

    name: str
    steps: int
    characters: int  # read in training
    parameters: int
    seconds: float  # the whole command
    width: int
    apart: float  # windows side by side
    overlapping: float  # by half
    own: str  # what its own command said of the validation split


def main() -> None:
    """Train all, measure all, keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--text", type=Path, required=True)
    words.add_argument("--nanogpt", type=Path, required=True, help="a checkout of karpathy/nanoGPT")
    words.add_argument("--out", type=Path)
    words.add_argument("--minutes", type=float, default=3.0)
    words.add_argument("--results", type=Path, default=RESULTS)
    words.add_argument("settings", nargs="*", help="key=value, laid over our recipe")
    given = words.parse_args()
    folder = given.out or Path(mkdtemp(prefix="character-lm-"))
    text = given.text.read_text(encoding="utf-8")
    validation = text[len(text) * 900 // 1000 :]
    prepare(given.nanogpt, folder, text, validation)

    published = nanogpt(folder, "nanoGPT as published", PUBLISHED, validation)
    per_iteration = published.seconds / PUBLISHED
    fitting = int(MARGIN * 60 * given.minutes / per_iteration)
    iterations = max(fitting // EVALUATED, 1) * EVALUATED  # it keeps what it has evaluated
    longer = nanogpt(folder, f"nanoGPT in {given.minutes:g} minutes", iterations, validation)
    own = ours(folder, given.text, given.minutes, given.settings, validation)

    table = lines(given.text.name, len(text), len(validation), [published, longer, own])
    print(table)
    given.results.write_text(table + "\n", encoding="utf-8")


def prepare(checkout: Path, folder: Path, text: str, validation: str) -> None:
    """The folder nanoGPT's command runs in: its three files, and the text as it wants it."""
    data = folder / "data" / DATASET
    data.mkdir(parents=True)
    for name in ("train.py", "model.py", "configurator.py"):
        shutil.copy(checkout / name, folder / name)
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    for split, part in (("train", text[: -len(validation)]), ("val", validation)):
        ids = np.array([numbers[character] for character in part], dtype=np.uint16)
        ids.tofile(data / f"{split}.bin")
    script = (folder / "train.py").read_text(encoding="utf-8")
    unknown = "meta_vocab_size = None"  # it would look for a pickled file; told here instead
    assert unknown in script
    told = script.replace(unknown, f"meta_vocab_size = {len(numbers)}", 1)
    (folder / "train.py").write_text(told, encoding="utf-8")


def nanogpt(folder: Path, name: str, iterations: int, validation: str) -> Result:
    """One training by train.py, and what its best checkpoint is worth."""
    out = f"nanogpt-{iterations}"
    limits = {"max_iters": iterations, "lr_decay_iters": iterations, "out_dir": out}
    words = [f"--{name}={value}" for name, value in (NANOGPT | limits).items()]
    said, seconds = timed([sys.executable, "train.py", *words], folder)
    estimates = re.findall(r"val loss ([\d.]+)", said)
    sys.path.insert(0, str(folder))
    from model import GPT, GPTConfig  # type: ignore[import-not-found]  # nanoGPT's own

    # plain settings and tensors are in it, so it is read without running code
    saved = torch.load(folder / out / "ckpt.pt", map_location="cpu", weights_only=True)
    model = GPT(GPTConfig(**saved["model_args"])).eval()
    model.load_state_dict(saved["model"])
    width = saved["model_args"]["block_size"]

    def logits(ids: Tensor) -> Tensor:
        return model(ids, ids)[0]  # type: ignore[no-any-return]  # without targets: the last alone

    ids = np.fromfile(folder / "data" / DATASET / "val.bin", dtype=np.uint16).astype(np.int64)
    assert len(ids) == len(validation)
    return Result(
        name=name,
        steps=iterations,
        characters=iterations * saved["config"]["batch_size"] * width,
        parameters=sum(p.numel() for p in model.parameters()),
        seconds=seconds,
        width=width,
        apart=loss(logits, ids, width, 0),
        overlapping=loss(logits, ids, width, width // 2),
        own=f"its own estimates: best {min(estimates, key=float)}, last {estimates[-1]}",
    )


def ours(
    folder: Path, text: Path, minutes: float, settings: Sequence[str], validation: str
) -> Result:
    """One training by our recipe, and what the run is worth."""
    import jumok

    run = folder / "jumok"
    data = ["data.corpus=", f"data.train={text.resolve()}", "data.format=text"]
    time_ = [f"training.minutes={minutes - 0.25}"]  # the rest is vocabulary, start and test
    words = [sys.executable, "-m", "jumok", "train", "characters", *data, *time_, *settings]
    _, seconds = timed([*words, "--out", str(run.resolve())], folder)
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    reports = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    epochs = max(json.loads(line)["epoch"] for line in reports)
    loaded = jumok.load(run)
    width = loaded.recipe.model.max_length
    ids = np.array(loaded.vocabulary.encode(validation), dtype=np.int64)
    assert len(ids) == len(validation)
    n_train = len(text.read_text(encoding="utf-8")) - len(validation)
    return Result(
        name="jumok train characters",
        steps=results["steps"],
        characters=int(epochs * n_train),
        parameters=results["parameters"],
        seconds=seconds,
        width=width,
        apart=loss(loaded.logits, ids, width, 0),
        overlapping=loss(loaded.logits, ids, width, width // 2),
        own=f"its own score, windows overlapping: {math.log(results['perplexity']):.4f}",
    )


@torch.inference_mode()
def loss(
    logits: Callable[[Tensor], Tensor], ids: NDArray[np.int64], width: int, overlap: int
) -> float:
    """Mean -log p of all ids but the first, each foreseen once: logits (B, T) -> (B, T, V)."""
    tokens = torch.from_numpy(ids)
    last = len(ids) - 1
    ends = [*range(width, last, width - overlap), last]
    total, done = 0.0, 0
    for start in range(0, len(ends), TOGETHER):
        part = torch.tensor(ends[start : start + TOGETHER])
        places = part[:, None] - torch.arange(width, 0, -1)  # (B, T)
        log_p = logits(tokens[places]).float().log_softmax(-1)  # (B, T, V)
        found = log_p.gather(2, tokens[places + 1][..., None])[..., 0]  # (B, T)
        seen = torch.cat([torch.tensor([done]), part[:-1]])  # by the window before
        total -= float(found[places >= seen[:, None]].sum())
        done = int(part[-1])
    return total / last


def timed(words: Sequence[str], folder: Path) -> tuple[str, float]:
    """What a command says, and its seconds from start to end."""
    print(" ".join(words), file=sys.stderr)
    begin = time.perf_counter()
    done = subprocess.run(
        words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    return done.stdout, time.perf_counter() - begin


def lines(name: str, n: int, n_validation: int, results: Sequence[Result]) -> str:
    """The table."""
    head = [
        "python benchmarks/character_lm.py --text FILE --nanogpt CHECKOUT",
        f"{date.today()}, torch {torch.__version__}, {torch.get_num_threads()} threads",
        f"{name}: {n:,} characters, the last {n_validation:,} for validation",
        "loss: nats a character over the whole validation split, best weights of each",
        "",
        f"{'':<24} {'whole':>8} {'':>7} {'':>8} {'':>10} {'':>7} {'loss,':>8} {'windows':>8}",
        f"{'':<24} {'command':>8} {'steps':>7} {'weights':>8} {'read':>10} {'window':>7} "
        f"{'apart':>8} {'overlap':>8}",
    ]
    body = [
        f"{each.name:<24} {each.seconds:6.0f} s {each.steps:7,} {each.parameters:8,} "
        f"{each.characters:10,} {each.width:7} {each.apart:8.4f} {each.overlapping:8.4f}"
        for each in results
    ]
    notes = [f"{each.name}: {each.own}" for each in results]
    return "\n".join([*head, *body, "", *notes, "nanoGPT's README publishes 1.88."])


if __name__ == "__main__":
    main()

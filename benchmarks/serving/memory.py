"""Memory of `jumok serve` with four small models, in one process and in a process for each.

    python -m benchmarks.serving.memory [--save]

The models are `note`, `ko-small-vectors`, a run of `numbers` and a classifier of tiny reviews that
begins with `ko-small`; both runs are trained for a few steps only, as their weights do not change
what is measured. The resident memory is that of all processes after 50 requests to each model: RSS,
in which pages of several processes count several times, and USS, the pages of one process only.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import psutil

from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from tests.serving.server_process import Server, serving
from tests.tiny_runs import write_reviews

sys.path.insert(0, str(Path(__file__).parents[1]))
from turns import heading

RESULT = Path(__file__).parents[1] / "results" / "serving_memory.txt"
REQUESTS = 50
TEXTS = ("겨울은 추워요.", "회의는 오후 세 시 삼십 분에 시작합니다", "이 영화 정말 재미있어요")
CLASSIFIER = """
task = "classification"
model.init = "ko-small"
[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/test.tsv"
"""


def trained(folder: Path) -> list[Path]:
    """A run of `numbers` and one of reviews, after a few steps."""
    few = ["training.steps=3", "training.warmup_steps=1", "training.evaluate_every=3"]
    numbers = [*few, "data.train_rows=2000", "data.dev_rows=20", "data.test_rows=20"]
    train(load_recipe("numbers", numbers), folder / "numbers")
    recipe = write_reviews(folder).with_name("classifier.toml")
    recipe.write_text(CLASSIFIER.format(folder=folder), encoding="utf-8")
    train(load_recipe(str(recipe), few), folder / "reviews")
    return [folder / "numbers", folder / "reviews"]


def memory(server: Server) -> list[tuple[float, float]]:
    """RSS and USS of each process of a server in MiB, that of the server first."""
    front = psutil.Process(server.process.pid)
    found = [each.memory_full_info() for each in (front, *front.children(recursive=True))]
    return [(each.rss / 2**20, each.uss / 2**20) for each in found]


def measure(folder: Path, runs: list[Path], workers: int) -> str:
    """The row of a server."""
    with serving(folder, runs, workers=workers, limits={"max_wait": 60.0}) as server:
        for run in runs:
            for number in range(REQUESTS):
                text = TEXTS[number % len(TEXTS)]
                path, body = "/v1/predict", {"texts": [text], "model": run.name}
                if run.name == "ko-small-vectors":
                    path, body = "/v1/embeddings", {"input": text, "model": run.name}
                assert server.request(path, body).status == 200
        rows = memory(server)
    each = ", ".join(f"{rss:.0f}" for rss, _ in rows)
    rss, uss = (sum(column) for column in zip(*rows, strict=True))
    return f"--workers {workers}: {len(rows)} processes, RSS {rss:.0f} MiB ({each}), USS {uss:.0f}"


def main() -> None:
    """Measure and print; with --save also write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"also write {RESULT.name}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [Path("note"), Path("ko-small-vectors"), *trained(folder)]
        rows = [measure(folder / f"server{workers}", runs, workers) for workers in (0, 1)]
    text = heading("python -m benchmarks.serving.memory") + "\n".join(["", *rows, ""])
    print(text)
    if options.save:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Two servers for all tests of this folder: in float32, and in int8 with the native kernel.

Also a tiny classifier of pairs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from jumok.threads import compute_threads
from tests.serving.server_process import Server, serving
from tests.tasks.tiny_jobs import pair_rows
from tests.tiny_runs import REVIEWS


@pytest.fixture(scope="session")
def server(
    review_run: Path, reading_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The classifier `run` of reviews and, as a second model, that of readings."""
    reading = tmp_path_factory.mktemp("served") / "reading"
    reading.symlink_to(reading_run)
    review = reading.parent / "reviews"
    review.symlink_to(review_run)
    with serving(tmp_path_factory.mktemp("serving"), [review, reading]) as started:
        yield started


@pytest.fixture(scope="session")
def merging_server(
    compiled: Path, review_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The classifier in int8, whose texts are computed in batches."""
    options = {"precision": "int8", "limits": {"max_wait": 60.0}}
    with serving(tmp_path_factory.mktemp("serving"), [review_run], **options) as started:
        yield started


@pytest.fixture(scope="session")
def pair_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier of pairs."""
    folder = tmp_path_factory.mktemp("pairs")
    for seed, split in enumerate(("train", "dev", "test")):
        lines = ["one\tother\tlabel", *map("\t".join, pair_rows(60, seed))]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(REVIEWS.format(folder=folder), encoding="utf-8")
    overrides = ["data.text=one", "data.pair=other", "model.n_segments=2", "training.steps=2"]
    train(load_recipe(str(path), overrides), folder / "pairs")
    return folder / "pairs"


@pytest.fixture
def threads_of_the_server() -> Iterator[None]:
    """The sums of PyTorch in float32 depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(compute_threads())
    yield
    torch.set_num_threads(before)

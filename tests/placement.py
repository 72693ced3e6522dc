"""Every entry point on a device that is not `cpu`: python -m tests.placement FOLDER.

Prints a line of JSON for each: its name and "ok", or the error and the line of jumok.
"""

import json
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import jumok.device
from tests.host_device import NAME, register

DEVICE = register()
_find_device = jumok.device.find_device
jumok.device.find_device = lambda name: DEVICE if name == NAME else _find_device(name)

import jumok  # noqa: E402  with this `find_device`
from jumok.errors import InputError  # noqa: E402
from jumok.experiment import Transcoders, trace_circuit, train_transcoders  # noqa: E402
from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline  # noqa: E402
from jumok.tasks.pipeline.pipeline import Pipeline  # noqa: E402
from tests.test_cuda import PRETRAINING  # noqa: E402
from tests.tiny_runs import reviews, write_language, write_readings, write_reviews  # noqa: E402

FEW: dict[str, Any] = {"training__steps": 4, "training__evaluate_every": 2, "device": NAME}
TEXTS = ["삼 일", "이 영화 재미있어요", ""]
DECODING = (
    ("beam=3",),
    ("sample=true", "seed=1", "top_p=0.9"),
    ("beam=2", "no_repeat_ngram=2", "repetition_penalty=1.2", "min_length=3"),
)
Entry = Callable[[], object]


def write_pretraining(folder: Path) -> Path:
    """The recipe of a masked language model over the texts of reviews."""
    folder.mkdir()
    text = "".join(f"{text}\n" for text, _ in reviews(60, 0))
    (folder / "train.txt").write_text(text, encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(PRETRAINING.format(folder=folder), encoding="utf-8")
    return path


def entries(name: str, recipe: Path, run: Path) -> Iterator[tuple[str, Entry]]:
    """The entry points of a task, in the order of their use."""
    yield "train", lambda: jumok.train(recipe, out=run, **FEW)
    yield "resume", lambda: resumed(run)
    model = jumok.load(run, device=NAME)
    yield "placed", lambda: check_placement(model)
    yield "evaluate", lambda: jumok.evaluate(model, split="dev")
    yield "predict", lambda: model(["[MASK] 영화"] if name == "pretraining" else TEXTS)
    yield "trace", lambda: jumok.trace(model, "이 영화 재미있어요")  # with explanations
    yield "circuit", lambda: circuit_of(model, run / "transcoders.safetensors")
    if name in ("reviews", "pretraining"):
        yield "vectors", lambda: model.encode(TEXTS)
    if isinstance(model, GenerationPipeline):
        yield "stream", lambda: model.stream("삼 일", lambda _: None)
        for options in DECODING:
            yield " ".join(options), lambda: model.with_decoding(options)(TEXTS)  # noqa: B023


def circuit_of(model: Pipeline, path: Path) -> None:
    """Train transcoders, save and load them, and trace the circuit of a text."""
    texts: list[Any] = ["이 영화 재미있어요", "삼 일"]
    rows = [(text, "3 1") for text in texts] if model.task.columns[0] == "source" else texts
    train_transcoders(model, rows, n_features=32, k=4, steps=3).save(path)
    coders = Transcoders.load(path).to(model.device)
    trace_circuit(model, coders, texts[0], examples=rows)


def resumed(run: Path) -> None:
    """Continue from an older checkpoint, as after a training that was stopped."""
    shutil.rmtree(run / "checkpoints" / "step-4")
    for name in ("results.json", "model.safetensors"):
        (run / name).unlink()
    jumok.resume(run)


def check_placement(model: Pipeline) -> None:
    """Raise AssertionError unless all weights are on the device."""
    assert {each.device for each in model.model.parameters()} == {DEVICE}


def report(name: str, entry: Entry) -> None:
    """Run one entry point and print how it ended."""
    try:
        entry()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = [each for each in frames if "/jumok/" in each.filename][-1:]
        places = [f"{Path(each.filename).name}:{each.lineno}" for each in at]
        print(json.dumps([name, f"{type(error).__name__}: {error} {places}"]), flush=True)
    else:
        print(json.dumps([name, "ok"]), flush=True)


def main(folder: Path) -> None:
    """Run the entry points of all tasks."""
    tasks = {
        "reviews": write_reviews,
        "reading": write_readings,
        "language": write_language,
        "pretraining": write_pretraining,
    }
    for name, write in tasks.items():
        recipe = write(folder / f"data-{name}")
        with suppress(InputError):  # the training has failed: there is no model to load
            for entry_name, entry in entries(name, recipe, folder / name):
                report(f"{name}: {entry_name}", entry)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))

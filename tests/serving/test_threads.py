"""PyTorch has one thread and the kernel all, unless the answers depend on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from jumok.native.threads import kernel_threads, set_kernel_threads
from jumok.serving.engine import EngineOptions
from jumok.serving.jobs import JobHub
from jumok.serving.pipeline_engine import PipelineEngine
from jumok.serving.text_engine import find_engine


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    set_kernel_threads(None)


def test_the_kernel_gets_the_threads(compiled: Path, review_run: Path) -> None:
    engine = PipelineEngine(str(review_run), EngineOptions("int8"), JobHub())
    assert engine.uses_kernel
    before = engine.example_answers()
    engine.set_threads(2)
    assert (torch.get_num_threads(), kernel_threads()) == (1, 2)
    assert engine.example_answers() == before


def test_answers_that_depend_on_the_threads_keep_them(
    compiled: Path, review_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = PipelineEngine(str(review_run), EngineOptions("int8"), JobHub())
    monkeypatch.setattr(engine, "example_answers", lambda *_: [str(torch.get_num_threads())])
    engine.set_threads(2)
    assert (torch.get_num_threads(), kernel_threads()) == (2, 2)


def test_pytorch_keeps_its_threads(review_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumok.native.measured.is_compiled_encoder", lambda _: False)
    engine = PipelineEngine(str(review_run), EngineOptions(), JobHub())
    engine.set_threads(2)
    assert (torch.get_num_threads(), kernel_threads()) == (2, 2)


def test_the_engine_without_pytorch_has_the_threads(compiled: Path, review_run: Path) -> None:
    engine = find_engine(str(review_run), EngineOptions(), JobHub())
    assert engine is not None
    before = engine.example_answers()
    engine.set_threads(2)
    assert (torch.get_num_threads(), kernel_threads()) == (2, 2)
    assert engine.example_answers() == before

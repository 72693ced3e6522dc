"""Fixtures of the browser tests: a browser per file, windows, and traces of every kind."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jumok.interpret.trace import Trace
from jumok.viewer.request_schema import ModelCard
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import Window, launched, window
from tests.viewer.page_server import served
from tests.viewer.random_traces import random_trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

KINDS = ("encoder", "decoder", "encoder_decoder")

Windows = Callable[..., AbstractContextManager[Window]]
Serve = Callable[[Path], str]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A browser per file: Playwright keeps an event loop that other files must not share."""
    with launched() as running:
        yield running


@pytest.fixture
def windows(browser: "Browser") -> Windows:
    """Opens windows."""
    return partial(window, browser)


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trace of each kind of model."""
    folder = tmp_path_factory.mktemp("traces")
    sides = {"encoder": ("source",), "decoder": ("target",)}
    return {
        kind: random_trace(
            length=12, layers=2, heads=3, sides=sides.get(kind, ("source", "target")), title=kind
        ).save(folder / f"{kind}.safetensors")
        for kind in KINDS
    }


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """Serve a trace and return the address of its page."""
    with ExitStack() as running:
        store = running.enter_context(open_trace_store())

        def start(path: Path) -> str:
            info = Trace.open(path).info
            card = ModelCard(title=info.title, task=info.task, kind=info.model.kind)
            server = running.enter_context(served(ServerContent(store, card, store.register(path))))
            return str(server.address)

        yield start


@pytest.fixture(scope="module")
def addresses(traces: dict[str, Path], serve: Serve) -> dict[str, str]:
    """The address of a served page for each of the traces."""
    return {kind: serve(path) for kind, path in traces.items()}

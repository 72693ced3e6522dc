"""Two models under load, in threads of one process, or each in a process of its own."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jumok.serving.pipeline_engine import with_precision
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.runs.load import load
from tests.serving.server_process import served, serving
from tests.serving.test_life import wait_until
from tests.tiny_runs import readings, reviews


def test_each_model_has_its_own_options(
    compiled: Path, review_run: Path, reading_run: Path, tmp_path: Path
) -> None:
    """A classifier with an int8 encoder, and a model that the native kernel decodes."""
    reading = tmp_path / "reading"
    reading.symlink_to(reading_run)
    native = ("kernel=native", "precision=int8")
    text = "겨울은 추워요"
    expected = {
        "run": to_json(with_precision(load(review_run), "int8")(text)),
        "reading": to_json(load(reading_run).with_decoding(native)(text)),
    }
    options = {"precision": ["run:int8"], "decoding": [f"reading:{each}" for each in native]}
    with serving(tmp_path / "server", [review_run, reading], **options) as server:
        for model, line in expected.items():
            assert line.encode() in server.predict(text, model=model).body


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_models_at_the_same_time_have_the_bytes_of_each_alone(
    compiled: Path, review_run: Path, reading_run: Path, tmp_path: Path, workers: int
) -> None:
    """While one of them is loaded again; without workers there is one process only."""
    reading = tmp_path / "reading"
    reading.symlink_to(reading_run)
    texts = {
        "run": [text for text, _ in reviews(10, 1)],
        "reading": [text for text, _ in readings(10, 1)],
    }
    models = {"run": served(review_run), "reading": served(reading_run)}
    expected = {
        (name, text): to_json(models[name](text)).encode() for name in texts for text in texts[name]
    }
    options = {"workers": workers, "limits": {"max_wait": 60.0}}
    with serving(tmp_path / "server", [review_run, reading], **options) as server:
        assert len(server.computing_pids()) == 2 * workers
        reloaded = threading.Event()

        def ask(name: str) -> int:
            n = 0
            while n < len(texts[name]) or not reloaded.is_set():
                text = texts[name][n % len(texts[name])]
                assert expected[name, text] in server.predict(text, model=name).body
                n += 1
            return n

        with ThreadPoolExecutor(4) as pool:
            counts = [pool.submit(ask, name) for name in (*texts, *texts)]
            reply = server.request("/admin/reload", {}, timeout=600)
            reloaded.set()
            assert reply.status == 200, reply.body
            assert min(count.result() for count in counts) >= 10
        wait_until(lambda: len(server.computing_pids()) == 2 * workers)  # the former ones end

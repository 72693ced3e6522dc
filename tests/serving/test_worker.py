"""The computing process: texts that wait are answered in batches, and a wrong one fails alone."""

import asyncio
import json
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from jumok.errors import InputError
from jumok.pretrained.hub import find_model
from jumok.serving.computing import ComputingProcess, ModelSource, StartError
from jumok.serving.engine import Engine, EngineOptions, open_engine
from jumok.serving.frames import BATCH_WORK, FrameBuffer, FrameSocket, pack
from jumok.serving.jobs import JobHub
from jumok.serving.pipeline_engine import PipelineEngine, with_precision
from jumok.serving.worker import Worker
from jumok.tasks.pipeline.encoder_choice import with_packed_encoder
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.load import load
from jumok.tasks.runs.train import train
from tests.serving.server_process import served
from tests.tasks.tiny_jobs import tag_rows
from tests.tiny_runs import REVIEWS, reviews

HUB = JobHub()
TEXTS = [text for text, _ in reviews(60, 3)]


def run_message(number: int, text: str, **more: object) -> bytes:
    """The frame of one text."""
    return pack({"op": "run", "id": number, "kind": "predict", **more}, text.encode())


Found = dict[int, tuple[dict[str, object], bytes]]


def replies(engine: Engine, sent: bytes, n: int) -> Found:
    """The first `n` answers of a worker to which some frames have been sent before it starts."""
    ours, theirs = socket.socketpair()
    ours.sendall(sent)
    found: Found = {}

    def read() -> None:
        buffer = FrameBuffer()
        while len(found) < n:
            for message, payload in buffer.feed(ours.recv(2**16)):
                found[message["id"]] = message, payload
        ours.shutdown(socket.SHUT_WR)  # ends the worker

    with ours, theirs:
        reader = threading.Thread(target=read)
        reader.start()
        with pytest.raises(EOFError):
            Worker(FrameSocket(theirs), engine).run()
        reader.join(60)
    return found


@pytest.fixture(scope="module", params=["int8", None])
def engine(compiled: Path, review_run: Path, request: pytest.FixtureRequest) -> Engine:
    """The classifier of reviews in int8, and in the float32 of a compiled kernel."""
    return open_engine(str(review_run), EngineOptions(request.param))


def test_waiting_texts_are_batches_with_the_bytes_of_texts_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.batched == {"predict", "embed"}
    expected = [engine.predict(text) for text in TEXTS]
    batches = []

    def record(texts: list[str]) -> list[str]:
        batches.append(list(texts))
        return Engine.predict_batch(engine, texts)

    monkeypatch.setattr(engine, "predict_batch", record)
    sent = b"".join(run_message(number, text) for number, text in enumerate(TEXTS))
    found = replies(engine, sent, len(TEXTS))
    assert [found[number][1].decode() for number in range(len(TEXTS))] == expected
    assert [text for batch in batches for text in batch] == TEXTS  # in the order of arrival
    assert 1 < len(batches) < 20
    assert all(len("".join(batch).encode()) <= BATCH_WORK for batch in batches)


def test_float32_without_a_kernel_computes_each_text_alone(
    review_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumok.native.measured.is_compiled_encoder", lambda _: False)
    engine = PipelineEngine(str(review_run), EngineOptions(), HUB)
    assert not engine.uses_kernel
    assert engine.batched == set()


def test_the_float32_of_the_server_is_that_of_predict(compiled: Path, review_run: Path) -> None:
    engine = open_engine(str(review_run), EngineOptions())
    pipeline, plain = served(review_run), load(review_run)
    assert str(pipeline.kernel).startswith("native in float32")
    for text in TEXTS[:5]:
        assert engine.predict(text) == to_json(pipeline(text))
    np.testing.assert_allclose(pipeline.encode(TEXTS), plain.encode(TEXTS), atol=1e-5)


def test_a_wrong_text_fails_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(texts: list[str]) -> list[str]:
        if "secret" in texts:
            raise InputError(
                "text.long", "a text must be short, got {text!r}; shorten it", text="secret"
            )
        return Engine.predict_batch(engine, texts)

    monkeypatch.setattr(engine, "predict_batch", refuse)
    texts = [*TEXTS[:3], "secret", TEXTS[3]]
    sent = b"".join(run_message(number, text) for number, text in enumerate(texts))
    found = replies(engine, sent, len(texts))
    assert found[3][0]["op"] == "error"
    assert found[3][0]["message"] == {
        "code": "text.long",
        "template": "a text must be short, got {text!r}; shorten it",
        "values": {"text": "…"},
    }
    assert [json.loads(found[number][1])["text"] for number in (0, 1, 2, 4)] == TEXTS[:4]


def test_a_cancelled_text_is_not_computed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def record(texts: list[str]) -> list[str]:
        computed.extend(texts)
        return Engine.predict_batch(engine, texts)

    monkeypatch.setattr(engine, "predict_batch", record)
    cancel = pack({"op": "cancel", "id": 1})
    sent = run_message(0, "a") + run_message(1, "b") + cancel + run_message(2, "c", count=True)
    found = replies(engine, sent, 2)
    assert computed == ["a", "c"]
    assert found[2][0]["tokens"] == engine.count_tokens("c")


@pytest.mark.parametrize("limit", ["sign_seconds", "load_seconds"])
def test_a_process_that_hangs_while_it_loads_is_ended(limit: str) -> None:
    async def start() -> None:
        source = ModelSource(name="note", folder="note", **{limit: 2.0})  # type: ignore[arg-type]
        before = {child.pid for child in psutil.Process().children()}
        starting = asyncio.create_task(ComputingProcess.start(source, []))
        while not (new := [c for c in psutil.Process().children() if c.pid not in before]):
            await asyncio.sleep(0.01)
        (child,) = new
        child.suspend()  # at once: a small model is loaded in 0.3 seconds
        with pytest.raises(StartError, match="note did not answer while it loaded, and was ended"):
            await starting
        assert not child.is_running()

    asyncio.run(start())


def embed_message(number: int, text: str, normalize: bool = True) -> bytes:
    """The frame of a text whose embedding is asked for."""
    message = {"op": "run", "id": number, "kind": "embed", "normalize": normalize, "count": True}
    return pack(message, text.encode())


def test_embeddings_that_wait_are_batches_with_the_bytes_of_texts_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside predictions, and with two settings: each batch has one kind."""
    n = len(TEXTS)
    expected = [engine.embed(text) for text in TEXTS]
    raw = engine.embed(TEXTS[0], normalize=False)
    batches: list[list[str]] = []

    def record(texts: list[str], normalize: bool, **settings: Any) -> list[bytes]:
        batches.append(list(texts))
        return type(engine).embed_batch(engine, texts, normalize, **settings)

    monkeypatch.setattr(engine, "embed_batch", record)
    sent = b"".join(embed_message(number, text) for number, text in enumerate(TEXTS))
    sent = embed_message(n, TEXTS[0], normalize=False) + run_message(n + 1, TEXTS[0]) + sent
    found = replies(engine, sent, n + 2)
    assert [found[number][1] for number in range(n)] == expected
    assert found[n][1] == raw != expected[0]
    assert found[n + 1][1].decode() == engine.predict(TEXTS[0])
    assert found[5][0]["tokens"] == engine.count_tokens(TEXTS[5])
    assert batches[0] == [TEXTS[0]]
    assert 1 < len(batches) < 20


@pytest.fixture(scope="module")
def tagger(compiled: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A tagger of names in int8."""
    folder = tmp_path_factory.mktemp("tags")
    for seed, (split, n) in enumerate([("train", 60), ("dev", 10), ("test", 10)]):
        lines = ["text\ttags", *map("\t".join, tag_rows(n, seed))]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(REVIEWS.format(folder=folder), encoding="utf-8")
    changes = ["task=tagging", "vocabulary.kind=char", "model.max_length=40", "model.d_model=32"]
    train(load_recipe(str(path), [*changes, "training.steps=20"]), folder / "run")
    return PipelineEngine(str(folder / "run"), EngineOptions("int8"), HUB)


def test_texts_of_a_tagger_are_batches_with_the_bytes_of_texts_alone(
    tagger: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tagger.batched == {"predict", "embed"}
    texts = [text[: 3 + number % 20] for number, (text, _) in enumerate(tag_rows(80, 7))]
    expected = [tagger.predict(text) for text in texts]
    assert any(json.loads(line)["entities"] for line in expected)
    batches = []

    def record(texts: list[str]) -> list[str]:
        batches.append(list(texts))
        return Engine.predict_batch(tagger, texts)

    monkeypatch.setattr(tagger, "predict_batch", record)
    sent = b"".join(run_message(number, text) for number, text in enumerate(texts))
    found = replies(tagger, sent, len(texts))
    assert [found[number][1].decode() for number in range(len(texts))] == expected
    assert 1 < len(batches) < 20


@pytest.mark.parametrize("precision", [None, "float32", "int8"])
def test_the_empty_text_has_the_bytes_of_a_text_alone(precision: str | None) -> None:
    """Of the shipped encoder: its input is one token, which PyTorch multiplies by other code.

    Beside other texts its last digits may differ in float32, in `predict` and `encode` too; a
    server computes it alone there, or in a batch where that changes nothing.
    """
    model = find_model("ko-small-vectors")
    engine = open_engine(str(model), EngineOptions(precision=precision))
    alone = load(model)
    alone = with_precision(alone, precision) if precision else with_packed_encoder(alone, None)
    texts = ["", "이 영화 정말 재미있어요", " ", ""]
    expected = [bytes(alone.encode([text])[0].astype("<f4")) for text in texts]
    assert [engine.embed(text) for text in texts] == expected
    if "embed" in engine.batched:
        assert engine.embed_batch(texts) == expected
    assert precision != "int8" or "embed" in engine.batched

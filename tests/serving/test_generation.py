"""Texts that are generated next to each other: same bytes, streams, cancellation."""

import contextlib
import http.client
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumok.decoding import DecodingConfig, GenerationInputs, StoppingCriteria
from jumok.decoding.generate import generate
from jumok.errors import InputError
from jumok.native import NativeDecoder, NativeModel
from jumok.native.decoder import DecoderStep, step_together
from jumok.native.decoder_session import DecoderSession, search_together
from jumok.serving import jobs, merging
from jumok.serving.engine import Engine, EngineOptions, decoding_overrides, open_engine
from jumok.serving.jobs import JobHub
from jumok.serving.merging import SharedDecoder
from jumok.serving.pipeline_engine import PipelineEngine
from jumok.serving.text_engine import GenerationEngine, find_engine
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.runs.load import load
from tests.combinations import slow
from tests.serving.server_process import Server, serving
from tests.tiny_runs import readings

SETTINGS = ("kernel=native", "precision=int8")
TEXTS = [text for text, _ in readings(24, 11)]


@pytest.fixture(scope="module")
def expected(compiled: Path, reading_run: Path) -> dict[str, str]:
    pipeline = load(reading_run).with_decoding(SETTINGS)
    return {text: to_json(pipeline(text)) for text in TEXTS}


SEARCHES = (
    *("", '{"beam": 3}', '{"min_length": 5, "beam": 2}', '{"beam": 4, "n_best": 2}'),
    *('{"sample": true, "temperature": 0.8, "seed": 5}', '{"repetition_penalty": 1.5}'),
    '{"stop": ["1"]}',
)
DECODINGS = (*SEARCHES, '{"forbidden": ["1"]}', '{"prefix": "1"}')  # the last two step by step


def test_merged_generations_have_the_bytes_of_each_alone(
    compiled: Path, reading_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = JobHub(torch.inference_mode)
    engine = PipelineEngine(str(reading_run), EngineOptions(decoding=SETTINGS), hub)
    sizes, searched = [], []

    def counted(steps: list[DecoderStep]) -> object:
        sizes.append(len(steps))
        return step_together(steps)

    monkeypatch.setattr(merging, "step_together", counted)
    monkeypatch.setattr(jobs, "search_together", counting(searched))
    found = side_by_side(hub, engine, DECODINGS)
    assert max(sizes) > 1  # of one call of the kernel
    assert max(searched) > 2  # texts of one search
    check_outputs(reading_run, found, DECODINGS)


def counting(sizes: list[int]) -> Callable[[list[DecoderSession]], list[int]]:
    """`search_together`, which adds the number of its searches to a list."""

    def counted(sessions: list[DecoderSession]) -> list[int]:
        sizes.append(len(sessions))
        return search_together(sessions)

    return counted


def side_by_side(hub: JobHub, engine: Engine, decodings: Sequence[str]) -> dict[int, str]:
    """The answers to `TEXTS`, some more of which begin at each step, with the settings in turn."""
    found: dict[int, str] = {}
    for number, text in enumerate(TEXTS):

        def job(number: int = number, text: str = text) -> None:
            found[number] = engine.predict(text, decodings[number % len(decodings)])

        hub.start(number, job)
        if number % 4 == 3:
            hub.step()
    while len(hub):
        hub.step()
    return found


def check_outputs(run: Path, found: dict[int, str], decodings: Sequence[str]) -> None:
    """The answers are those of PyTorch's own pipeline, in order."""
    others = [
        load(run).with_decoding([*SETTINGS, *decoding_overrides(json.loads(each or "{}"))])
        for each in decodings
    ]
    for number, text in enumerate(TEXTS):
        assert found[number] == to_json(others[number % len(decodings)](text))


@pytest.mark.parametrize("decodings", [SEARCHES, [""]])
def test_searches_of_the_engine_have_the_bytes_of_pytorch(
    compiled: Path,
    reading_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    decodings: Sequence[str],
) -> None:
    """Whatever their settings, and streams too: all of them are one call of the kernel."""
    hub, sizes, parts = JobHub(), [], []
    engine = find_engine(str(reading_run), EngineOptions(decoding=SETTINGS), hub)
    assert isinstance(engine, GenerationEngine)
    monkeypatch.setattr(jobs, "search_together", counting(sizes))

    def stream() -> None:
        parts.append(engine.stream(TEXTS[0], "", parts.append).display)

    hub.start("stream", stream)
    found = side_by_side(hub, engine, decodings)
    assert max(sizes) > 8
    check_outputs(reading_run, found, decodings)
    assert "".join(parts[:-1]) == parts[-1]


def test_the_engine_and_pytorch_have_the_hash_of_the_same_version(
    compiled: Path, reading_run: Path, language_run: Path, review_run: Path
) -> None:
    for run, options in (
        (reading_run, EngineOptions(decoding=SETTINGS)),
        (language_run, EngineOptions()),
        (review_run, EngineOptions()),
        (Path("note"), EngineOptions()),
    ):
        engine = open_engine(str(run), options)
        other = open_engine(str(run), replace(options, torch=True))
        assert isinstance(other, PipelineEngine)
        assert not isinstance(engine, PipelineEngine)
        assert engine.hash == other.hash


@pytest.mark.parametrize("config", [DecodingConfig(), DecodingConfig(beam=3, n_best=3)])
def test_a_failing_text_of_a_search_fails_alone(
    compiled: Path, reading_run: Path, config: DecodingConfig
) -> None:
    hub = JobHub(torch.inference_mode)
    model = NativeModel(load(reading_run).model, "int8")
    source = torch.tensor([[5, 6]])
    results: dict[int, object] = {}
    inputs = [
        GenerationInputs(torch.tensor([[token]]), StoppingCriteria(3, limits=[4]))
        for token in (2, 10**6, 2)
    ]

    def job(number: int) -> None:
        decoder = SharedDecoder(NativeDecoder(model, source, capacity=4), hub)
        try:
            results[number] = generate(decoder, inputs[number], config)
        except InputError as error:
            results[number] = str(error)

    for number in range(3):
        hub.start(number, lambda number=number: job(number))  # type: ignore[misc]
    while len(hub):
        hub.step()
    assert "token ids must be" in str(results[1])
    expected = generate(NativeDecoder(model, source, capacity=4), inputs[0], config)
    assert results[0] == results[2] == expected


@pytest.mark.parametrize("torch_", [False, True])
def test_a_cancelled_text_leaves_the_others(
    compiled: Path, reading_run: Path, expected: dict[str, str], torch_: bool
) -> None:
    engine = open_engine(str(reading_run), EngineOptions(decoding=SETTINGS, torch=torch_))
    hub = engine.jobs
    found: dict[int, str] = {}

    def job(number: int) -> None:
        found[number] = engine.predict(TEXTS[number])

    for number in range(3):
        hub.start(number, lambda number=number: job(number))  # type: ignore[misc]
    hub.step()
    assert hub.cancel(1)
    while len(hub):
        hub.step()
    assert found == {number: expected[TEXTS[number]] for number in (0, 2)}


def test_a_failing_call_fails_alone(compiled: Path, reading_run: Path) -> None:
    hub = JobHub(torch.inference_mode)
    model = NativeModel(load(reading_run).model, "int8")
    source = torch.tensor([[5, 6]])
    results: dict[int, object] = {}

    def job(number: int, token: int) -> None:
        decoder = SharedDecoder(NativeDecoder(model, source, capacity=4), hub)
        try:
            results[number] = decoder.step(torch.tensor([[token]]))
        except InputError as error:
            results[number] = str(error)

    for number, token in enumerate((2, 10**6, 2)):
        hub.start(number, lambda number=number, token=token: job(number, token))  # type: ignore[misc]
    hub.step()
    assert "token ids must be" in str(results[1])
    assert torch.equal(results[0], results[2])  # type: ignore[arg-type]


def test_a_cancelled_job_takes_no_further_step(compiled: Path, reading_run: Path) -> None:
    hub = JobHub(torch.inference_mode)
    engine = PipelineEngine(str(reading_run), EngineOptions(decoding=SETTINGS), hub)
    parts: list[str] = []
    hub.start("text", lambda: parts.append(engine.stream(TEXTS[0], "", parts.append).display))
    hub.step()
    assert len(hub) == 1
    before = list(parts)
    assert hub.cancel("text")
    assert not hub.cancel("text")
    assert len(hub) == 0
    hub.step()
    assert parts == before
    assert not torch.is_inference_mode_enabled()


@pytest.fixture(scope="module")
def writer(
    compiled: Path, reading_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of the native kernel."""
    folder = tmp_path_factory.mktemp("writer")
    with serving(folder, [reading_run], decoding=list(SETTINGS)) as server:
        yield server


def test_requests_at_the_same_time(writer: Server, expected: dict[str, str]) -> None:
    def ask(text: str) -> None:
        line = expected[text]
        assert line.encode() in writer.predict(text).body

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, TEXTS))


def test_streams_of_the_openai_client(writer: Server, expected: dict[str, str]) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"http://127.0.0.1:{writer.port}/v1", api_key="none") as client:
        lock, wholes = threading.Lock(), {}

        def ask(text: str) -> None:
            events = list(client.completions.create(model="run", prompt=text, stream=True))
            with lock:
                wholes[text] = "".join(event.choices[0].text for event in events)
            assert events[-1].choices[0].finish_reason in ("stop", "length")  # of the model
            assert not any("\N{REPLACEMENT CHARACTER}" in e.choices[0].text for e in events)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, TEXTS))
        assert wholes == {text: json.loads(expected[text])["output"] for text in TEXTS}
        whole = client.completions.create(model="run", prompt=[TEXTS[0], TEXTS[1]], max_tokens=2)
        assert [choice.index for choice in whole.choices] == [0, 1]
        assert whole.usage.total_tokens == (
            whole.usage.prompt_tokens + whole.usage.completion_tokens
        )
        with pytest.raises(openai.BadRequestError, match="temperature"):
            client.completions.create(model="run", prompt="a", temperature=3)
        with pytest.raises(openai.NotFoundError, match="model must be one of"):
            client.completions.create(model="other", prompt="a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"prompt": "a", "echo": 1}, "echo must be true or false"),
        ({"prompt": "a", "logprobs": 1}, "logprobs and max_tokens = 0 need a language model"),
        ({"prompt": "a", "best_of": 2}, "best_of must be 1; use decoding.n_best"),
        ({"prompt": "a", "n": 2}, "n must be 1; use decoding.n_best"),
        ({"prompt": "a", "n": True}, "n must be 1"),
        ({"prompt": "a", "stream": 1}, "stream must be true or false"),
        ({"prompt": ["a", "b"], "stream": True}, "stream needs one prompt"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, "needs stream = true"),
        *(
            ({"prompt": "a", "stream": True, "stream_options": value}, message)
            for value, message in (
                (1, "stream_options must be an object"),
                ({"usage": True}, "the keys must be among include_usage"),
                ({"include_usage": 1}, "stream_options.include_usage must be true or false"),
            )
        ),
        ({"prompt": "a", "max_tokens": -1}, "max_tokens must be an integer from 0"),
        ({"prompt": "a", "max_tokens": 10**12}, "max_tokens must be an integer from 0"),
        ({"prompt": "a", "stop": ["a"] * 17}, "stop must be at most 16 strings"),
        ({"prompt": "a", "top_p": 2}, "top_p must be a number"),
        ({"prompt": "a", "seed": -2}, "seed must be an integer"),
    ],
)
def test_completions_are_checked(writer: Server, content: dict[str, object], message: str) -> None:
    reply = writer.request("/v1/completions", content)
    assert reply.status == 400
    assert message in reply.error["message"]


def events_of(body: bytes) -> list[Any]:
    """The JSON of all events of a stream, and at its end None for [DONE]."""
    lines = body.decode().strip().split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    parts = [line.removeprefix("data: ") for line in lines]
    return [None if part == "[DONE]" else json.loads(part) for part in parts]


@pytest.mark.parametrize(("max_tokens", "reason"), [(2, "length"), (200, "stop")])
def test_a_stream_ends_as_the_whole_does(writer: Server, max_tokens: int, reason: str) -> None:
    request = {"prompt": TEXTS[0], "max_tokens": max_tokens}
    whole = writer.request("/v1/completions", request).json
    assert whole["choices"][0]["finish_reason"] == reason
    if reason == "length":
        assert whole["usage"]["completion_tokens"] == max_tokens
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *parts, last, usage, done = events_of(writer.request("/v1/completions", request | options).body)
    assert "".join(part["choices"][0]["text"] for part in parts) == whole["choices"][0]["text"]
    assert {part["choices"][0]["finish_reason"] for part in parts} == {None}
    assert last["choices"][0]["finish_reason"] == reason
    assert {json.dumps(each["usage"]) for each in (*parts, last)} == {"null"}
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])
    assert usage["id"] == last["id"]
    assert done is None
    plain = events_of(writer.request("/v1/completions", request | {"stream": True}).body)
    assert not any("usage" in each for each in plain[:-1])


@pytest.mark.parametrize(
    ("prompt", "codes"),
    [
        ("뷁 삼 일", ["unknown_characters"]),
        (" ", ["empty_text"]),
        ("삼 일 오 " * 200, ["truncated"]),
        ("삼 일", []),
    ],
)
def test_the_last_event_has_the_warnings_of_the_whole(
    writer: Server, prompt: str, codes: list[str]
) -> None:
    (whole,) = writer.request("/v1/completions", {"prompt": prompt}).json["choices"]
    reply = writer.request("/v1/completions", {"prompt": prompt, "stream": True})
    *parts, last, _ = events_of(reply.body)
    (choice,) = last["choices"]
    assert {**choice, "text": whole["text"]} == whole
    assert [each["code"] for each in choice.get("warnings", [])] == codes
    assert not any("warnings" in part["choices"][0] for part in parts)


def test_each_sample_has_its_seed(writer: Server) -> None:
    request = {"prompt": TEXTS[0], "max_tokens": 16, "temperature": 2}
    texts = set()
    for _ in range(5):
        (choice,) = writer.request("/v1/completions", request).json["choices"]
        texts.add(choice["text"])
        again = writer.request("/v1/completions", request | {"seed": choice["seed"]}).json
        assert again["choices"] == [choice]
        assert again["usage"]["completion_tokens"] <= 16
    assert len(texts) > 1


def test_the_client_reads_the_usage_of_a_stream(writer: Server) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"http://127.0.0.1:{writer.port}/v1", api_key="none") as client:
        *_, last = client.completions.create(
            model="run", prompt=TEXTS[0], stream=True, stream_options={"include_usage": True}
        )
    assert last.usage.prompt_tokens > 0
    assert last.usage.completion_tokens > 0


def test_top_p_alone_samples(writer: Server, reading_run: Path) -> None:
    for settings_, overrides in (
        ({"top_p": 0.5, "seed": 3}, ["sample=true", "top_p=0.5", "seed=3"]),
        ({"temperature": 1.5, "seed": 3}, ["sample=true", "temperature=1.5", "seed=3"]),
        ({"temperature": 0, "top_p": 0.5}, []),
    ):
        expected = load(reading_run).with_decoding([*SETTINGS, *overrides])
        for text in TEXTS[:6]:
            reply = writer.request("/v1/completions", {"prompt": text, **settings_})
            assert reply.json["choices"][0]["text"] == expected(text).output  # type: ignore[union-attr]


@pytest.mark.parametrize("kills", [False, slow(True)])
def test_errors_inside_a_stream(reading_run: Path, tmp_path: Path, kills: bool) -> None:
    """The deadline passes, or the computing process is lost, after the headers were sent."""
    with serving(tmp_path, [reading_run], workers=1) as server:
        (pid,) = server.computing_pids()
        os.kill(pid, signal.SIGSTOP)
        try:
            caller = http.client.HTTPConnection(*server.address, timeout=60)
            content = json.dumps({"prompt": TEXTS[0], "stream": True})
            headers = {"Content-Type": "application/json"}
            if not kills:
                headers["X-Jumok-Deadline-Ms"] = "300"
            caller.request("POST", "/v1/completions", content, headers)
            came = caller.getresponse()
            assert came.status == 200
            if kills:
                os.kill(pid, signal.SIGKILL)
            (event,) = events_of(came.read())
            code = "request.unavailable" if kills else "request.deadline_passed"
            assert event["error"]["code"] == code
            assert ("started again" if kills else "deadline") in event["error"]["message"]
            caller.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        server.until_ready()
        assert server.request("/v1/completions", {"prompt": TEXTS[0]}).status == 200


def test_translations(writer: Server, expected: dict[str, str]) -> None:
    outputs = [json.loads(expected[text])["output"] for text in TEXTS[:2]]
    reply = writer.request("/translate", {"q": TEXTS[0]})  # the languages are not known
    assert reply.json == {"translatedText": outputs[0]}
    reply = writer.request("/translate", {"q": TEXTS[:2]})
    assert reply.json["translatedText"] == outputs
    reply = writer.request("/translate", {"q": TEXTS[0], "alternatives": 2})
    assert len(reply.json["alternatives"]) == 2
    reply = writer.request("/translate", {"q": f"<b>{TEXTS[0]}</b>", "format": "html"})
    assert reply.json == {"translatedText": f"<b>{outputs[0]}</b>"}
    assert writer.request("/languages").json == []
    assert "needs a classifier" in writer.request("/predict", {"inputs": "a"}).error["message"]
    assert "have an encoder" in writer.request("/embed", {"inputs": "a"}).error["message"]


@pytest.fixture(scope="module")
def sampler(compiled: Path, reading_run: Path) -> PipelineEngine:
    """An engine outside of a job: nothing is merged."""
    return PipelineEngine(str(reading_run), EngineOptions(decoding=SETTINGS), JobHub())


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    seed=st.integers(0, 2),
    temperature=st.sampled_from([0.7, 1.8]),
)
def test_parts_of_a_stream_are_the_whole(
    sampler: PipelineEngine, text: str, seed: int, temperature: float
) -> None:
    decoding = json.dumps({"sample": True, "seed": seed, "temperature": temperature})
    parts: list[str] = []
    whole = sampler.stream(text, decoding, parts.append).display
    assert "".join(parts) == whole
    for part in parts:  # no half of a syllable
        part.encode()
        assert "\N{REPLACEMENT CHARACTER}" not in part

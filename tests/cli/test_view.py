"""jumok view: the page of a trace and of a run, exports, start and shutdown."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from jumok.interpret.trace import Trace
from tests.cli.commands import JUMOK, call, environment
from tests.viewer.random_traces import random_trace

CPU_SECONDS = 0.6  # of the whole process until it answers; a quiet machine takes about as long


@dataclass(frozen=True)
class Page:
    """A running `jumok view`."""

    process: "subprocess.Popen[str]"
    address: str
    messages: list[str]  # on stderr, line by line

    @property
    def port(self) -> int:
        return int(re.search(r":(\d+)/", self.address)[1])  # type: ignore[index]

    def ask(self, path: str, body: object = None) -> tuple[int, bytes]:
        token = re.search(r"#token=([\w-]+)", self.address)
        headers = {"X-Jumok-Token": token[1] if token else "", "Content-Type": "application/json"}
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            sent = None if body is None else json.dumps(body)
            caller.request("GET" if body is None else "POST", path, sent, headers)
            came = caller.getresponse()
            return came.status, came.read()
        finally:
            caller.close()

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextmanager
def viewing(*arguments: object, python: tuple[str, ...] = (), **more: str) -> Iterator[Page]:
    """A page in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, *python, *JUMOK[1:], "view", *map(str, arguments), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
    )
    messages: list[str] = []
    assert process.stdout
    assert process.stderr
    reading = threading.Thread(target=messages.extend, args=(process.stderr,))
    reading.start()
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), "".join(messages)
        yield Page(process, address, messages)
    finally:
        process.kill()
        process.wait()
        reading.join()
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_trace(sides=("source", "target")).save(
        tmp_path_factory.mktemp("a") / "a.safetensors"
    )


def test_a_trace_is_shown_without_torch(file: Path, tmp_path: Path) -> None:
    with viewing(file, python=("-X", "importtime"), TMPDIR=str(tmp_path)) as page:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{22}", page.address)
        status, body = page.ask("/")
        assert (status, b'"mode":"file"' in body) == (200, True)
        name = json.loads(re.search(rb'type="application/json">(.*?)<', body)[1])["trace"]  # type: ignore[index]
        assert page.ask(f"/api/trace/{name}") == (200, file.read_bytes())
        assert len(list(tmp_path.iterdir())) == 1
        assert page.end() == 0
        assert list(tmp_path.iterdir()) == []
    imported = {line.rpartition("|")[2].strip() for line in page.messages if "import time:" in line}
    assert "uvicorn" in imported
    assert not {"torch", "matplotlib"} & imported
    assert "jumok: press Ctrl-C to stop\n" in page.messages


def test_a_trace_is_shown_at_once(file: Path) -> None:
    """The time of the processor, for the machine may be busy with something else."""
    best = float("inf")
    for _ in range(4):
        with viewing(file) as page:
            assert page.ask("/")[0] == 200
            spent = Path(f"/proc/{page.process.pid}/stat")
            if not spent.exists():
                pytest.skip("needs /proc to tell how long a process has worked")
            user, system = spent.read_text().rpartition(")")[2].split()[11:13]
            best = min(best, (int(user) + int(system)) / os.sysconf("SC_CLK_TCK"))
        if best < CPU_SECONDS:
            return
    pytest.fail(f"jumok view took {best:.2f} s at best, wanted {CPU_SECONDS} s")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_every_exit_removes_temporary_files(
    file: Path, tmp_path: Path, number: int, code: int
) -> None:
    with viewing(file, TMPDIR=str(tmp_path)) as page:
        assert page.ask("/")[0] == 200
        assert page.end(number) == code
        assert list(tmp_path.iterdir()) == []


def test_ctrl_c_does_not_wait_for_clients(file: Path) -> None:
    with viewing(file) as page:
        assert page.ask("/")[0] == 200
        with socket.create_connection(("127.0.0.1", page.port)) as caller:
            caller.sendall(b"GET / HTTP/1.1\r\nHost: ")  # and never goes on
            begin = time.monotonic()
            assert page.end() == 0
            assert time.monotonic() - begin < 10


@pytest.mark.slow
def test_the_page_requests_traces_of_a_run(review_run: Path, tmp_path: Path) -> None:
    with viewing(review_run, "이 영화 정말 최고예요", "--state", "v=matrix&L=0") as page:
        assert page.address.endswith("&v=matrix&L=0")
        card = json.loads(page.ask("/api/model")[1])
        assert len(card.pop("examples")) == 3
        assert card == {
            "title": "reviews",
            "task": "classification",
            "kind": "encoder",
            "pairs": False,
            "writes": False,
            "traces": True,
            "max_length": 16,
            "decode": None,
            "checkpoints": ["step-20", "step-40"],
            "in_page": False,
        }

        def traced(**question: object) -> Trace:
            status, body = page.ask("/api/trace", {"text": "이 영화 정말 최고예요"} | question)
            assert status == 200, body
            name = json.loads(body)["id"]
            path = tmp_path / name  # numbers are read from it later
            path.write_bytes(page.ask(f"/api/trace/{name}")[1])
            return Trace.open(path)

        plain = traced()
        muted = traced(mute=[["encoder", 0, 1]])
        assert muted.info.muted == (("encoder", 0, 1),)
        assert not muted.weights("encoder", 0)[1].any()
        assert (muted.weights("encoder", 0)[0] == plain.weights("encoder", 0)[0]).all()
        assert traced().to_bytes() == plain.to_bytes()
        other = traced(text="결말이 지루해요")
        assert other.info.tokens("source").text == "결말이 지루해요"

        for question, arguments in (
            ({"mute": [["encoder", 5, 0]]}, "layer"),
            ({"target": "a"}, "generates no text"),
            ({"decode": {"beam": 2}}, "generates no text"),
            ({"text": "a\0b"}, "NUL"),
            ({"text": "a\ud800b"}, "surrogate"),
        ):
            status, body = page.ask("/api/trace", {"text": "a"} | question)
            assert status == 400, question
            assert arguments in json.loads(body)["error"]
        assert page.end() == 0


@pytest.mark.slow
def test_the_page_sets_decoding_options(reading_run: Path) -> None:
    with viewing(reading_run) as page:
        status, body = page.ask("/")
        assert (status, b'"trace":null' in body) == (200, True)
        assert json.loads(page.ask("/api/model")[1])["writes"] is True
        question = {"text": "일 이", "decode": {"beam": 3, "max_length": 6}}
        status, body = page.ask("/api/trace", question)
        assert status == 200, body
        _, content = page.ask(f"/api/trace/{json.loads(body)['id']}")
        assert b'\\"method\\":\\"beam\\"' in content
        status, body = page.ask("/api/trace", {"text": "일", "decode": {"baem": 3}})
        assert (status, "did you mean" in json.loads(body)["error"]) == (400, True)


@pytest.mark.slow
def test_a_forced_target_ignores_decoding_settings(reading_run: Path) -> None:
    """What --decode set holds for what is written, and a target that is given is not."""
    with viewing(reading_run, "일 이", "--decode", "beam=3") as page:
        status, body = page.ask("/api/trace", {"text": "일 이", "target": "1 2", "decode": {}})
        assert status == 200, body
        _, content = page.ask(f"/api/trace/{json.loads(body)['id']}")
        assert b'\\"method\\":\\"given\\"' in content
        question = {"text": "일 이", "target": "1 2", "decode": {"beam": 3}}
        status, body = page.ask("/api/trace", question)
        assert (status, "decode must be left out" in json.loads(body)["error"]) == (400, True)


@pytest.mark.parametrize(
    ("ending", "start"),
    [("html", b"<!doctype html>"), ("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF"),
     ("csv", b"\xef\xbb\xbfquery,query_piece,key,key_piece,weight\r\n")],
)  # fmt: skip
def test_exports_by_their_ending(
    capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path, ending: str, start: bytes
) -> None:
    out = tmp_path / f"a.{ending}"
    done = call(capsys, "view", file, "--export", out, "--state", "v=matrix&b=cross&L=1&H=1")
    assert (done.code, done.out, done.err) == (0, f"{out}\n", "")
    assert out.read_bytes().startswith(start)


def test_a_table_holds_the_weights_of_the_head(
    capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.csv"
    call(capsys, "view", file, "--export", out, "--state", "b=cross&L=1&H=1")
    _, *rows = out.read_text("utf-8-sig").splitlines()
    weights = Trace.open(file).weights("cross", 1)[1]
    assert len(rows) == weights.size
    for row in rows:
        query, _, key, _, weight = row.split(",")
        assert float(weight) == pytest.approx(weights[int(query), int(key)], rel=1e-6)


def test_a_run_is_exported_as_a_trace(
    capsys: pytest.CaptureFixture[str], reading_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.safetensors"
    arguments = ("--target", "1 2", "--mute", "cross.0.1", "--export", out)
    assert call(capsys, "view", reading_run, "일 이", *arguments).code == 0
    trace = Trace.open(out)
    assert trace.info.muted == (("cross", 0, 1),)
    assert trace.info.decoding is not None
    assert trace.info.decoding.method == "given"
    written = tmp_path / "b.safetensors"
    arguments = ("--decode", "beam=2", "--decode", "max_length=4", "--export", written)
    assert call(capsys, "view", reading_run, "일 이", *arguments).code == 0
    decoding = Trace.open(written).info.decoding
    assert decoding is not None
    assert (decoding.method, decoding.settings["beam"]) == ("beam", 2)


def test_the_lesson_has_two_sentences(
    capsys: pytest.CaptureFixture[str], review_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.safetensors"
    assert call(capsys, "view", review_run, "--lesson", "--export", out).code == 0
    texts = [tokens.text for tokens in Trace.open(out).info.sides["source"]]
    assert len(texts) == 2
    assert "[UNK]" not in [
        piece for row in Trace.open(out).info.sides["source"] for piece in row.pieces
    ]
    page = tmp_path / "a.html"
    assert call(capsys, "view", review_run, "--lesson", "--export", page).code == 0
    assert '"state":"v=calculation"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("FILE", "text"), "is a trace and takes no text"),
        (("FILE", "--mute", "encoder.0.0"), "is a trace and takes no text"),
        (("RUN", "--export", "a.svg"), "add TEXT"),
        (("RUN", "--target", "a"), "add TEXT"),
        (("FILE", "--export", "a.docx"), "export files must end with .html"),
        (
            ("FILE", "--export", "a.svg", "--state", "v=generation"),
            "no figure corresponds to the view",
        ),
        (("FILE", "--export", "a.csv", "--state", "H=9"), "the head must be 0 to 1, got 9"),
        (
            ("FILE", "--export", "a.csv", "--state", "L=9"),
            "the layer of block encoder must be 0 to 1, got 9",
        ),
        (("FILE", "--state", "L=x"), "whole number"),
        (("FILE", "--state", "b=middle"), "encoder, decoder, cross"),
        (("RUN", "text", "--mute", "encoder.x.0"), "a head must be block.layer.head"),
        (("RUN", "text", "--decode", "beam"), "key=value"),
        (("RUN", "text", "--target", "T", "--decode", "beam=4"), "decode must be left out"),
        (("FILE", "--host", "0.0.0.0"), "add --token"),
        (("FILE", "--host", "0.0.0.0", "--token", "short"), "at least 16"),
        (("FILE", "--host", "no.such.host.invalid", "--token", "a" * 16), "cannot listen"),
        (("nowhere",), "nowhere"),
        (("RUN/config.json",), "not a usable safetensors file"),
        (("RUN/model.safetensors",), "got None"),
    ],
)
def test_invalid_arguments_of_view(
    capsys: pytest.CaptureFixture[str],
    file: Path,
    review_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    named = [word.replace("FILE", str(file)).replace("RUN", str(review_run)) for word in arguments]
    done = call(capsys, "view", *named)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = call(capsys, "view", file, "--port", other.getsockname()[1])
    assert done.code == 2
    assert "choose another --port" in done.err


def test_other_machines_need_a_token_of_their_own(file: Path) -> None:
    with viewing(file, "--host", "0.0.0.0", "--token", "a-secret-of-my-own") as page:
        assert page.address.endswith("/#token=a-secret-of-my-own")
        assert page.ask("/api/model")[0] == 200
        assert page.end() == 0
    assert any("the connection is not encrypted" in line for line in page.messages)

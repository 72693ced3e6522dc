"""deploy/nginx.conf in a real nginx, in front of a real `jumok serve`."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.serving.server_process import Server, serving
from tests.serving.test_life import TEXT, wait_until
from tests.serving.test_streams import GATE, SETTINGS

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
TOKEN = "a-token-of-letters"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
SECONDS = 2  # of each timeout for clients, instead of 10 or 30
MAIN = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/errors info;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/jumok.conf;
}}
"""

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@contextmanager
def proxied(folder: Path, server: Server) -> Iterator[tuple[str, int]]:
    """The address of an nginx in front of a server, with short timeouts for clients."""
    assert NGINX is not None
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    text = CONFIGURATION.read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
    text = text.replace("listen 80;", f"listen 127.0.0.1:{address[1]};")
    text = re.sub(r"((client_header|client_body|send)_timeout) \d+s", rf"\1 {SECONDS}s", text)
    assert text.count(f" {SECONDS}s;") == 3
    (folder / "jumok.conf").write_text(text, encoding="utf-8")
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder), encoding="utf-8")
    command = [NGINX, "-p", str(folder), "-e", str(folder / "errors"), "-c"]
    with subprocess.Popen([*command, str(folder / "nginx.conf")]) as process:
        try:

            def listens() -> bool:
                assert process.poll() is None, (folder / "errors").read_text(encoding="utf-8")
                with socket.socket() as client:
                    return client.connect_ex(address) == 0

            wait_until(listens)
            yield address
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def guarded(review_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a token."""
    with serving(tmp_path_factory.mktemp("guarded"), [review_run], token=TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(guarded: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The address of nginx in front of it."""
    with proxied(tmp_path_factory.mktemp("nginx") / "files", guarded) as address:
        yield address


def test_answers_have_the_same_bytes(guarded: Server, proxy: tuple[str, int]) -> None:
    with closing(http.client.HTTPConnection(*proxy, timeout=60)) as caller:
        for _ in range(3):  # over one connection
            caller.request("POST", "/v1/predict", json.dumps({"texts": [TEXT]}), HEADERS)
            reply = caller.getresponse()
            assert reply.read() == guarded.predict(TEXT).body
            assert reply.status == 200
        caller.request("GET", "/health")
        refused = caller.getresponse()
        assert refused.status == 401
        assert json.loads(refused.read())["error"]["code"] == "request.wrong_token"


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"P",
        b"GET /health HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{",
    ],
)
def test_a_slow_client_is_cut_and_does_not_reach_the_server(
    guarded: Server, proxy: tuple[str, int], start: bytes
) -> None:
    front = psutil.Process(guarded.process.pid)
    wait_until(lambda: not [each for each in front.net_connections() if each.raddr])
    with socket.create_connection(proxy, timeout=60) as client:
        started = time.monotonic()
        client.sendall(start)
        time.sleep(SECONDS / 2)
        assert not [each for each in front.net_connections() if each.raddr]
        try:
            while client.recv(2**16):
                pass
        except ConnectionResetError:
            pass
        assert SECONDS / 2 < time.monotonic() - started < 30


def test_bytes_that_come_slowly_do_not_prolong_the_headers(proxy: tuple[str, int]) -> None:
    with socket.create_connection(proxy, timeout=0.1) as client:
        started = time.monotonic()
        client.sendall(b"GET /health HTTP/1.1\r\nHost: ")
        while time.monotonic() - started < 30:
            try:
                client.send(b"a")
                if not client.recv(2**16):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - started < 30


def test_long_bodies_and_headers_are_refused_by_nginx(
    guarded: Server, proxy: tuple[str, int]
) -> None:
    for headers, body, status in (
        ({}, b"a" * (2**22 + 1), 413),
        ({"X-Long": "a" * 2**17}, b"", 400),
    ):
        with closing(http.client.HTTPConnection(*proxy, timeout=60)) as caller:
            caller.request("POST", "/v1/predict", body, HEADERS | headers)
            assert caller.getresponse().status == status
    assert guarded.request("/ready").status == 200


@pytest.mark.slow
def test_events_pass_while_the_text_is_generated(
    compiled: Path, reading_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process waits before the end of the text until its start has arrived."""
    (tmp_path / "sitecustomize.py").write_text(GATE, encoding="utf-8")
    gate = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(gate))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    body = json.dumps({"prompt": "삼 일 오", "stream": True})
    with (
        serving(tmp_path / "server", [reading_run], decoding=SETTINGS, token=TOKEN) as server,
        proxied(tmp_path / "nginx", server) as address,
        closing(http.client.HTTPConnection(*address, timeout=60)) as caller,
    ):
        gate.touch()
        caller.request("POST", "/v1/completions", body, HEADERS)
        reply = caller.getresponse()
        first = reply.readline()
        assert first.startswith(b"data: ")
        gate.unlink()
        events = [line for line in reply.read().split(b"\n\n") if line]
        assert len(events) > 3
        assert events[-1] == b"data: [DONE]"

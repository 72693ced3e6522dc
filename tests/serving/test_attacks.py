"""Hostile clients: after each attack the server answers the same bytes as before."""

import random
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.serving.server_process import Server, serving

TEXT = "이 영화 정말 재미있어요"
LIMITS = {"header_seconds": 1.0, "body_seconds": 1.0, "write_seconds": 1.0}
POST = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def target(review_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short deadlines."""
    with serving(tmp_path_factory.mktemp("target"), [review_run], limits=LIMITS) as server:
        yield server


@pytest.fixture(autouse=True)
def unharmed(target: Server) -> Iterator[None]:
    """The same answer, memory and descriptors before and after."""
    process = psutil.Process(target.process.pid)
    expected, rss, fds = target.predict(TEXT).body, target.rss(), process.num_fds()
    yield
    started = time.monotonic()
    assert target.request("/health").status == 200
    assert time.monotonic() - started < 2
    assert target.predict(TEXT).body == expected
    assert target.rss() - rss < 8 * 2**20
    end = time.monotonic() + 20
    while process.num_fds() > fds + 2:
        assert time.monotonic() < end, "descriptors leak"
        time.sleep(0.05)


def head(target: Server, rest: bytes) -> bytes:
    """The start of a POST request with more header lines."""
    return POST % target.port + rest


def status(reply: bytes) -> int:
    """The status of the first response; 0 for none."""
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.1 ") else 0


def test_bodies_that_are_too_long(target: Server) -> None:
    assert status(target.raw(head(target, b"Content-Length: 10000000000\r\n\r\n{"))) == 413
    assert status(target.raw(head(target, b"Content-Length: " + b"9" * 400 + b"\r\n\r\n"))) in (
        *(400, 413),
    )
    chunk = b"10000\r\n" + b"a" * 2**16 + b"\r\n"
    chunked = head(target, b"Transfer-Encoding: chunked\r\n\r\n") + chunk * 64
    assert status(target.raw(chunked)) in (0, 413)  # 0: reset after 64 KiB more than the limit
    packed = head(target, b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd")
    assert status(target.raw(packed)) == 415


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"P",
        b"GET /health HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{",
    ],
)
def test_slow_clients_are_closed(target: Server, start: bytes) -> None:
    """One byte at a time does not extend the deadline."""
    with socket.create_connection(target.address, timeout=10) as client:
        client.sendall(start)
        started = time.monotonic()
        client.settimeout(0.1)
        while time.monotonic() - started < 8:
            try:
                client.send(b"a")
                if not client.recv(65536):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - started < 6


def test_a_client_that_never_reads_is_closed(target: Server) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % target.port
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(target.address)
        client.settimeout(1)
        started = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - started < 15:
                client.sendall(request * 50)
        time.sleep(2.5)
        connections = psutil.Process(target.process.pid).net_connections()
        mine = client.getsockname()[1]
        assert not any(each.raddr and each.raddr.port == mine for each in connections)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        b"Content-Length: 2\r\n\r\nab",
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"a" * 2**20 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a" * 2**17 + b"\r\n\r\n",
    ],
)
def test_bytes_that_are_no_valid_request(target: Server, request_bytes: bytes) -> None:
    reply = target.raw(request_bytes)
    assert status(reply) in (0, 400, 421, 431)
    assert len(reply) < 3000


@pytest.mark.slow
def test_random_bytes(target: Server) -> None:
    chance = random.Random(5)
    valid = head(target, b"Content-Length: 16\r\n\r\n") + b'{"texts": ["a"]}'
    for _ in range(60):
        damaged = bytearray(valid)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        assert status(target.raw(bytes(damaged), timeout=8)) // 100 in (0, 2, 4)


def test_pipelined_requests_are_answered_in_order(target: Server) -> None:
    one = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n"
    paths = [b"health", b"v1/limits"] * 50
    sent = b"".join(one % (path, target.port, b"") for path in paths)
    reply = target.raw(sent + one % (b"ready", target.port, b"Connection: close\r\n"))
    assert reply.count(b"HTTP/1.1 200") == 101
    order = [b"not_ready" in part for part in reply.split(b"HTTP/1.1 200")[1:-1]]
    assert order == [True, False] * 50


@pytest.mark.slow
def test_many_idle_and_slow_connections(target: Server) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(2_000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n + 200), hard))
    with ExitStack() as stack:
        for _ in range(n):
            client = stack.enter_context(socket.create_connection(target.address))
            client.sendall(b"GET /health HTTP/1.1\r\nHost")
        assert target.predict(TEXT).status == 200

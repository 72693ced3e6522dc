"""Hostile clients: after each attack the server answers the same bytes as before."""

import asyncio
import http.client
import json
import random
import re
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.serving.server_process import Server, serving

JSON = {"Content-Type": "application/json"}
TEXT = "이 영화 정말 재미있어요"
LIMITS = {"body_seconds": 1.0}
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
    assert time.monotonic() - started < 20
    assert target.predict(TEXT).body == expected
    # The allocator keeps what 2,000 connections needed: 5 KB each with uvicorn 0.54.
    assert target.rss() - rss < 16 * 2**20
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
    chunked = head(target, b"Transfer-Encoding: chunked\r\n\r\n") + chunk * 80
    assert status(target.raw(chunked)) == 413  # 1 MiB more than the limit is still read
    packed = head(target, b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd")
    assert status(target.raw(packed)) == 415


def test_a_slow_body_is_refused(target: Server) -> None:
    """One byte at a time does not extend the time; slow headers are cut by a proxy."""
    with socket.create_connection(target.address, timeout=0.1) as client:
        client.sendall(head(target, b"Content-Length: 1000\r\n\r\n{"))
        started, came = time.monotonic(), b""
        while time.monotonic() - started < 40:
            try:
                client.send(b"a")
                part = client.recv(65536)
                came += part
                if not part:
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - started < 30
        assert status(came) == 408


def test_a_client_that_never_reads_occupies_its_connection_only(target: Server) -> None:
    """Its requests wait in the system until a response has been sent."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % target.port
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(target.address)
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.sendall(request * 200_000)
        assert target.predict(TEXT).status == 200


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
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /health HTTP/1.1\nHost: localhost\n\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: \x00\r\n\r\n",
        b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 2**20 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a" * 2**17 + b"\r\n\r\n",
    ],
)
def test_bytes_that_are_not_a_valid_request(target: Server, request_bytes: bytes) -> None:
    reply = target.raw(request_bytes)
    assert status(reply) in (0, 400, 421)
    assert len(reply) < 3000


def test_an_endless_head_or_trailer_is_refused_early(target: Server) -> None:
    """Bytes of a request that are no body are counted, also where no callback passes them on."""
    start = head(target, b"Transfer-Encoding: chunked\r\n\r\n")
    for endless in (
        b"GET /" + b"a" * 2**17,
        head(target, b"A: ") + b"a" * 2**17,
        start + b"1;" + b"a" * 2**17,
        start + b"1\r\n{\r\n0\r\nA: " + b"a" * 2**17,
        start + b"1\r\n{\r\n0\r\n" + b"A: b\r\n" * 2**15,
    ):
        started = time.monotonic()
        assert status(target.raw(endless)) in (0, 400)  # 0: reset by unread bytes
        assert time.monotonic() - started < 30


UPGRADE = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAA\r\n"
)


@pytest.mark.parametrize("upgrade", [UPGRADE, UPGRADE.replace(b"h2c", b"websocket")])
def test_an_offer_to_upgrade_is_ignored(target: Server, upgrade: bytes) -> None:
    """curl --http2 and Java's HttpClient offer h2c; the body may come later than the headers."""
    expected = target.predict(TEXT).body
    body = json.dumps({"texts": [TEXT]}).encode()
    request = head(target, upgrade + b"Content-Length: %d\r\n\r\n" % len(body))
    with socket.create_connection(target.address, timeout=60) as client:
        for pause in (0.0, 0.2):  # two requests over one connection
            client.sendall(request)
            time.sleep(pause)
            client.sendall(body)
            reply = http.client.HTTPResponse(client)
            reply.begin()
            assert (reply.status, reply.version, reply.read()) == (200, 11, expected)
    read = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n" % (target.port, upgrade)
    assert status(target.raw(read + b"PRI * HTTP/2.0\r\n\r\n")) == 200
    assert "upgrade" not in target.log.read_text(encoding="utf-8").lower()


def test_a_thousand_pipelined_requests(target: Server) -> None:
    """They wait as bytes, not as requests, and are answered in order."""
    body = b'{"texts": ["a"]}'
    first = head(target, b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    one = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n"
    pair = one % (b"health", target.port, b"") + one % (b"v1/limits", target.port, b"")
    last = one % (b"ready", target.port, b"Connection: close\r\n")
    reply = target.raw(first + pair * 500 + last)
    parts = reply.split(b"HTTP/1.1 200")[1:]
    assert [b"not_ready" in part for part in parts[1:-1]] == [True, False] * 500
    assert b"answers" in parts[0]


def test_a_client_with_a_long_body_that_leaves_is_noticed(target: Server) -> None:
    body = json.dumps({"texts": [TEXT * 50] * 500}).encode()
    with socket.create_connection(target.address) as client:
        client.sendall(head(target, b"Content-Length: %d\r\n\r\n" % len(body)) + body)
        time.sleep(0.05)
    end = time.monotonic() + 10
    while b'jumok_waiting_texts{model="run"} 0.0' not in target.request("/metrics").body:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_random_bytes(target: Server) -> None:
    chance = random.Random(5)
    valid = head(target, b"Content-Length: 16\r\n\r\n") + b'{"texts": ["a"]}'
    for _ in range(60):
        damaged = bytearray(valid)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with suppress(TimeoutError):  # the head does not end
            assert status(target.raw(bytes(damaged), timeout=8)) // 100 in (0, 2, 4)


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


@pytest.mark.slow
def test_thousands_of_requests_at_once_are_answered_or_refused(
    review_run: Path, tmp_path: Path
) -> None:
    """None is reset, none gets 5xx, and each refusal has a time after which it is accepted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(3_000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n + 200), hard))
    with serving(tmp_path, [review_run], limits={"max_wait": 0.2}) as server:
        body = json.dumps({"texts": [TEXT] * 4}).encode()
        request = (
            head(server, b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
        )

        async def ask(start: asyncio.Event) -> bytes:
            reader, writer = await asyncio.open_connection(*server.address)
            await start.wait()
            writer.write(request)
            came = await reader.read()
            writer.close()
            return came

        async def run() -> list[bytes]:
            start = asyncio.Event()
            tasks = [asyncio.create_task(ask(start)) for _ in range(n)]
            await asyncio.sleep(0.1)
            start.set()
            return await asyncio.gather(*tasks)

        replies = asyncio.run(run())
        expected = server.predict(*[TEXT] * 4).body
        counts = Counter(map(status, replies))
        assert set(counts) == {200, 429}
        assert counts.total() == n
        for reply in replies:
            if status(reply) == 200:
                assert reply.endswith(expected)
            else:
                assert re.search(rb"retry-after: [1-9]", reply)


@pytest.mark.slow
def test_without_free_descriptors_the_server_waits(review_run: Path, tmp_path: Path) -> None:
    """It accepts no more, keeps what it has, does not loop, and goes on when some are free."""
    with serving(tmp_path, [review_run]) as server:
        front = psutil.Process(server.process.pid)
        expected = server.predict(TEXT).body
        _, hard = front.rlimit(psutil.RLIMIT_NOFILE)
        front.rlimit(psutil.RLIMIT_NOFILE, (64, hard))
        caller = http.client.HTTPConnection(*server.address, timeout=60)
        caller.request("GET", "/health")
        assert caller.getresponse().read()
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(server.address))
            time.sleep(1)
            assert front.num_fds() <= 64
            before, started = front.cpu_times(), time.monotonic()
            lines = server.log.read_text(encoding="utf-8").count("out of system resource")
            time.sleep(3)
            after, seconds = front.cpu_times(), time.monotonic() - started
            used = after.user + after.system - before.user - before.system
            assert used < 0.4 * seconds  # 0.03 where this was written; a loop uses all
            more = server.log.read_text(encoding="utf-8").count("out of system resource") - lines
            assert more <= 40 * (seconds + 1)  # asyncio tries again once a second
            caller.request("POST", "/v1/predict", json.dumps({"texts": [TEXT]}), JSON)
            assert caller.getresponse().read() == expected
        caller.close()
        assert server.predict(TEXT).body == expected


def test_a_full_disk_loses_the_log_only(review_run: Path, tmp_path: Path) -> None:
    with serving(tmp_path, [review_run], stderr=Path("/dev/full")) as server:
        expected = server.predict(TEXT)
        assert expected.status == 200
        assert status(server.raw(b"\x16\x03\x01 no HTTP\r\n\r\n")) == 400
        assert server.request("/no/such/address").status == 404
        assert server.predict(TEXT).body == expected.body


def test_requests_add_neither_lines_to_the_log_nor_labels_to_the_metrics(
    review_run: Path, tmp_path: Path
) -> None:
    with serving(tmp_path, [review_run]) as server:
        server.request("/no/such/address")
        server.predict(TEXT, model="missing")
        server.request("/metrics")
        end = time.monotonic() + 120  # its own series are added after the response
        while b'route="/metrics"' not in (found := server.request("/metrics").body):
            assert time.monotonic() < end
        series = len(found.splitlines())
        time.sleep(0.2)  # so is the line in the log
        lines = len(server.log.read_text(encoding="utf-8").splitlines())
        for number in range(50):
            path = f"/secret-{number}%0Areply%20status=200%1B[31m"
            assert server.request(path, X_Secret=f"secret-{number}").status == 404
            assert server.predict("secret", model=f"secret\n{number}").status == 404
        while len((log := server.log.read_text(encoding="utf-8")).splitlines()) < lines + 100:
            assert time.monotonic() < end
        assert len(log.splitlines()) <= lines + 101  # a line from before may have come late
        assert "secret" not in log
        assert "\x1b" not in log
        metrics = server.request("/metrics").body
        assert len(metrics.splitlines()) == series
        assert b"secret" not in metrics

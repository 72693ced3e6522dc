"""The page's server over real HTTP: routes, ranges, errors."""

import gzip
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.serving.limits import Limits
from jumok.viewer import job_queue
from jumok.viewer import server as server_module
from jumok.viewer.request_schema import ModelCard, TraceRequest
from jumok.viewer.server import CONTENT_SECURITY_POLICY, ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.viewer.page_server import Server, served
from tests.viewer.random_traces import HOSTILE, random_trace

CARD = ModelCard(title="made", task=None, kind="encoder", traces=True, max_length=16)


class Echo:
    """A model that answers any text with a made trace of that title; some it refuses."""

    card = CARD

    def __init__(self) -> None:
        self.requests: list[TraceRequest] = []

    def trace(self, expected: TraceRequest) -> bytes:
        self.requests.append(expected)
        (text,) = expected.texts
        if text == "refuse":
            raise InputError("test.error", "the text is refused; give another")
        if text == "break":
            raise ZeroDivisionError("division by zero")
        if text == "sleep":
            time.sleep(1.0)
        return random_trace(title=text).to_bytes()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_trace().save(tmp_path_factory.mktemp("traces") / "a.safetensors")


@pytest.fixture(scope="module")
def echo() -> Echo:
    return Echo()


@pytest.fixture(scope="module")
def live(file: Path, echo: Echo) -> Iterator[Server]:
    with (
        open_trace_store() as store,
        served(ServerContent(store, CARD, store.register(file), echo)) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def still(file: Path) -> Iterator[tuple[Server, str]]:
    """A server of a file alone, and the name of the file there."""
    with open_trace_store() as store:
        name = store.register(file)
        card = ModelCard(title="made", task=None, kind="encoder")
        with served(ServerContent(store, card, name)) as server:
            yield server, name


def boot_of(body: bytes) -> dict[str, object]:
    found = re.search(rb'<script id="boot" type="application/json">(.*?)</script>', body)
    assert found
    boot = json.loads(found[1])
    assert isinstance(boot, dict)
    return boot


def test_the_page_has_its_boot_data(live: Server, still: tuple[Server, str]) -> None:
    page = live.request("/", token=None)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert boot_of(page.body)["mode"] == "live"
    server, name = still
    boot = boot_of(server.request("/", token=None).body)
    assert boot == {"mode": "file", "trace": name, "model": None, "state": ""}


def test_the_page_does_not_contain_the_token(live: Server) -> None:
    assert live.address.token.encode() not in live.request("/", token=None).body


def test_the_model_card(live: Server, still: tuple[Server, str]) -> None:
    keys = {"title", "task", "kind", "pairs", "writes", "traces", "max_length"}
    keys |= {"decode", "examples", "checkpoints", "in_page"}
    assert set(live.request("/api/model").json) == keys
    assert live.request("/api/model").json["traces"] is True
    assert still[0].request("/api/model").json["traces"] is False


def test_a_trace_is_made_and_read(live: Server, echo: Echo, tmp_path: Path) -> None:
    question = {
        "text": "겨울\ud800",
        "target": None,
        "decode": {"beam": 4},
        "mute": [["encoder", 0, 1]],
    }
    made_here = live.request("/api/trace", question)
    assert made_here.status == 200, made_here.body
    assert echo.requests[-1] == TraceRequest(
        ("겨울\ud800",), None, {"beam": 4}, (("encoder", 0, 1),)
    )
    answer = live.request(f"/api/trace/{made_here.json['id']}")
    assert answer.headers["content-type"] == "application/octet-stream"
    path = tmp_path / "b.safetensors"
    path.write_bytes(answer.body)
    assert Trace.open(path).info.title == "겨울\ud800"


@pytest.mark.parametrize(
    ("byte_range", "first", "last"),
    [("0-9", 0, 10), ("7-7", 7, 8), ("100-", 100, None), ("-8", -8, None), ("5-99999999", 5, None)],
)
def test_a_range_is_a_part_of_the_file(
    still: tuple[Server, str], file: Path, byte_range: str, first: int, last: int | None
) -> None:
    server, name = still
    whole = file.read_bytes()
    answer = server.request(f"/api/trace/{name}", Range=f"bytes={byte_range}")
    assert answer.status == 206
    assert answer.body == whole[first:last]
    start = first % len(whole)
    content_range = f"bytes {start}-{start + len(answer.body) - 1}/{len(whole)}"
    assert answer.headers["content-range"] == content_range
    assert int(answer.headers["content-length"]) == len(answer.body)


def test_a_range_is_compressed_if_the_page_accepts_it(
    still: tuple[Server, str], file: Path
) -> None:
    server, name = still
    headers = {"Range": "bytes=8-500", "X-Jumok-Zip": "1"}
    answer = server.request(f"/api/trace/{name}", **headers)
    assert answer.status == 206
    assert answer.headers["x-jumok-zip"] == "1"
    assert answer.headers["content-range"] == f"bytes 8-500/{file.stat().st_size}"
    assert gzip.decompress(answer.body) == file.read_bytes()[8:501]
    refused = server.request(f"/api/trace/{name}", Range="bytes=5-2", **{"X-Jumok-Zip": "1"})
    assert refused.status == 416


@pytest.mark.parametrize(
    "byte_range", ["0-1,4-5", "99999999-", "5-2", "-", "", "a-b", "-0", "9" * 5000 + "-"]
)
def test_invalid_ranges_are_rejected(
    still: tuple[Server, str], file: Path, byte_range: str
) -> None:
    server, name = still
    answer = server.request(f"/api/trace/{name}", Range=f"bytes={byte_range}")
    assert answer.status == 416
    assert answer.headers["content-range"] == f"bytes */{file.stat().st_size}"
    assert "invalid range" in answer.error


def test_head_returns_the_size_only(still: tuple[Server, str], file: Path) -> None:
    server, name = still
    answer = server.request(f"/api/trace/{name}", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) == file.stat().st_size


@pytest.mark.parametrize(
    "path",
    [
        "/api/trace/" + "0" * 32,
        "/api/trace/../../etc/passwd",
        "/api/trace/..%2f..%2fetc%2fpasswd",
        "/api/trace/%00",
        "/api/page/" + "0" * 32,
        "/app.map",
        "/server.py",
        "/static/app.js",
        "/../security.py",
        "/open/" + "0" * 22,
        "//evil.example/",
        "/docs",
    ],
)
def test_unknown_paths_are_not_found(live: Server, path: str) -> None:
    answer = live.request(path)
    assert answer.status == 404
    assert "not found" in answer.error or "no such address" in answer.error


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_rejected(live: Server, method: str) -> None:
    for path in ("/", "/api/trace", "/api/model"):
        answer = live.request(path, method=method)
        assert answer.status == 405, path
        assert "method is not allowed" in answer.error


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.:{port}",
     "127.0.0.1:{port}:{port}", "user@localhost:{port}", "", "10.0.0.1:{port}", "[::1]x:{port}"],
)  # fmt: skip
def test_other_host_names_are_rejected(live: Server, host: str) -> None:
    named = host.format(port=live.address.port)
    for path in ("/", "/app.js", "/api/model"):
        answer = live.request(path, Host=named)
        assert answer.status == 421, named
        assert "must name this server" in answer.error


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_names_of_this_machine_are_its_own(live: Server, name: str) -> None:
    assert live.request("/", Host=f"{name}:{live.address.port}").status == 200


def test_requests_must_come_from_the_page(live: Server) -> None:
    own = f"http://127.0.0.1:{live.address.port}"
    question = {"text": "a"}
    assert (
        live.request("/api/trace", question, Origin=own, Sec_Fetch_Site="same-origin").status == 200
    )
    for origin in ("null", "http://evil.example", "", f"{own}.evil",
                   f"http://localhost:{live.address.port}"):  # fmt: skip
        assert "other origins" in live.request("/api/trace", question, Origin=origin).error
    for site in ("cross-site", "same-site", ""):
        refused = live.request("/api/trace", question, Sec_Fetch_Site=site)
        assert refused.status == 403
        assert "other sites" in refused.error


@pytest.mark.parametrize("token", [None, "wrong", "ключ", " "])
def test_a_missing_or_wrong_token(live: Server, token: str | None) -> None:
    sent = token.encode().decode("latin-1") if token else token
    for path in ("/api/model", "/api/trace/" + "0" * 32, "/api/page/" + "0" * 32, "/api/nothing"):
        answer = live.request(path, token=sent)
        assert answer.status == 401
        assert "token" in answer.error
    assert live.request("/api/trace", {"text": "a"}, token=sent).status == 401
    assert live.request(f"/api/model?token={live.address.token}", token=None).status == 401


def test_every_answer_has_the_headers(live: Server) -> None:
    answers = [
        live.request("/"),
        live.request("/nothing"),
        live.request("/", Host="evil.example"),
        live.request("/api/model"),
        live.request("/api/model", token=None),
        live.request("/api/trace", b"{"),
        live.request("/api/trace", {"text": "break"}),
        live.request("/", method="PUT"),
    ]
    assert [answer.status for answer in answers] == [200, 404, 421, 200, 401, 400, 500, 405]
    for answer in answers:
        for name, value in {
            "content-security-policy": CONTENT_SECURITY_POLICY,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }.items():
            assert answer.headers[name] == value
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "set-cookie" not in answer.headers


def test_the_content_policy_blocks_everything_else() -> None:
    policy = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' blob: data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'self' http://127.0.0.1:* http://localhost:* vscode-webview:",
        "require-trusted-types-for": "'script'",
    }


@pytest.mark.parametrize(
    ("body", "status", "arguments"),
    [
        (b"{", 400, "the body must be a JSON object"),
        (b"\xff", 400, "the body must be a JSON object"),
        (b"[" * 60_000, 400, "the body must be a JSON object"),
        (b"[]", 400, "the body must be a JSON object"),
        (b"{}", 400, "text must be a string"),
        (b'{"text": 1}', 400, "text must be a string"),
        (b'{"text": "a", "target": 1}', 400, "target"),
        (b'{"text": "a", "file": "/etc/passwd"}', 400, "got 'file'; remove it"),
        (b'{"text": "a", "decode": [1]}', 400, "decode"),
        (b'{"text": "a", "decode": {"beam": {}}}', 400, "decode"),
        (b'{"text": "a", "mute": 1}', 400, "mute"),
        (b'{"text": "a", "mute": [["encoder", -1, 0]]}', 400, "a head must be"),
        (b'{"text": "a", "mute": [["encoder", true, 0]]}', 400, "a head must be"),
        (b'{"text": "a", "mute": [["other", 0, 0]]}', 400, "a head must be"),
        (b'{"text": "refuse"}', 400, "the text is refused"),
        (b'{"text": "break"}', 500, "bug in jumok"),
        (b" " * (64 * 2**10 + 1), 413, "65536 bytes"),
    ],
)  # fmt: skip
def test_an_invalid_request_gets_an_error_message(
    live: Server, body: bytes, status: int, arguments: str
) -> None:
    answer = live.request("/api/trace", body)
    assert answer.status == status, answer.body
    assert arguments in answer.error
    assert "\n" not in answer.error


def test_a_body_that_does_not_arrive(live: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BODY", Limits(body_seconds=0.1))
    caller = http.client.HTTPConnection("127.0.0.1", live.address.port, timeout=60)
    caller.putrequest("POST", "/api/trace")
    for name, value in {
        "X-Jumok-Token": live.address.token,
        "Content-Type": "application/json",
        "Content-Length": "9",
        "Accept-Language": "ko",
    }.items():
        caller.putheader(name, value)
    caller.endheaders(b"{")
    answer = caller.getresponse()
    assert answer.status == 408
    assert json.loads(answer.read())["error"].startswith("본문이 더 빨리 도착해야")
    caller.close()


def test_the_font_endpoint(live: Server) -> None:
    from io import BytesIO

    from fontTools.ttLib import TTFont

    answer = live.request("/api/font", {"text": "겨울</text> a\ud800"})
    assert (answer.status, answer.headers["content-type"]) == (200, "font/ttf")
    with TTFont(BytesIO(answer.body)) as font:
        assert set(font.getBestCmap()) == {ord(" "), ord("겨"), ord("울")}
    assert live.request("/api/font", {"text": 7}).status == 400
    assert live.request("/api/font", {"text": "a", "name": "b"}).status == 400


def test_other_content_types_are_rejected(live: Server) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = live.request("/api/trace", b'{"text": "a"}', Content_Type=kind)
        assert (answer.status, "application/json" in answer.error) == (415, True)


def test_a_trace_file_makes_no_new_traces(still: tuple[Server, str]) -> None:
    answer = still[0].request("/api/trace", {"text": "a"})
    assert answer.status == 400
    assert "trace file" in answer.error


def test_a_slow_model_is_not_waited_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TRACE_SECONDS", 0.2)
    with open_trace_store() as store, served(ServerContent(store, CARD, None, Echo())) as server:
        for language, expected in (("en", "not finished"), ("ko", "0초 안에 끝나지")):
            answer = server.request("/api/trace", {"text": "sleep"}, Accept_Language=language)
            assert answer.status == 503
            assert answer.error.startswith(expected)
        assert server.request("/").status == 200  # while the model still works


def test_a_full_queue(live: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_queue, "MAX_WAITING", 0)
    for language, expected in (("en", "0 requests are waiting"), ("ko", "요청 0개가 기다리고")):
        answer = live.request("/api/trace", {"text": "a"}, Accept_Language=language)
        assert answer.status == 503
        assert answer.error.startswith(expected)


def test_the_oldest_traces_are_deleted(file: Path) -> None:
    with open_trace_store() as store:
        names = [store.add(bytes([number])) for number in range(40)]
        kept = [name for name in names if store.path(name)]
        assert kept == names[-32:]
        given = store.register(file)
        assert store.path(given) == file
        folder = next(store.path(name) for name in kept).parent
        assert folder.stat().st_mode & 0o077 == 0
        assert len(list(folder.iterdir())) == 32
    assert not folder.exists()
    assert file.exists()


def test_a_ticket_is_valid_once(live: Server) -> None:
    page = f"{live.address.origin}#token={live.address.token}"
    path = f"/open/{live.tickets.issue(page)}"
    first, second = live.request(path, token=None), live.request(path, token=None)
    assert (first.status, first.headers["location"]) == (303, page)
    assert second.status == 404


def test_websockets_are_rejected(live: Server) -> None:
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Key": "x3JJHMbDL1EzLkh9GBhXDw==",
        "Sec_WebSocket_Version": "13",
    }
    assert live.request("/", **handshake).status in (200, 400)


def test_invalid_http_does_no_harm(live: Server) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 100):
        with socket.create_connection(("127.0.0.1", live.address.port), timeout=10) as caller:
            caller.sendall(nonsense)
    assert live.request("/").status == 200


def test_hostile_titles_stay_text(live: Server) -> None:
    for text in HOSTILE:
        answer = live.request("/api/trace", {"text": text[:20_000]})
        assert answer.status == 200, text


def test_two_host_headers_are_rejected(live: Server) -> None:
    caller = http.client.HTTPConnection("127.0.0.1", live.address.port, timeout=10)
    caller.putrequest("GET", "/", skip_host=True)
    caller.putheader("Host", f"127.0.0.1:{live.address.port}")
    caller.putheader("Host", "evil.example")
    caller.endheaders()
    assert caller.getresponse().status in (400, 421)
    caller.close()

"""The options of `jumok serve`, and the messages for wrong ones."""

import http.client
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from jumok.errors import InputError
from jumok.serving.limits import Limits
from jumok.serving.metrics import Metrics
from jumok.serving.openapi import Schema, openapi
from jumok.serving.server import ServeOptions, api_routes, model_sources, read_token, serve
from jumok.serving.service import Service, unique_names
from tests.cli.commands import call
from tests.errors import raises
from tests.serving.server_process import serving


def test_another_address_needs_a_token() -> None:
    with raises(InputError, "server.no_token"):
        serve(ServeOptions(folders=["run"], host="0.0.0.0"))


def test_the_token_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with raises(InputError, "server.token_file_unreadable"):
        read_token(path)
    path.write_text("short\n", encoding="utf-8")
    with raises(InputError, "web.short_token"):
        read_token(path)
    path.write_text("a-token-of-letters\n", encoding="utf-8")
    assert read_token(path) == "a-token-of-letters"


def test_names_are_different() -> None:
    with raises(InputError, "server.model_name_twice"):
        unique_names(["runs/nsmc", "old/nsmc/"])


def test_workers_divide_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_THREADS", "8")
    options = ServeOptions(folders=["a", "b"], workers=2)
    sources = model_sources(options, ["a", "b"])
    assert [[each.threads for each in model] for model in sources] == [[4, 4], [4, 4]]
    assert all(each.isolated for model in sources for each in model)
    for workers in (0, 1):
        ((alone,),) = model_sources(ServeOptions(folders=["a"], workers=workers), ["a"])
        assert (alone.threads, alone.isolated) == (8, workers == 1)


def test_options_of_one_model() -> None:
    options = ServeOptions(
        folders=["a", "b", "c"],
        precision=["a:int8", "float32"],
        decoding=("b:beam=2", "seed=1", "b:prefix=x:y"),
    )
    sources = [source for (source,) in model_sources(options, ["a", "b", "c"])]
    assert [each.options.precision for each in sources] == ["int8", "float32", "float32"]
    assert [each.options.decoding for each in sources] == [
        ("seed=1",),
        ("seed=1", "beam=2", "prefix=x:y"),
        ("seed=1",),
    ]
    for wrong in (
        ServeOptions(folders=["a"], precision=["x:int8"]),
        ServeOptions(folders=["a"], decoding=("x:beam=2",)),
    ):
        with raises(InputError, "server.unknown_name"):
            model_sources(wrong, ["a"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs/none", "--port", "0"], "must be"),
        (["runs/none", "--log", "xml"], "--log must be text or json"),
    ],
)
def test_the_command_ends_with_one_sentence(arguments: list[str], message: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "jumok", "serve", *arguments], capture_output=True, timeout=120
    )
    assert run.returncode == 2
    (line,) = run.stderr.decode().splitlines()  # it has not listened before
    assert line.startswith("jumok: ")
    assert message in line


def test_options_may_be_environment_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each option --a-b is JUMOK_SERVE_A_B; what the command line has comes first."""
    found: list[ServeOptions] = []
    monkeypatch.setattr("jumok.serving.server.serve", found.append)
    given = {"PORT": "9", "MAX_WAIT": "3", "REQUEST_TIMEOUT": "900", "MAX_BODY": "16"}
    given |= {"KEEP_ALIVE": "75", "CORS_ORIGIN": "https://a.org http://b.org:81", "TRACES": "1"}
    given |= {"HOST": "::1", "WORKERS": "2", "LOG": "json", "DECODING": "beam=2 seed=1"}
    for name, value in given.items():
        monkeypatch.setenv(f"JUMOK_SERVE_{name}", value)
    assert call(capsys, "serve", "a", "b", "--port", "7").code == 0
    (options,) = found
    assert (options.port, options.host, options.workers) == (7, "::1", 2)
    assert (options.traces, options.log) == (True, "json")
    assert options.decoding == ("beam=2", "seed=1")
    assert options.cors_origins == ("https://a.org", "http://b.org:81")
    limits = options.limits
    assert (limits.max_wait, limits.request_seconds, limits.keep_alive_seconds) == (3.0, 900.0, 75)
    assert (limits.max_deadline_ms, limits.stall_seconds) == (900_000, 900.0)
    assert limits.body_bytes == 2**24
    monkeypatch.setenv("JUMOK_SERVE_MAX_BODY", "0")
    ended = call(capsys, "serve", "a", "b")
    assert ended.code == 2
    assert "max-body" in ended.err.lower()


@pytest.mark.parametrize("origin", ["example.org", "https://a.org/", "https://A.org", "a://*"])
def test_an_origin_is_a_scheme_and_a_host(origin: str) -> None:
    with raises(InputError, "server.invalid_origin"):
        serve(ServeOptions(folders=["run"], cors_origins=[origin]))


def test_pages_of_allowed_origins(review_run: Path, tmp_path: Path) -> None:
    """And the other limits that options set."""
    limits = {"request_seconds": 7.0, "keep_alive_seconds": 1, "body_bytes": 1_000}
    origin = "https://page.example"
    with serving(tmp_path, [review_run], cors_origins=[origin], limits=limits) as server:
        asked = {"Origin": origin, "Sec_Fetch_Site": "cross-site"}
        reply = server.request("/v1/predict", {"texts": ["a"]}, **asked)
        assert reply.status == 200
        assert reply.headers["access-control-allow-origin"] == origin
        assert "x-jumok-model" in reply.headers["access-control-expose-headers"]
        preflight = {"Access_Control_Request_Method": "POST"}
        preflight["Access_Control_Request_Headers"] = "authorization,content-type"
        reply = server.request("/v1/predict", method="OPTIONS", **asked, **preflight)
        assert reply.status == 200
        assert "authorization" in reply.headers["access-control-allow-headers"]
        assert "POST" in reply.headers["access-control-allow-methods"]
        other = {"Origin": "https://other.example"}
        reply = server.request("/v1/predict", {"texts": ["a"]}, **other)
        assert reply.status == 403
        assert "access-control-allow-origin" not in reply.headers
        assert server.request("/v1/predict", method="OPTIONS", **other, **preflight).status == 400
        reply = server.request("/v1/predict", {"texts": ["a" * 1_000]}, **asked)
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (413, origin)
        assert server.request("/v1/limits").json["request_seconds"] == 7.0
        caller = http.client.HTTPConnection(*server.address, timeout=20)
        caller.request("GET", "/health")
        caller.getresponse().read()
        caller.sock.settimeout(4)
        assert caller.sock.recv(1) == b""  # closed after a second, not after 5
        caller.close()


def described(**options: bool) -> Schema:
    """The description of a server without models."""
    service = Service({})
    return openapi("1", api_routes(service, Limits(), Metrics(service), **options), token=False)


def test_the_description_names_the_keys_that_requests_may_have() -> None:
    """Found by schemathesis: keys of decoding, null as a model, items of TEI's batches."""
    paths = described(traces=True)["paths"]

    def accepts(path: str, content: object) -> bool:
        body = paths[path]["post"]["requestBody"]["content"]["application/json"]
        return Draft202012Validator(body["schema"]).is_valid(content)

    assert accepts("/v1/predict", {"texts": ["a"], "model": None, "decoding": {"beam": 2}})
    assert not accepts("/v1/predict", {"texts": ["a"], "decoding": {"kernel": "native"}})
    assert not accepts("/predict", {"inputs": [None]})
    assert accepts("/predict", {"inputs": [["a"], ["b", "c"]]})
    assert accepts("/v1/trace", {"text": "a"})
    assert accepts("/v1/completions", {"prompt": "a", "n": 1, "logprobs": None})
    assert not accepts("/v1/completions", {"prompt": "a", "n": 0})
    assert not accepts("/v1/predict", {"texts": ["a"], "decoding": {"beam": 0}})

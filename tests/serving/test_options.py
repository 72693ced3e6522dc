"""The options of `jumok serve`, and the messages for wrong ones."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from jumok.errors import InputError
from jumok.serving.launch import _ahead, launch, launched_ahead
from jumok.serving.limits import Limits
from jumok.serving.metrics import Metrics
from jumok.serving.openapi import Schema, openapi
from jumok.serving.server import ServeOptions, api_routes, model_sources, read_token, serve
from jumok.serving.service import Service, unique_names
from tests.errors import raises


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


def test_workers_divide_the_cores_and_models_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_THREADS", "8")
    options = ServeOptions(folders=["a", "b"], workers=2)
    sources = model_sources(options, ["a", "b"], turn_fd=7)
    assert [[each.threads for each in model] for model in sources] == [[4, 4], [4, 4]]
    assert [[each.turn_group for each in model] for model in sources] == [[0, 1], [0, 1]]
    assert {each.turn_fd for model in sources for each in model} == {7}
    ((alone,),) = model_sources(ServeOptions(folders=["a"]), ["a"], turn_fd=7)
    assert (alone.threads, alone.turn_fd) == (8, 7)


def test_options_of_one_model() -> None:
    options = ServeOptions(
        folders=["a", "b", "c"],
        precision=["a:int8", "float32"],
        decoding=("b:beam=2", "seed=1", "b:prefix=x:y"),
    )
    sources = [source for (source,) in model_sources(options, ["a", "b", "c"], turn_fd=7)]
    assert [each.precision for each in sources] == ["int8", "float32", "float32"]
    assert [each.decoding for each in sources] == [
        ("seed=1",),
        ("seed=1", "beam=2", "prefix=x:y"),
        ("seed=1",),
    ]
    for wrong in (
        ServeOptions(folders=["a"], precision=["x:int8"]),
        ServeOptions(folders=["a"], decoding=("x:beam=2",)),
    ):
        with raises(InputError, "server.unknown_name"):
            model_sources(wrong, ["a"], turn_fd=7)


def test_processes_started_ahead_are_used_once_or_ended() -> None:
    with launched_ahead(2):
        used, unneeded = launch(), _ahead[0]
        assert used is not unneeded
        assert used.process.poll() is None
    assert unneeded.process.returncode == -signal.SIGKILL
    used.connection.close()
    assert used.process.wait(60) == 0  # the end of its connection ends it
    assert not _ahead


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
    last = run.stderr.decode().splitlines()[-1]
    assert last.startswith("jumok: ")
    assert message in last


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

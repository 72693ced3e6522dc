"""Models of the Hub by name: from its cache, without the network; and a run that is pushed."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"

OFFLINE = """
import json, sys
import jumok
for name in ("someone/reviews", "someone/else", "runs/absent"):
    try:
        print(json.dumps(jumok.load(name)("재미있어요").label))
    except jumok.JumokError as error:
        print(json.dumps(str(error)))
run = jumok.train(sys.argv[1], out="new", model__init="someone/reviews", training__steps=2,
                  training__evaluate_every=2)
print(json.dumps(run.results["initialized_from"]))
"""

PUSH = """
import sys
import jumok
print(jumok.Run(sys.argv[1]).push_to_hub("someone/reviews", private=True))
"""


def python(code: str, *arguments: object, home: Path, **more: str) -> str:
    """The output of a program with its own home of the Hub's library."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=kept | {"HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1"} | more,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def offline(review_run: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What OFFLINE prints next to a cache that has the run as someone/reviews."""
    home = tmp_path_factory.mktemp("home")
    model = home / "hub" / "models--someone--reviews"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for name in ("recipe.toml", "config.json", "model.safetensors", "vocabulary.model"):
        (snapshot / name).write_bytes((review_run / name).read_bytes())
    (home / "runs").mkdir()
    printed = python(OFFLINE, review_run / "recipe.toml", home=home, HF_HUB_OFFLINE="1")
    return [json.loads(line) for line in printed.splitlines()]


def test_a_model_in_the_cache_is_loaded_by_name(offline: list[Any]) -> None:
    assert offline[0] in ("positive", "negative")
    assert "not in the cache, and the Hub cannot be reached" in offline[1]


def test_a_path_whose_folder_exists_is_not_searched_on_the_hub(offline: list[Any]) -> None:
    assert "runs/absent must be a run, got no such folder" in offline[2]


def test_a_training_begins_from_a_model_in_the_cache(offline: list[Any]) -> None:
    begun = str(offline[3])
    assert "encoder" in begun or "weights" in begun or "tensors" in begun


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub as an upload needs; keeps what it gets."""

    requests: list[tuple[str, Any]]
    files: dict[str, bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = self.path.split("?")[0]
        if name.endswith("/preupload/main"):
            announced = json.loads(body)["files"]
            files = [
                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                for each in announced
            ]
            self._answer({"files": files})
        elif name.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url = f"http://{self.headers['Host']}/someone/reviews/commit/{COMMIT}"
            self._answer({"commitUrl": url, "commitOid": COMMIT, "success": True})
        else:
            self.requests.append((name, json.loads(body)))
            self._answer({"url": f"http://{self.headers['Host']}/someone/reviews"})

    def do_GET(self) -> None:
        self._answer({"id": "someone/reviews", "sha": COMMIT, "siblings": []})

    def _answer(self, tree: object) -> None:
        body = json.dumps(tree).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def hub() -> Iterator[tuple[str, type[Hub]]]:
    """A local server and what it got."""

    class Fresh(Hub):
        requests = []  # noqa: RUF012
        files = {}  # noqa: RUF012

    server = ThreadingHTTPServer(("127.0.0.1", 0), Fresh)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Fresh
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_run_is_pushed_without_its_data_and_checkpoints(
    hub: tuple[str, type[Hub]], review_run: Path, tmp_path: Path
) -> None:
    address, got = hub
    environment = {"HF_ENDPOINT": address, "HF_TOKEN": "hf_local", "HF_HUB_DISABLE_XET": "1"}
    printed = python(PUSH, review_run, home=tmp_path, **environment)
    assert printed.startswith(address)
    [(path, created)] = [each for each in got.requests if each[0].endswith("/repos/create")]
    assert created["name"] == "reviews" or created["name"] == "someone/reviews", path
    assert created.get("private") is True or created.get("visibility") == "private"
    needed = {"recipe.toml", "config.json", "model.safetensors", "vocabulary.model"}
    assert needed | {"results.json"} <= set(got.files)
    assert not any(name.startswith(("checkpoints", "data")) for name in got.files)
    for name in needed:
        assert got.files[name] == (review_run / name).read_bytes()

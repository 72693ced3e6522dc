"""Models by name: the real huggingface_hub against a cache on disk and a hub on this machine."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jumok.errors import InputError
from jumok.pretrained.hub import _SETTINGS, resolve
from jumok.text.pretrained import files

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ASK = """
import json, sys
from jumok.errors import JumokError
from jumok.pretrained.hub import commit_of, resolve
for name, revision in json.loads(sys.argv[1]):
    try:
        folder = resolve(name, revision)
        print(json.dumps([commit_of(folder), sorted(path.name for path in folder.iterdir())]))
    except JumokError as error:
        print(json.dumps(str(error)))
"""


def ask(
    home: Path, asked: Sequence[tuple[str, str | None]], **environment: str
) -> list[list[object] | str]:
    """What `resolve` gives for every (name, revision) in a process with this environment.

    The library reads its environment when it is imported, so it gets a process of its own.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(asked)],
        env=kept | {"HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1"} | environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def cached(home: Path, name: str, files: Sequence[str], commit: str = COMMIT) -> None:
    """A model in the hub's cache, in its own layout: refs, blobs, links to them."""
    model = home / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = model / "snapshots" / commit
    for folder in (model / "refs", model / "blobs", snapshot):
        folder.mkdir(parents=True)
    (model / "refs" / "main").write_text(commit)
    for file in files:
        (model / "blobs" / f"of {file}").write_text("{}")
        (snapshot / file).symlink_to(f"../../blobs/of {file}")


def test_a_folder_wins(tmp_path: Path) -> None:
    assert resolve(tmp_path) == tmp_path
    assert resolve(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    "name",
    ["a/b/c", "../a", "a/../b", "/a/b", "a b", "a--b", "a/", "https://a/b", "x" * 200, "한/글"],
)
def test_what_is_neither_folder_nor_name(name: str) -> None:
    with pytest.raises(InputError, match="no such folder, and no name of a model"):
        resolve(name)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="a file; give the folder"):
        resolve(path)


def test_without_huggingface_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r'no such folder; .*pip install "jumok\[hf\]"'):
        resolve("owner/of-nothing")


def test_every_file_that_a_tokeniser_may_have_is_fetched() -> None:
    assert {*files._VOCABULARIES, *files._SETTINGS} <= {*_SETTINGS}


def test_offline_the_cache_answers(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    cached(tmp_path, "klue/bert-base", ["config.json", "vocab.txt", "model.safetensors"])
    cached(tmp_path, "old/model", ["config.json", "pytorch_model.bin"])
    cached(tmp_path, "gpt2", ["config.json", "model.safetensors"], "ab" * 20)
    answers = ask(
        tmp_path,
        [
            ("klue/bert-base", None),
            ("klue/bert-base", COMMIT),
            ("old/model", "main"),
            ("gpt2", None),
            ("klue/bert-base", "ff" * 20),
            ("klue/roberta-base", None),
        ],
        HF_HUB_OFFLINE="1",
    )
    assert answers[0] == [COMMIT, ["config.json", "model.safetensors", "vocab.txt"]]
    assert answers[1] == answers[0]
    assert answers[2] == [COMMIT, ["config.json", "pytorch_model.bin"]]
    assert answers[3] == ["ab" * 20, ["config.json", "model.safetensors"]]
    for answer in answers[4:]:
        assert "the Hub cannot be asked" in answer
        assert "\n" not in answer


REPOSITORIES = {
    "new/model": ["config.json", "model.safetensors", "pytorch_model.bin", "modeling_new.py"],
    "old/model": ["config.json", "pytorch_model.bin", "modeling_old.py", "README.md"],
}


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub as answers for a handful of repositories."""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        parts = urlsplit(self.path).path.strip("/").split("/")
        api = parts[0] == "api"
        name = "/".join(parts[2:4] if api else parts[:2])
        self.server.seen.append(self.path)  # type: ignore[attr-defined]
        if name == "gated/model":
            return self.send(403, b"", {"X-Error-Code": "GatedRepo"})
        if name not in REPOSITORIES:
            return self.send(401, b"", {"X-Error-Code": "RepoNotFound"})
        revision = parts[5] if api and len(parts) > 5 else parts[3] if len(parts) > 3 else "main"
        if revision not in ("main", COMMIT):
            return self.send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        files = REPOSITORIES[name]
        if not api:
            tag = f'"{parts[-1]}"'
            return self.send(200, parts[-1].encode(), {"ETag": tag, "X-Repo-Commit": COMMIT})
        if "tree" in parts:
            rows = [
                {"type": "file", "path": file, "size": len(file), "oid": file} for file in files
            ]
            return self.send(200, json.dumps(rows).encode(), {})
        told = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]}
        return self.send(200, json.dumps(told).encode(), {})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def hub() -> Iterator[tuple[str, list[str]]]:
    """The address of a hub at work on this machine, and what it was asked for so far."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.seen  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_from_a_hub_come_weights_and_no_code(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with hub() as (address, seen):
        answers = ask(
            tmp_path,
            [
                ("new/model", None),
                ("old/model", COMMIT),
                ("gated/model", None),
                ("no/model", None),
                ("new/model", "tomorrow"),
            ],
            HF_ENDPOINT=address,
        )
    assert answers[0] == [COMMIT, ["config.json", "model.safetensors"]]
    assert answers[1] == [COMMIT, ["config.json", "pytorch_model.bin"]]
    assert "asks for consent" in answers[2]
    assert "no such folder, and the Hub shows no model of that name" in answers[3]
    assert "no revision at tomorrow" in answers[4]
    assert not any(path.endswith(".py") for path in seen)
    with_network_gone = ask(
        tmp_path, [("new/model", None), ("other/model", None)], HF_ENDPOINT=address
    )
    assert with_network_gone[0] == answers[0]
    assert "the Hub cannot be asked" in with_network_gone[1]

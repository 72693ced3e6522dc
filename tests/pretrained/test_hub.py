"""Models by name: the real huggingface_hub with a local cache and a local server."""

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
from jumok.pretrained.hub import _SENTENCE_MODULES, CONFIG_FILES, resolve
from jumok.text.pretrained import files
from tests.errors import raises

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RESOLVE = """
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


def run_resolve(
    home: Path, requests: Sequence[tuple[str, str | None]], **environment: str
) -> list[list[object] | str]:
    """The result of `resolve` for every (name, revision) in a process with this environment.

    The library reads its environment when it is imported, so a new process is needed.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE, json.dumps(requests)],
        env=kept | {"HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1"} | environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def cached(home: Path, name: str, files: Sequence[str], commit: str = COMMIT) -> None:
    """Write a model to the cache in the layout of the library: refs, blobs, links to blobs."""
    model = home / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = model / "snapshots" / commit
    for folder in (model / "refs", model / "blobs", snapshot):
        folder.mkdir(parents=True)
    (model / "refs" / "main").write_text(commit)
    for file in files:
        (model / "blobs" / f"of {file}").write_text("{}")
        (snapshot / file).symlink_to(f"../../blobs/of {file}")


def test_local_folder_takes_precedence(tmp_path: Path) -> None:
    assert resolve(tmp_path) == tmp_path
    assert resolve(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    "name",
    ["a/b/c", "../a", "a/../b", "/a/b", "a b", "a--b", "a/", "https://a/b", "x" * 200, "한/글"],
)
def test_invalid_names(name: str) -> None:
    with raises(InputError, "pretrained.not_a_model_name"):
        resolve(name)


def test_file_instead_of_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"")
    with raises(InputError, "pretrained.not_a_folder"):
        resolve(path)


def test_all_tokenizer_files_are_downloaded() -> None:
    assert {*files._VOCABULARIES, *files._SETTINGS} <= {*CONFIG_FILES}


def test_offline_uses_the_cache(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    cached(tmp_path, "klue/bert-base", ["config.json", "vocab.txt", "model.safetensors"])
    cached(tmp_path, "old/model", ["config.json", "pytorch_model.bin"])
    cached(tmp_path, "gpt2", ["config.json", "model.safetensors"], "ab" * 20)
    answers = run_resolve(
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
        assert "the Hub cannot be reached" in answer
        assert "\n" not in answer


REPOSITORIES = {
    "new/model": ["config.json", "model.safetensors", "pytorch_model.bin", "modeling_new.py"],
    "old/model": ["config.json", "pytorch_model.bin", "modeling_old.py", "README.md"],
}


class Hub(BaseHTTPRequestHandler):
    """A minimal Hub API for a few repositories."""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        parts = urlsplit(self.path).path.strip("/").split("/")
        api = parts[0] == "api"
        name = "/".join(parts[2:4] if api else parts[:2])
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
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
        info = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]}
        return self.send(200, json.dumps(info).encode(), {})

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
    """The address of a local Hub server, and the paths that were requested from it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.paths = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.paths  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_weights_and_no_code_are_downloaded(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with hub() as (address, paths):
        answers = run_resolve(
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
    assert "the model is gated" in answers[2]
    assert "no such folder, and no such model on the Hub" in answers[3]
    assert "no such revision at tomorrow" in answers[4]
    assert not any(path.endswith(".py") for path in paths)
    offline = run_resolve(
        tmp_path, [("new/model", None), ("other/model", None)], HF_ENDPOINT=address
    )
    assert offline[0] == answers[0]
    assert "the Hub cannot be reached" in offline[1]


def test_the_modules_of_sentence_transformers_are_downloaded() -> None:
    """What decides the vectors of a text, and no other files."""
    hub = pytest.importorskip("huggingface_hub")
    needed = ["modules.json", "1_Pooling/config.json", "2_Dense/config.json"]
    needed += ["2_Dense/model.safetensors", "2_Dense/pytorch_model.bin", "config.json"]
    others = ["onnx/model.onnx", "openvino/config.json", "1_Pooling/code.py", "README.md"]
    patterns = [*CONFIG_FILES, *_SENTENCE_MODULES]
    kept = hub.utils.filter_repo_objects([*needed, *others], allow_patterns=patterns)
    assert sorted(kept) == sorted(needed)

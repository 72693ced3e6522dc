"""Corpora come from a real server on this machine, go on where they broke off, are checked."""

import gzip
import hashlib
import lzma
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jumok.data.corpora.corpus import Corpus, CorpusFile
from jumok.data.corpora.download import copy_corpus, corpus_status, download_corpus, fetch, is_known
from jumok.data.corpora.paths import find_file
from jumok.data.corpora.registry import CORPORA
from jumok.errors import InputError, StorageError
from tests.errors import raises

CONTENT = {
    "train.txt": "".join(f"{n}번째 줄\n" for n in range(50_000)).encode(),
    "test.txt": "시험\n".encode(),
}


class Server(ThreadingHTTPServer):
    """Serves CONTENT, with ranges by default, and can break off in the middle."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.breaks_after: int | None = None
        self.knows_ranges = True
        self.content = dict(CONTENT)
        self.requests: list[tuple[str, str | None]] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name, expected = self.path.removeprefix("/"), self.headers["Range"]
        self.server.requests.append((name, expected))
        if name not in self.server.content:
            self.send_error(404)
            return
        content, start = self.server.content[name], 0
        if expected and self.server.knows_ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", expected)[1])
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = self.server.breaks_after
        self.wfile.write(content[start : None if end is None else start + end])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on the screen."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def known(name: str) -> CorpusFile:
    content = CONTENT[name]
    return CorpusFile(name, hashlib.sha256(content).hexdigest(), len(content), f"https://x/{name}")


CORPUS = Corpus(
    name="lines",
    description="lines for tests",
    licence="CC0 1.0",
    url="https://example.org",
    columns={"text": "text"},
    files=(known("train.txt"), known("test.txt")),
)


def test_a_corpus_is_fetched_once(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "lines"
    paths = list(download_corpus(CORPUS, folder, server.base))
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert sorted(path.name for path in folder.iterdir()) == ["test.txt", "train.txt"]
    assert list(download_corpus(CORPUS, folder, server.base)) == paths
    assert server.requests == [("train.txt", None), ("test.txt", None)]


def test_an_interrupted_download_resumes(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "train.txt"
    server.breaks_after = 300_000
    with pytest.raises(StorageError, match=r"300,000 of .* run the same command again to resume"):
        fetch(f"{server.base}/train.txt", target, known("train.txt"))
    assert not target.exists()
    server.breaks_after = None
    fetch(f"{server.base}/train.txt", target, known("train.txt"))
    assert target.read_bytes() == CONTENT["train.txt"]
    assert server.requests == [("train.txt", None), ("train.txt", "bytes=300000-")]
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def test_a_server_without_ranges_restarts_the_download(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "train.txt"
    server.knows_ranges = False
    (tmp_path / "train.txt.part").write_bytes(CONTENT["train.txt"][:1_000])
    fetch(f"{server.base}/train.txt", target, known("train.txt"))
    assert target.read_bytes() == CONTENT["train.txt"]


def test_a_whole_part_needs_no_server(tmp_path: Path) -> None:
    target = tmp_path / "train.txt"
    (tmp_path / "train.txt.part").write_bytes(CONTENT["train.txt"])
    fetch("http://127.0.0.1:9/train.txt", target, known("train.txt"))
    assert target.read_bytes() == CONTENT["train.txt"]


def test_other_content_is_never_kept(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "train.txt"
    server.content["train.txt"] = CONTENT["train.txt"].replace(b"7", b"8")
    with raises(InputError, "corpus.wrong_file"):
        fetch(f"{server.base}/train.txt", target, known("train.txt"))
    assert list(tmp_path.iterdir()) == []
    server.content["train.txt"] = CONTENT["train.txt"] * 3
    with raises(InputError, "corpus.wrong_file"):
        fetch(f"{server.base}/train.txt", target, known("train.txt"))
    assert list(tmp_path.iterdir()) == []


def test_a_part_longer_than_the_server_has_is_dropped(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "train.txt"
    server.content["train.txt"] = b"short"
    (tmp_path / "train.txt.part").write_bytes(b"a wrong beginning")
    with pytest.raises(StorageError, match="416"):
        fetch(f"{server.base}/train.txt", target, known("train.txt"))
    server.content["train.txt"] = CONTENT["train.txt"]
    fetch(f"{server.base}/train.txt", target, known("train.txt"))
    assert target.read_bytes() == CONTENT["train.txt"]


def test_addresses_that_do_not_respond(server: Server, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="404"):
        fetch(f"{server.base}/none.txt", tmp_path / "train.txt", known("train.txt"))
    server.server_close()
    with pytest.raises(StorageError, match=r"could not be downloaded .* --from"):
        fetch(f"{server.base}/train.txt", tmp_path / "train.txt", known("train.txt"))
    with raises(InputError, "corpus.not_a_url"):
        fetch("file:///etc/passwd", tmp_path / "train.txt", known("train.txt"))


def test_a_local_folder_is_used(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "cache"
    (source / "lines").mkdir(parents=True)
    (source / "lines" / "train.txt.xz").write_bytes(lzma.compress(CONTENT["train.txt"]))
    (source / "test.txt").write_bytes(CONTENT["test.txt"])
    taken = list(copy_corpus(CORPUS, source, folder))
    assert [path.name for path in taken] == ["train.txt.xz", "test.txt"]
    assert all(is_known(path, file) for path, file in zip(taken, CORPUS.files, strict=True))
    assert sorted(folder.iterdir()) == sorted(taken)


def test_a_local_file_is_recognised_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "some.name").write_bytes(CONTENT["train.txt"])
    (path,) = copy_corpus(CORPUS, tmp_path / "some.name", tmp_path / "cache")
    assert path == tmp_path / "cache" / "train.txt"
    (tmp_path / "other").write_bytes(b"other")
    with raises(InputError, "corpus.unknown_content"):
        list(copy_corpus(CORPUS, tmp_path / "other", tmp_path / "cache"))


def test_a_local_copy_is_verified(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with raises(InputError, "corpus.file_missing"):
        list(copy_corpus(CORPUS, source, tmp_path / "cache"))
    (source / "train.txt").write_bytes(b"other")
    with raises(InputError, "corpus.wrong_file"):
        list(copy_corpus(CORPUS, source, tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()
    (source / "train.txt").write_bytes(CONTENT["train.txt"])
    (tmp_path / "file").write_text("where a folder should be")
    with pytest.raises(StorageError, match="cannot be written"):
        list(copy_corpus(CORPUS, source, tmp_path / "file" / "cache"))


def test_existing_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(tmp_path))
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "train.txt").write_bytes(b"changed")
    assert corpus_status(CORPUS) == {
        "train.txt": ("damaged", tmp_path / "lines" / "train.txt"),
        "test.txt": ("absent", None),
    }


def test_built_in_corpora_cannot_be_fetched() -> None:
    with raises(InputError, "corpus.nothing_to_download"):
        list(download_corpus(CORPORA["numbers"]))
    with raises(InputError, "corpus.unknown_content"):
        list(copy_corpus(replace(CORPUS, files=()), Path(__file__)))


def test_a_compressed_file_is_fetched_and_resumed_unchanged(server: Server, tmp_path: Path) -> None:
    packed = gzip.compress(CONTENT["train.txt"])
    server.content["raw/train.txt.gz"] = packed
    address = f"{server.base}/raw/train.txt.gz"
    file = replace(known("train.txt"), url=address, compressed_size=len(packed))
    server.breaks_after = len(packed) // 2
    with pytest.raises(StorageError, match=r"could not be downloaded .*run the same command again"):
        list(download_corpus(replace(CORPUS, files=(file,)), tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt.part.gz"]
    server.breaks_after = None
    (path,) = download_corpus(replace(CORPUS, files=(file,)), tmp_path)
    assert path == tmp_path / "train.txt.gz"
    assert path.read_bytes() == packed
    assert server.requests[-1][1] == f"bytes={len(packed) // 2}-"
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt.gz"]


def test_derived_corpora_have_no_address(tmp_path: Path) -> None:
    made = replace(CORPUS, files=(replace(known("train.txt"), url=""),))
    with raises(InputError, "corpus.derived_file"):
        list(download_corpus(made, tmp_path))
    (tmp_path / "train.txt").write_bytes(CONTENT["train.txt"])
    assert list(download_corpus(made, tmp_path)) == [tmp_path / "train.txt"]


def test_a_damaged_file_does_not_hide_a_valid_one(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Packed or not, fetched or taken from a folder; a damaged file is kept and reported."""
    (tmp_path / "train.txt").write_bytes(b"damaged")
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(CONTENT["train.txt"]))
    train, test = download_corpus(CORPUS, tmp_path, server.base)
    assert (train.name, test.name) == ("train.txt.gz", "test.txt")
    assert server.requests == [("test.txt", None)]
    assert (tmp_path / "train.txt.damaged").read_bytes() == b"damaged"
    assert "train.txt is not the known train.txt; it is now train.txt.damaged" in caplog.text
    assert find_file([tmp_path], "train.txt") == train

    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "train.txt").write_bytes(b"damaged")
    (taken,) = copy_corpus(CORPUS, train, folder)
    assert find_file([folder], "train.txt") == taken
    assert next(iter(download_corpus(CORPUS, folder, server.base))) == taken


def test_a_damaged_file_that_cannot_be_moved_is_reported(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes(b"damaged")
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(CONTENT["train.txt"]))
    (tmp_path / "train.txt.damaged").mkdir()
    with pytest.raises(StorageError, match=r"hides train\.txt\.gz; move it away"):
        list(download_corpus(CORPUS, tmp_path, server.base))


def test_corpora_may_share_a_folder(tmp_path: Path, cache_home: Path) -> None:
    shared = replace(CORPUS, files=(replace(known("test.txt"), folder="others"),))
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "test.txt").write_bytes(CONTENT["test.txt"])
    (taken,) = copy_corpus(shared, tmp_path)
    assert taken == cache_home / "jumok" / "data" / "others" / "test.txt"
    assert corpus_status(shared) == {"test.txt": ("present", taken)}
    assert list(download_corpus(shared)) == [taken]

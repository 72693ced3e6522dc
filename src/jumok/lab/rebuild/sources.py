"""Files of a pinned commit of a public git repository, read from a clone.

The commit id is a checksum of everything in it; the SHA-256 of the files that are read is checked
as well. git is the only program that is needed. Only the objects of a clone are read: its
configuration and hooks may name programs, which git would run.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jumok.data.corpora.paths import downloads
from jumok.errors import DataError, StorageError

HOST = "https://github.com"
CACHE = "sources"  # the folder of the clones in the user's cache

# Nothing is fetched, and neither the user's nor the system's configuration is read.
_READ_ONLY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "",
}


@dataclass(frozen=True)
class Source:
    """Some files of one commit; `sha256` is of their paths and checksums, in the order of paths.

    `under` are the folders and files that are read, `suffix` is the end of their names.
    """

    repository: str  # OWNER/NAME on GitHub
    commit: str
    under: tuple[str, ...]
    suffix: str
    n_files: int
    sha256: str

    @property
    def name(self) -> str:
        """The last part of the repository's name."""
        return self.repository.rpartition("/")[2]


def read_source(source: Source, folder: Path | None = None, host: str = HOST) -> dict[str, bytes]:
    """The content of the files of a source by path, in the order of paths.

    `folder` holds clones, NAME or NAME.git; without it the commit is fetched into the user's cache,
    where it stays. Raises InputError for a missing clone or commit and for other files,
    StorageError when the commit cannot be fetched.
    """
    repository = _fetched(source, host) if folder is None else _local(source, folder)
    found = dict(_files(repository, source))
    if len(found) != source.n_files or digest(found) != source.sha256:
        raise DataError(
            "data.wrong_files",
            "{repository} at {commit} must have the {n_files:,} files with sha256 {sha256}, got "
            "{n_found:,} with {digest}; clone it again",
            repository=source.repository,
            commit=source.commit[:12],
            n_files=source.n_files,
            sha256=source.sha256[:12],
            n_found=len(found),
            digest=digest(found)[:12],
        )
    return found


def digest(files: Mapping[str, bytes]) -> str:
    """The SHA-256 of a list of files: `<sha256 of the content>  <path>` and a line end for each.

    >>> digest({"a.txt": b"one"})[:12]
    '982a5d10047b'
    """
    lines = (f"{hashlib.sha256(content).hexdigest()}  {path}\n" for path, content in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _local(source: Source, folder: Path) -> Path:
    """The git directory of a clone in a folder."""
    names = (source.name, f"{source.name}.git")
    for path in (folder / name / inner for name in names for inner in (".git", "")):
        if (path / "objects").is_dir():
            if not _has(path, source):
                raise DataError(
                    "data.clone_without_commit",
                    "{path} must contain the commit {commit}, got a clone without it; fetch it "
                    "with git fetch {host}/{repository} {commit}",
                    path=path,
                    commit=source.commit,
                    host=HOST,
                    repository=source.repository,
                )
            return path
    raise DataError(
        "data.no_clone",
        "{folder} must contain a clone of {host}/{repository} named {source}, got none; clone it "
        "there",
        folder=folder,
        host=HOST,
        repository=source.repository,
        source=source.name,
    )


def _fetched(source: Source, host: str) -> Path:
    """The git directory in the cache that has the commit; it is fetched if it is missing."""
    path = downloads(CACHE) / f"{source.repository.replace('/', '+')}.git"
    if not _has(path, source):
        address = f"{host}/{source.repository}"
        try:
            path.mkdir(parents=True, exist_ok=True)
            own = os.environ | {"GIT_DIR": str(path), "GIT_TERMINAL_PROMPT": "0"}
            _git(own, "init", "--quiet", "--bare")
            _git(own, "fetch", "--quiet", "--depth", "1", address, source.commit)
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", b"") or str(error).encode()
            reason = output.decode(errors="replace").strip().splitlines()[-1:]
            raise StorageError(
                "data.not_fetched",
                "{address} could not be fetched ({reason}); run the same command again, or name "
                "a folder with a clone with --from",
                address=address,
                reason=" ".join(reason),
            ) from error
    return path


def _has(repository: Path, source: Source) -> bool:
    try:
        _read(repository, "cat-file", "-e", f"{source.commit}^{{tree}}")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _files(repository: Path, source: Source) -> Iterator[tuple[str, bytes]]:
    """The path and content of each file of a source."""
    listed = _read(repository, "ls-tree", "-r", "-z", source.commit, "--", *source.under)
    entries = [entry.split("\t", 1) for entry in listed.decode().split("\0") if entry]
    blobs = {path: info.split()[2] for info, path in entries if path.endswith(source.suffix)}
    names = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    content = _read(repository, "cat-file", "--batch", data=names)
    start = 0
    for path in blobs:
        end = content.index(b"\n", start)
        header = content[start:end].split()
        if header[-1] == b"missing":
            raise DataError(
                "data.clone_without_object",
                "{repository} must contain {path}, got a clone without it; fetch it",
                repository=repository,
                path=path,
            )
        size = int(header[2])
        yield path, content[end + 1 : end + 1 + size]
        start = end + size + 2


def _read(repository: Path, *words: str, data: bytes = b"") -> bytes:
    """The output of a git command that sees the objects of a repository, and no other file of it.

    The git directory is an empty one of our own.
    """
    user = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with _empty_repository() as folder:
        directories = {"GIT_DIR": folder, "GIT_OBJECT_DIRECTORY": str(repository / "objects")}
        return _git(user | directories | _READ_ONLY, *words, data=data)


@contextmanager
def _empty_repository() -> Iterator[str]:
    """A git directory without configuration, hooks and objects."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "refs").mkdir()
        (Path(folder) / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
        yield folder


def _git(environment: Mapping[str, str], *words: str, data: bytes = b"") -> bytes:
    program = shutil.which("git")
    if program is None:
        raise DataError(
            "data.building_needs_git",
            "building a corpus needs the program git, which is not installed",
        )
    done = subprocess.run(  # noqa: S603 - the words are ours
        [program, *words], input=data, capture_output=True, check=True, env=environment
    )
    return done.stdout

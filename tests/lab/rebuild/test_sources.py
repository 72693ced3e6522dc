"""Files of pinned commits, from clones and fetched from a repository on this machine."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jumok.errors import InputError, StorageError
from jumok.lab.rebuild.sources import Source, digest, read_source
from tests.errors import raises

FILES = {"texts/가.po": "하나\n".encode(), "texts/b.po": b"two\n"}


def git(folder: Path, *words: str) -> str:
    """The output of a git command in a folder."""
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A repository host/owner/texts with two commits; the source is the first one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "host" / "owner" / "texts"
    (folder / "texts").mkdir(parents=True)
    git(folder, "init", "--quiet")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")  # as on GitHub
    for path, content in {**FILES, "texts/README.md": b"no catalogue"}.items():
        (folder / path).write_bytes(content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "first")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "texts" / "b.po").write_bytes(b"changed\n")
    git(folder, "commit", "--quiet", "-a", "-m", "second")
    ordered = dict(sorted(FILES.items()))
    return Source("owner/texts", commit, ("texts",), ".po", 2, digest(ordered))


def test_a_pinned_commit_is_fetched_once(source: Source, tmp_path: Path) -> None:
    host = f"file://{tmp_path}/host"
    assert read_source(source, host=host) == FILES
    (tmp_path / "host").rename(tmp_path / "away")
    assert read_source(source, host=host) == FILES  # from the cache
    (cached,) = (tmp_path / "cache").glob("jumok/data/sources/*")
    assert cached.name == "owner+texts.git"


@pytest.mark.parametrize("name", ["texts", "texts.git"])
def test_a_clone_is_read(source: Source, tmp_path: Path, name: str) -> None:
    """A clone with a work tree or a bare one, whatever is checked out."""
    bare = ("--bare",) if name.endswith(".git") else ()
    (tmp_path / "clones").mkdir()
    git(tmp_path, "clone", "--quiet", *bare, "host/owner/texts", f"clones/{name}")
    assert list(read_source(source, tmp_path / "clones")) == sorted(FILES)


def test_a_clone_that_is_missing_or_too_young(source: Source, tmp_path: Path) -> None:
    (tmp_path / "clones").mkdir()
    with raises(InputError, "data.no_clone"):
        read_source(source, tmp_path / "clones")
    git(
        tmp_path,
        "clone",
        "--quiet",
        "--depth=1",
        f"file://{tmp_path}/host/owner/texts",
        "clones/texts",
    )
    with pytest.raises(InputError, match=f"must contain the commit {source.commit}"):
        read_source(source, tmp_path / "clones")


def test_a_clone_runs_no_program(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its configuration nor the user's variables: a promisor remote, hooks, a monitor."""
    marker = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n", encoding="ascii")
    program.chmod(0o755)
    hostile = tmp_path / "hostile" / "texts"
    hostile.mkdir(parents=True)
    git(hostile, "init", "--quiet")
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (hostile / ".git" / "hooks" / hook).symlink_to(program)
    for key, value in {
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://nowhere.invalid/x",
        "core.sshCommand": str(program),
        "core.fsmonitor": str(program),
        "core.alternateRefsCommand": str(program),
        "core.pager": str(program),
        "credential.helper": str(program),
    }.items():
        git(hostile, "config", key, value)
    with pytest.raises(InputError, match="got a clone without it"):
        read_source(source, hostile.parent)
    alternates = hostile / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"{tmp_path}/host/owner/texts/.git/objects\n", encoding="utf-8")
    monkeypatch.setenv("GIT_DIR", str(hostile / ".git"))  # as in a hook
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "nowhere"))
    assert read_source(source, hostile.parent) == FILES
    assert not marker.exists()


def test_other_files_are_refused(source: Source, tmp_path: Path) -> None:
    other = replace(source, sha256="0" * 64)
    with raises(InputError, "data.wrong_files"):
        read_source(other, tmp_path / "host" / "owner")
    with raises(InputError, "data.wrong_files"):
        read_source(replace(source, n_files=3), tmp_path / "host" / "owner")


def test_a_repository_that_cannot_be_fetched(source: Source, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"owner/texts could not be fetched .*--from"):
        read_source(source, host=f"file://{tmp_path}/nowhere")


def test_git_is_needed(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(InputError, "data.building_needs_git"):
        read_source(source, tmp_path / "host" / "owner")

"""Checkpoints are complete or absent, whatever process dies, disk fills up or bit flips."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jumok.atomic_io import sha256_of
from jumok.errors import CheckpointError, InputError, StorageError
from jumok.training.checkpoints.manifest import FileRecord, Manifest, parse_manifest
from jumok.training.checkpoints.store import CheckpointStore
from tests.combinations import slow
from tests.errors import raises
from tests.training.fault_injection import before_each_disk_call


def states(step: int) -> dict[str, dict[str, torch.Tensor]]:
    return {
        "model": {"가중치": torch.full((3, 5), float(step)), "bias": torch.tensor(step)},
        "optimizer": {"weight.mean": torch.full((15,), -float(step))},
    }


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run")


def names(store: CheckpointStore) -> list[str]:
    return sorted(path.name for path in store.checkpoints.iterdir())


# Links


def elsewhere(folder: Path) -> dict[str, bytes]:
    """All files of another place, with what two commits of a run would delete there."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_written_or_deleted_through_a_link(tmp_path: Path) -> None:
    other = CheckpointStore(tmp_path / "other")
    for step in (1, 2):
        other.commit(step, states(step), {})
    (other.checkpoints / ".tmp-999999999-3-01234567").mkdir()
    (other.checkpoints / ".tmp-999999999-3-01234567" / "file").write_bytes(b"x")
    before = elsewhere(other.folder)
    store = CheckpointStore(tmp_path / "run")
    store.folder.mkdir()
    store.checkpoints.symlink_to(other.checkpoints)
    with pytest.raises(InputError, match="must be a folder of the run, got a link"):
        store.commit(3, states(3), {})
    with pytest.raises(InputError, match="must be a folder of the run, got a link"):
        store.newest()
    store.checkpoints.unlink()
    store.checkpoints.mkdir()
    for name in ("step-1", "step-2"):
        (store.checkpoints / name).symlink_to(other.checkpoints / name)
    (store.checkpoints / ".tmp-999999999-1-01234567").symlink_to(other.folder)
    with pytest.raises(CheckpointError, match=r"none of 2 checkpoints can be used .*it is a link"):
        store.newest()
    for step in (2, 3, 4):
        store.commit(step, states(step), {})
    assert names(store) == ["damaged-1-step-2", "step-3", "step-4"]
    assert elsewhere(other.folder) == before


def test_a_linked_file_of_a_checkpoint_is_refused(store: CheckpointStore, tmp_path: Path) -> None:
    path = store.commit(1, states(1), {}) / "state-model.safetensors"
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"state-model\.safetensors is a link; copy the file"):
        store.checkpoint(1)


# Saving and loading


def test_load_returns_what_was_committed(store: CheckpointStore) -> None:
    saved = {
        "model": {
            "turned": torch.arange(6.0).view(2, 3).T,
            "half": torch.tensor([1.5, -0.0, float("inf")], dtype=torch.bfloat16),
            "parameter": torch.nn.Parameter(torch.randn(4)),
            "none": torch.zeros(0, 7),
        },
        "optimizer": {"step": torch.tensor(40.0), "mask": torch.tensor([True, False])},
        "ema": {},
    }
    metadata = {"recipe": {"이름": "숫자", "rate": 1e-05}, "position": [3, 2**60], "best": None}
    path = store.commit(40, saved, metadata)
    assert path == store.folder / "checkpoints" / "step-40"
    newest = store.newest()
    assert newest is not None
    assert (newest.step, newest.metadata, newest.invalid) == (40, metadata, ())
    loaded = newest.load()
    assert loaded.keys() == saved.keys()
    for state, tensors in saved.items():
        assert loaded[state].keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert loaded[state][name].dtype == tensor.dtype
            assert torch.equal(loaded[state][name], tensor)


def test_open_the_checkpoint_of_one_step(store: CheckpointStore) -> None:
    for step in (1, 2):
        store.commit(step, states(step), {"step": step})
    assert store.checkpoint(1).metadata == {"step": 1}
    (store.checkpoints / "step-1" / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"step-1: cannot be used \(it has no manifest"):
        store.checkpoint(1)
    with pytest.raises(CheckpointError, match=r"step-3: cannot be used \(.*No such file"):
        store.checkpoint(3)


# Retention


def test_newest_and_protected_checkpoints_are_kept(store: CheckpointStore) -> None:
    for step in (5, 10, 15, 100, 20):
        store.commit(step, states(step), {}, protect=[10])
    assert names(store) == ["step-10", "step-100", "step-20"]


def test_keep_is_at_least_two(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=3)
    for step in range(1, 6):
        store.commit(step, states(step), {})
    assert names(store) == ["step-3", "step-4", "step-5"]
    with raises(InputError, "config.out_of_range"):
        CheckpointStore(tmp_path, keep=1)


def test_a_damaged_checkpoint_does_not_count_as_kept(store: CheckpointStore) -> None:
    store.commit(1, states(1), {})
    (store.commit(2, states(2), {}) / "manifest.json").unlink()
    store.commit(3, states(3), {})
    assert names(store) == ["step-1", "step-2", "step-3"]
    store.commit(4, states(4), {})
    assert names(store) == ["step-3", "step-4"]


def test_verified_unchanged_files_are_not_read_again(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of gigabytes would take twice as long; a byte written in place is still detected.

    Another process, which wrote none of them, reads each once.
    """
    hashed: list[str] = []

    def counting(path: Path) -> str:
        hashed.append(path.parent.name)
        return sha256_of(path)

    monkeypatch.setattr("jumok.training.checkpoints.checkpoint.sha256_of", counting)
    for step in (1, 2, 3):
        store.commit(step, states(step), {})
    assert hashed == []
    with (store.checkpoints / "step-3" / "state-model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        (last,) = file.read()
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    store.commit(4, states(4), {})
    assert set(hashed) == {"step-3"}
    assert names(store) == ["step-2", "step-3", "step-4"]  # the damaged one does not count
    hashed.clear()
    other = CheckpointStore(store.folder)
    for step in (5, 6, 7):
        other.commit(step, states(step), {})
    assert set(hashed) == {"step-4"}


def test_a_valid_checkpoint_is_never_overwritten(store: CheckpointStore) -> None:
    path = store.commit(1, states(1), {"by": "the first"})
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with raises(StorageError, "checkpoint.exists"):
        store.commit(1, states(2), {"by": "the second"})
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert names(store) == ["step-1"]


def test_a_damaged_checkpoint_of_the_same_step_is_renamed(store: CheckpointStore) -> None:
    for _ in range(2):
        path = store.commit(1, states(1), {})
        (path / "state-model.safetensors").write_bytes(b"")
    store.commit(1, states(1), {})
    assert names(store) == ["damaged-1-step-1", "damaged-2-step-1", "step-1"]
    newest = store.newest()
    assert newest is not None
    assert newest.invalid == ()


def test_temporary_folders_of_dead_processes_are_removed(store: CheckpointStore) -> None:
    store.commit(1, states(1), {})
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    alive = f".tmp-{os.getppid()}-5-00000000"  # the parent process runs
    unknown = ".tmp-other"
    for left in (f".tmp-{dead.pid}-5-00000000", f".del-{dead.pid}-1-00000000", alive, unknown):
        (store.checkpoints / left).mkdir()
        (store.checkpoints / left / "state-model.safetensors").write_bytes(b"half")
    reused_pid = store.checkpoints / f".tmp-{os.getpid()}-2-00000000"
    reused_pid.mkdir()
    store.commit(2, states(2), {})
    assert names(store) == sorted([alive, unknown, "step-1", "step-2"])


# Damage


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def swap(folder: Path) -> None:
    one, other = folder / "state-model.safetensors", folder / "state-optimizer.safetensors"
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def edit_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda p: halve(p / "state-model.safetensors"), "has .* bytes of"),
    "emptied": (lambda p: (p / "state-model.safetensors").write_bytes(b""), "has 0 bytes of"),
    "missing": (lambda p: (p / "state-model.safetensors").unlink(), "missing files: .*state-model"),
    "one more": (
        lambda p: (p / "state-x.safetensors").write_bytes(b""),
        "unexpected files: .*state-x",
    ),
    "swapped": (swap, "bytes of|SHA-256"),
    "no manifest": (lambda p: (p / "manifest.json").unlink(), "no manifest"),
    "half a manifest": (lambda p: halve(p / "manifest.json"), "changed after"),
    "other step": (lambda p: shutil.copy(p.parent / "step-1/manifest.json", p), "that of step 1"),
    "older format": (
        lambda p: edit_manifest(p, format="jumok checkpoint 2"),
        "must have the format 'jumok checkpoint 3', got 'jumok checkpoint 2'; resume it",
    ),
    "other metadata": (lambda p: edit_manifest(p, metadata={"a": 1}), "changed after"),
    "way out": (lambda p: edit_manifest(p, files={"../x": {}}), "changed after"),
    "no steps": (lambda p: edit_manifest(p, step="2"), "changed after"),
    "deep": (lambda p: (p / "manifest.json").write_bytes(b"[" * 100_000), "changed after"),
    "a file": (lambda p: (shutil.rmtree(p), p.write_bytes(b"")), "Not a directory"),
    "empty": (lambda p: (shutil.rmtree(p), p.mkdir()), "no manifest"),
    "a pipe": (
        lambda p: ((p / "manifest.json").unlink(), os.mkfifo(p / "manifest.json")),
        "not a regular file",
    ),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_an_older_checkpoint_replaces_a_damaged_one(store: CheckpointStore, kind: str) -> None:
    store.commit(1, states(1), {"a": 0})
    path = store.commit(2, states(2), {"a": 0})
    damage, reason = DAMAGES[kind]
    damage(path)
    newest = store.newest()
    assert newest is not None
    assert newest.step == 1
    assert [each.path for each in newest.invalid] == [path]
    assert re.search(reason, str(newest.invalid[0].reason)), newest.invalid
    assert path.exists()


def test_the_error_if_all_checkpoints_are_damaged(store: CheckpointStore) -> None:
    for step in (1, 2):
        (store.commit(step, states(step), {}) / "state-model.safetensors").unlink()
    with raises(CheckpointError, "checkpoint.none_usable") as no:
        store.newest()
    assert no.value.exit_code == 5
    assert names(store) == ["step-1", "step-2"]


def test_a_file_changed_after_verification_is_not_loaded(store: CheckpointStore) -> None:
    path = store.commit(1, states(1), {}) / "state-model.safetensors"
    newest = store.newest()
    assert newest is not None
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"\x01")
    with raises(CheckpointError, "checkpoint.changed_while_read"):
        newest.load()


# Errors of a commit


@pytest.mark.parametrize("bad", [float("nan"), {1, 2}, "\ud800", [[object()]]])
def test_metadata_must_be_json(store: CheckpointStore, bad: object) -> None:
    store.commit(1, states(1), {})
    with pytest.raises(InputError, match="metadata of step 2 must be plain JSON"):
        store.commit(2, states(2), {"bad": bad})  # type: ignore[dict-item]
    assert names(store) == ["step-1"]


def test_states_need_valid_names_and_unshared_memory(store: CheckpointStore) -> None:
    with raises(InputError, "checkpoint.state_name"):
        store.commit(1, {"../model": {}}, {})
    tied = torch.zeros(3)
    with raises(InputError, "safetensors.shared_memory"):
        store.commit(1, {"model": {"embedding": tied, "output": tied}}, {})
    assert names(store) == []


@pytest.mark.parametrize("error", [errno.ENOSPC, slow(errno.EIO), slow(errno.EDQUOT)])
def test_a_disk_failure_at_any_call_loses_nothing(tmp_path: Path, error: int) -> None:
    for failing in range(1, 1000):
        store = CheckpointStore(tmp_path / str(failing))
        store.commit(1, states(1), {})
        store.commit(2, states(2), {})

        def fail(number: int, name: str, argument: object, last: int = failing) -> None:
            if number == last:
                raise OSError(error, os.strerror(error))

        message = ""
        try:
            with before_each_disk_call(fail):
                store.commit(3, states(3), {})
        except StorageError as failure:
            message = str(failure)
        newest = store.newest()
        assert newest is not None
        assert not newest.invalid
        assert newest.step == (3 if (store.checkpoints / "step-3").exists() else 2)
        assert not [name for name in names(store) if name.startswith(".tmp")]
        if not message:
            assert names(store) == ["step-2", "step-3"]
            assert failing > 15  # each earlier call failed once
            return
        assert os.strerror(error) in message


# Order of the disk calls, and kills


def test_the_order_of_a_commit(store: CheckpointStore) -> None:
    """Sync all files, then their folder, rename it, sync its parent; only then delete."""
    store.commit(1, states(1), {})
    store.commit(2, states(2), {})
    calls: list[tuple[str, object]] = []

    def note(number: int, name: str, argument: object) -> None:
        if name == "fsync":
            assert isinstance(argument, int)
            calls.append((name, os.fstat(argument).st_ino))
        elif name in ("rename", "rmdir", "unlink"):
            calls.append((name, Path(str(argument)).name))

    with before_each_disk_call(note):
        path = store.commit(3, states(3), {})
    doomed = [what for name, what in calls if name == "rename"][1]
    assert doomed == "step-1"
    deleting = calls.index(("rename", doomed))
    files = [file.stat().st_ino for file in path.iterdir()]
    assert {what for _, what in calls[:3]} == set(files)
    assert calls[3] == ("fsync", path.stat().st_ino)
    assert calls[4][0] == "rename"
    assert str(calls[4][1]).startswith(f".tmp-{os.getpid()}-3-")
    assert calls[5] == ("fsync", store.checkpoints.stat().st_ino)
    assert deleting == 6
    assert {name for name, _ in calls[7:]} == {"unlink", "rmdir"}


def test_a_manifest_has_one_valid_serialization(store: CheckpointStore) -> None:
    data = (store.commit(1, states(1), {"rate": 1e-05}) / "manifest.json").read_bytes()
    assert parse_manifest(data).to_bytes() == data
    for changed in (data + b" ", data.replace(b"1e-05", b"1E-05"), data.replace(b'": ', b'":  ')):
        with raises(InputError, "checkpoint.manifest_changed"):
            parse_manifest(changed)


@pytest.mark.parametrize("end", ["/../../model.safetensors", "\n", " ", "/"])
def test_file_names_in_a_manifest_stay_in_its_folder(end: str) -> None:
    record = FileRecord(1, "0" * 64)
    manifest = Manifest(1, {"state-model.safetensors" + end: record}, {})
    with raises(InputError, "checkpoint.manifest_changed"):
        parse_manifest(manifest.to_bytes())

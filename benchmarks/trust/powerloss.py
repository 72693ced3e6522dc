"""Every state of the disk after a power loss during a commit, from recorded calls.

    python -m benchmarks.trust.powerloss [--most 2000]

The calls are recorded by which a commit changes the disk. Then, at each, the power goes: bytes that
were not forced to disk may be there, be cut, or be zeros; names that were not forced to disk may
be new or old, each for itself; only a rename is atomic. (The model of Pillai et al. 2014, "All
file systems are not created equal".) Each state is laid out as real files, at most so many per
call, and must hold a sound checkpoint: the new one for certain once its name was forced to disk.
The same calls without their fsync show that the states do find what is wrong.
"""

import hashlib
import itertools
import os
import random
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from jumok.errors import JumokError
from jumok.training.checkpoints.store import CheckpointStore
from tests.training.fault_injection import before_each_disk_call

from .result import Proof, parser
from .training import temp_folder

PARTS = 64  # prefixes of a file that are tried

Tree = dict[str, "bytes | Tree"]  # a disk: names, and bytes or a subtree

NEW = "checkpoints/step-3"


@dataclass(frozen=True)
class Call:
    """A call that changes or syncs the disk: its paths within the run, its bytes."""

    name: str
    path: str
    target: str = ""
    size: int = 0


@dataclass
class Node:
    """A file or a folder: its synced state and the changes since."""

    folder: bool
    data: bytes = b""  # of a file, synced
    asked: bytes = b""  # of a file, as programs read it
    names: dict[str, "Node"] = field(default_factory=dict)  # of a folder, synced
    changes: list[tuple[str, "Node | None", str]] = field(default_factory=list)  # not synced

    def seen(self) -> dict[str, "Node"]:
        """The names in a folder as programs see them."""
        return applied(self.names, self.changes)


def applied(names: dict[str, Node], changes: list[tuple[str, Node | None, str]]) -> dict[str, Node]:
    """A folder after some changes: names that are removed, added or replaced."""
    after = dict(names)
    for name, node, instead_of in changes:
        after.pop(instead_of, None)
        if node is None:
            after.pop(name, None)
        else:
            after[name] = node
    return after


def states(step: int) -> dict[str, dict[str, Tensor]]:
    """Two states in which every number is the step."""
    number = torch.full((60, 100), float(step))
    return {"model": {"weight": number}, "optimizer": {"mean": number, "square": -number}}


def two_committed(folder: Path) -> CheckpointStore:
    """A run with the steps 1 and 2."""
    store = CheckpointStore(folder)
    for step in (1, 2):
        store.commit(step, states(step), {"step": step})
    return store


def sound(store: CheckpointStore) -> int:
    """The newest step if it is intact, 0 if there is no valid checkpoint."""
    try:
        newest = store.newest()
    except JumokError:
        return 0
    if newest is None or newest.invalid:
        return 0
    loaded, expected = newest.load(), states(newest.step)
    same = all(
        torch.equal(loaded[state][name], tensor)
        for state, tensors in expected.items()
        for name, tensor in tensors.items()
    )
    return newest.step if same else 0


def recorded(folder: Path) -> tuple[list[Call], Tree, Tree]:
    """The calls of a commit, and the run before and after it; a file is written by one call."""
    store = two_committed(folder / "run")
    before, calls = tree_of(store.folder), list[Call]()

    def note(number: int, name: str, argument: object) -> None:
        target = os.readlink(f"/proc/self/fd/{argument}") if name == "fsync" else str(argument)
        if not Path(target).is_relative_to(store.folder):  # in an open folder that is removed
            return
        path = str(Path(target).relative_to(store.folder))
        match name:
            case "create":
                calls.extend([Call("create", path), Call("write", path, size=sys.maxsize)])
            case "rename":
                is_new = Path(path).name.startswith(".tmp")
                calls.append(Call("rename", path, NEW if is_new else f"{path}-doomed"))
            case "mkdir" | "fsync" | "rmdir" | "unlink":
                calls.append(Call(name, path))

    with before_each_disk_call(note):
        store.commit(3, states(3), {"step": 3})
    return calls, before, tree_of(store.folder)


class Disk:
    """A model of a disk with its synced state and pending changes."""

    def __init__(self, tree: Tree, after: Tree) -> None:
        """`tree` is synced; new files get the bytes that they have in `after`."""
        self.root = _node(tree)

    def do(self, call: Call, contents: dict[str, bytes]) -> None:
        """Apply one call; `contents` are whole files by the path they were created under."""
        above, _, name = call.path.rpartition("/")
        match call.name:
            case "mkdir":
                self._at(above).changes.append((name, Node(folder=True), ""))
            case "create":
                self._at(above).changes.append((name, Node(folder=False), ""))
            case "write":
                node = self._at(call.path)
                node.asked = contents[call.path][: len(node.asked) + call.size]
            case "fsync":
                node = self._at(call.path)
                node.data = node.asked
                node.names, node.changes = node.seen(), []
            case "rename":
                folder = self._at(above)
                node = folder.seen()[name]
                folder.changes.append((call.target.rpartition("/")[2], node, name))
            case _:
                self._at(above).changes.append((name, None, ""))

    def after_a_cut(self, most: int, rng: random.Random) -> Iterator[Tree]:
        """The possible states after a power loss now: all, or a sample of `most`."""
        nodes = list(_all_nodes(self.root))
        choices = [may_be(node) for node in nodes]
        total = 1
        for choice in choices:
            total *= len(choice)
        picks = (
            itertools.product(*choices)
            if total <= most
            else (tuple(map(rng.choice, choices)) for _ in range(most))
        )
        for pick in picks:
            yield _laid_out(self.root, dict(zip(map(id, nodes), pick, strict=True)))

    def _at(self, path: str) -> Node:
        node = self.root
        for name in filter(None, path.split("/")):
            node = node.seen()[name]
        return node


Choice = bytes | tuple[bool, ...]


def may_be(node: Node) -> list[Choice]:
    """The possible contents of a file; for a folder, the changes that were written."""
    if node.folder:
        return list(itertools.product((False, True), repeat=len(node.changes)))
    forced, asked = node.data, node.asked
    if forced == asked:
        return [forced]
    found = {forced, asked, forced + bytes(len(asked) - len(forced))}
    for part in range(1, PARTS):
        cut = len(asked) * part // PARTS
        found |= {asked[:cut], asked[:cut] + bytes(len(asked) - cut), bytes(cut) + asked[cut:]}
    return sorted(found)


def _all_nodes(node: Node) -> Iterator[Node]:
    """A node and everything below it, each once."""
    found: dict[int, Node] = {}

    def visit(one: Node) -> None:
        if id(one) not in found:
            found[id(one)] = one
            for below in [*one.names.values(), *(n for _, n, _ in one.changes if n is not None)]:
                visit(below)

    visit(node)
    yield from found.values()


def _laid_out(node: Node, picked: dict[int, Choice]) -> Tree:
    """The folder as a tree with the chosen state of each node."""
    kept = [c for c, come in zip(node.changes, picked[id(node)], strict=True) if come]
    tree: Tree = {}
    for name, below in applied(node.names, kept).items():
        if below.folder:
            tree[name] = _laid_out(below, picked)
        else:
            data = picked[id(below)]
            assert isinstance(data, bytes)  # of a file
            tree[name] = data
    return tree


def _node(tree: "bytes | Tree") -> Node:
    if isinstance(tree, bytes):
        return Node(folder=False, data=tree, asked=tree)
    return Node(folder=True, names={name: _node(below) for name, below in tree.items()})


def _files(tree: Tree) -> Iterator[bytes]:
    for below in tree.values():
        if isinstance(below, bytes):
            yield below
        else:
            yield from _files(below)


def tree_of(folder: Path) -> Tree:
    """Read a folder as a tree."""
    return {
        path.name: tree_of(path) if path.is_dir() else path.read_bytes()
        for path in sorted(folder.iterdir())
    }


def write_tree(tree: Tree, folder: Path) -> None:
    """Write a tree as files."""
    folder.mkdir(parents=True)
    for name, below in tree.items():
        if isinstance(below, bytes):
            (folder / name).write_bytes(below)
        else:
            write_tree(below, folder / name)


def mark(tree: Tree) -> bytes:
    """A checksum of a tree, to examine each state once."""
    total = hashlib.sha256()
    for name in sorted(tree):
        below = tree[name]
        total.update(f"{name}\0".encode())
        total.update(hashlib.sha256(below).digest() if isinstance(below, bytes) else mark(below))
    return total.digest()


@dataclass
class Count:
    """The results of the states."""

    states: int = 0
    unusable: int = 0  # no valid checkpoint, or damage under a final name
    forgotten: int = 0  # the new checkpoint is lost although its name was synced


def examine(
    calls: list[Call], before: Tree, after: Tree, folder: Path, most: int, forcing: bool
) -> Count:
    """Examine the states after each call; without fsync if not `forcing`."""
    contents = _contents(calls, after)
    disk, rng, count = Disk(before, after), random.Random(0), Count()
    seen: set[tuple[bytes, bool]] = set()
    renamed = acknowledged = False
    for call in [None, *calls]:
        if call is not None and (forcing or call.name != "fsync"):
            disk.do(call, contents)
        if call is not None:
            renamed = renamed or call.name == "rename"
            acknowledged = acknowledged or (renamed and call == Call("fsync", "checkpoints"))
        for tree in disk.after_a_cut(most, rng):
            key = mark(tree), acknowledged
            if key in seen:
                continue
            seen.add(key)
            count.states += 1
            write_tree(tree, folder)
            newest = sound(CheckpointStore(folder))
            count.unusable += newest not in (2, 3)
            count.forgotten += acknowledged and newest == 2
            shutil.rmtree(folder)
    return count


def _contents(calls: list[Call], after: Tree) -> dict[str, bytes]:
    """The bytes of each new file, by the path it was created under."""
    renames = {call.path: call.target for call in calls if call.name == "rename"}
    contents = {}
    for path in (call.path for call in calls if call.name == "create"):
        above, _, name = path.rpartition("/")
        tree = after
        for part in renames[above].split("/"):
            below = tree[part]
            assert isinstance(below, dict)  # a folder
            tree = below
        data = tree[name]
        assert isinstance(data, bytes)  # the file exists
        contents[path] = data
    return contents


def main() -> int:
    """Record a commit and examine the states after every call."""
    arguments = parser("States that a power cut may leave of a commit.")
    arguments.add_argument("--most", type=int, default=2_000, help="states looked at per call")
    options = arguments.parse_args()
    proof = Proof("powerloss", "states that a power cut may leave of a real commit")
    with temp_folder() as folder:
        calls, before, after = recorded(folder)
        for number, call in enumerate(calls, start=1):
            target = f" -> {call.target}" if call.target else ""
            proof.say(f"{number:>3}  {call.name:<7} {_short(call.path)}{_short(target)}")
        count = examine(calls, before, after, folder / "state", options.most, forcing=True)
        few = min(options.most, 100)  # enough to find failures
        bare = examine(calls, before, after, folder / "state", few, forcing=False)
    proof.say("")
    for name, found in (("as recorded", count), ("without fsync", bare)):
        proof.say(
            f"{name:<14} {found.states:>6,} states: {found.unusable:,} without a sound checkpoint, "
            f"{found.forgotten:,} without one that was acknowledged"
        )
    proof.figures |= {"calls": len(calls), **vars(count)}
    proof.figures |= {"bad_without_fsync": bare.unusable + bare.forgotten}
    return proof.end(
        {
            f"a sound checkpoint in each of {count.states:,} states": count.unusable == 0,
            "the new one in each state after it was acknowledged": count.forgotten == 0,
            "bad states are found where fsync is left out": bare.unusable + bare.forgotten > 0,
        }
    )


def _short(path: str) -> str:
    """A path without the process id in it."""
    return re.sub(r"\.(tmp|del)-\d+-(\d+)-[0-9a-f]+", r".\1-\2", path)


if __name__ == "__main__":
    sys.exit(main())

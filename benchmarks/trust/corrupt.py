"""Damage checkpoints in every way; all damage is detected, and no wrong weight is loaded.

    python -m benchmarks.trust.corrupt [--damages 10000] [--seed 0]

Flipped bits, bytes overwritten, cut off or added, pages zeroed, files swapped, removed, renamed,
or taken from another step or another model; also in the manifest, with corrected
checksums. What is found must be the older checkpoint, which was left alone, to the last bit.
"""

import hashlib
import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from jumok.errors import CheckpointError
from jumok.training.checkpoints.manifest import JSON
from jumok.training.checkpoints.store import CheckpointStore

from .result import Proof, parser
from .training import temp_folder

States = Mapping[str, Mapping[str, Tensor]]
Damage = Callable[[Path, random.Random], None]


def states(seed: int, width: int = 24) -> States:
    """The states of a small model; another seed gives other numbers, another width other shapes."""
    numbers = torch.Generator().manual_seed(seed)
    weight = torch.randn(width, 40, generator=numbers)
    return {
        "model": {"weight": weight, "bias": torch.randn(width, generator=numbers)},
        "optimizer": {"mean": 0.1 * weight, "square": weight**2, "step": torch.tensor(seed)},
        "average": {"weight": weight + 1},
    }


def any_file(step: Path, rng: random.Random) -> Path:
    """One of the files of a checkpoint."""
    return rng.choice(sorted(step.iterdir()))


def any_state(step: Path, rng: random.Random) -> Path:
    """One of its files of tensors."""
    return rng.choice(sorted(step.glob("state-*")))


def flip(step: Path, rng: random.Random) -> None:
    """Flip one or a few bits."""
    path = any_file(step, rng)
    data = bytearray(path.read_bytes())
    for location in rng.sample(range(len(data)), rng.choice((1, 1, 1, 2, 8))):
        data[location] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def overwrite(step: Path, rng: random.Random) -> None:
    """Overwrite a range of bytes."""
    path = any_file(step, rng)
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data))
    for location in range(start, min(len(data), start + rng.randint(1, 600))):
        data[location] ^= rng.randint(1, 255)
    path.write_bytes(data)


def cut(step: Path, rng: random.Random) -> None:
    """Truncate a file."""
    path = any_file(step, rng)
    os.truncate(path, rng.randrange(path.stat().st_size))


def add(step: Path, rng: random.Random) -> None:
    """Append bytes."""
    with any_file(step, rng).open("ab") as file:
        file.write(rng.randbytes(rng.randint(1, 64)))


def zero(step: Path, rng: random.Random) -> None:
    """A page of zeros, as some file systems leave after a power cut."""
    path = any_file(step, rng)
    data = bytearray(path.read_bytes())
    start = rng.randrange(0, len(data), 512)
    end = min(len(data), start + 512)
    if not any(data[start:end]):
        return flip(step, rng)
    data[start:end] = bytes(end - start)
    path.write_bytes(data)
    return None


def swap(step: Path, rng: random.Random) -> None:
    """Swap two files."""
    one, other = rng.sample(sorted(step.iterdir()), 2)
    aside = step / ".aside"
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def lose(step: Path, rng: random.Random) -> None:
    """Remove a file."""
    any_file(step, rng).unlink()


def rename(step: Path, rng: random.Random) -> None:
    """Rename a file."""
    any_state(step, rng).rename(step / "state-other.safetensors")


def gain(step: Path, rng: random.Random) -> None:
    """Add a file."""
    shutil.copy(any_state(step, rng), step / "state-other.safetensors")


def other_step(step: Path, rng: random.Random) -> None:
    """Copy one or all files of another step of the same run."""
    older = step.with_name("step-1")
    for path in [any_file(older, rng)] if rng.random() < 0.7 else older.iterdir():
        shutil.copy(path, step)


def other_model(step: Path, rng: random.Random) -> None:
    """Copy a file of another training, with the same shapes or others."""
    store = CheckpointStore(step.parent.parent.parent / rng.choice(("twin", "wide")))
    shutil.copy(any_state(store.checkpoints / "step-2", rng), step)


def correct(step: Path, rng: random.Random) -> None:
    """Flip a bit and correct the checksum in the manifest."""
    path = any_state(step, rng)
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    manifest = step / "manifest.json"
    content = json.loads(manifest.read_bytes())
    content["files"][path.name]["sha256"] = hashlib.sha256(data).hexdigest()
    manifest.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def retell(step: Path, rng: random.Random) -> None:
    """Change the manifest: its step, its metadata, its table of files."""
    manifest = step / "manifest.json"
    content = json.loads(manifest.read_bytes())
    change = rng.choice(("step", "metadata", "files", "format", "sha256"))
    if change == "step":
        content["step"] += rng.choice((-1, 1, 2**40))
    elif change == "metadata":
        content["metadata"]["progress"]["batch"] += 1
    elif change == "files":
        del content["files"][rng.choice(sorted(content["files"]))]
    else:
        content[change] = content[change][::-1]
    manifest.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


DAMAGES: dict[str, tuple[Damage, int]] = {  # and their frequencies in percent
    "bits flipped": (flip, 40),
    "bytes overwritten": (overwrite, 8),
    "cut short": (cut, 14),
    "lengthened": (add, 4),
    "a page of zeros": (zero, 6),
    "two files swapped": (swap, 4),
    "a file gone": (lose, 3),
    "a file renamed": (rename, 2),
    "a file too many": (gain, 2),
    "of another step": (other_step, 4),
    "of another model": (other_model, 4),
    "flipped, its sum corrected": (correct, 5),
    "another manifest": (retell, 4),
}


def same(loaded: States, expected: States) -> bool:
    """Whether the tensors are bit-identical."""
    return {(s, n): t.numpy().tobytes() for s, part in loaded.items() for n, t in part.items()} == {
        (s, n): t.numpy().tobytes() for s, part in expected.items() for n, t in part.items()
    }


def damaged(folder: Path, expected: int, seed: int) -> tuple[Counter[str], Counter[str], int]:
    """The number of damages of each kind, of detections, and of wrong loads."""
    rng = random.Random(seed)
    metadata: dict[str, JSON] = {"recipe": "reviews", "progress": {"batch": 7}}
    for run, model in (("run", states(2)), ("twin", states(3)), ("wide", states(2, width=25))):
        CheckpointStore(folder / run).commit(1, states(1), metadata)
        CheckpointStore(folder / run).commit(2, model, metadata)
    store = CheckpointStore(folder / "run")
    step, sound = store.checkpoints / "step-2", folder / "sound"
    shutil.copytree(step, sound)
    kinds = rng.choices([*DAMAGES], [share for _, share in DAMAGES.values()], k=expected)
    made, noticed, wrong = Counter[str](), Counter[str](), 0
    for kind in kinds:
        DAMAGES[kind][0](step, rng)
        made[kind] += 1
        try:
            found = store.newest()
        except CheckpointError:  # the valid checkpoint would be lost
            found = None
        if found is not None:
            noticed[kind] += found.step == 1 and found.invalid[0].path == step
            wrong += not same(found.load(), states(found.step))
        shutil.rmtree(step)
        shutil.copytree(sound, step)
    return made, noticed, wrong


def main() -> int:
    """Damage checkpoints and load them."""
    arguments = parser("Damage checkpoints and see whether it shows.")
    arguments.add_argument("--damages", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    proof = Proof("corrupt", f"{options.damages:,} damaged checkpoints")
    with temp_folder() as folder:
        made, noticed, wrong = damaged(folder, options.damages, options.seed)
    for kind in DAMAGES:
        proof.say(f"{kind:<28}{made[kind]:>7,} made {noticed[kind]:>7,} noticed")
    proof.figures |= {"damages": made.total(), "noticed": noticed.total(), "wrong_loaded": wrong}
    return proof.end(
        {
            f"all {options.damages:,} noticed, and the older one taken": noticed == made,
            "no wrong weights loaded": wrong == 0,
        }
    )


if __name__ == "__main__":
    sys.exit(main())

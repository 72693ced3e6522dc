"""The limits of the container or the service that this process runs in: cgroups of both versions.

A limit of an outer group holds for the groups inside of it, so all groups from the process's own to
the root are read. In a container the root of the file system is the container's own group.
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")  # lines "ID:CONTROLLERS:GROUP"; version 2 is "0::GROUP"


def cpu_quota(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float:
    """The cores that the process may use on average; infinite without a limit."""
    quota = inf
    for group in _groups("cpu", root, membership):
        both = _read(group / "cpu.max").split()  # version 2: "QUOTA PERIOD" or "max PERIOD"
        if not both:
            both = [_read(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        numbers = [int(each) for each in both if each.isdigit()]  # without a limit: "max", "-1"
        if len(numbers) == 2 and min(numbers) > 0:
            quota = min(quota, numbers[0] / numbers[1])
    return quota


def memory_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float:
    """The bytes of memory that the process may use; infinite without a limit."""
    limit = inf
    for group in _groups("memory", root, membership):
        for file in ("memory.max", "memory.limit_in_bytes"):  # of version 2 and 1
            text = _read(group / file)
            limit = min(limit, int(text) if text.isdigit() else inf)
    return limit


def _groups(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The folders of the groups that limit this process, from the innermost to the root."""
    yield root
    for line in _read(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        names = controllers.split(",")
        if controllers and controller not in names:
            continue
        for mount in (controllers, controller) if controllers else ("", "unified"):
            folder = root / mount
            yield folder
            for part in Path(group).parts:
                if part in ("/", ".."):  # "..": a group outside of the namespace
                    continue
                folder /= part
                yield folder


def _read(path: Path) -> str:
    """The text of a file, "" if it cannot be read."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""

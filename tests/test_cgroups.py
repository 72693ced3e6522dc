"""The limits of nested groups of both versions, from folders like those of the system."""

from math import inf
from pathlib import Path

import pytest

from jumok.cgroups import cpu_quota, memory_limit

GIB = 2**30


def system(folder: Path, membership: str, files: dict[str, str]) -> tuple[Path, Path]:
    """The root of a cgroup file system with these files, and the list of a process's groups."""
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="ascii")
    list_ = folder / "self"
    list_.write_text(membership, encoding="ascii")
    return folder / "cgroup", list_


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/", {}, inf),
        ("0::/", {"cpu.max": "max 100000"}, inf),
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),  # a container of version 2
        # A unit of systemd with CPUQuota=, and the same inside of a narrower slice.
        ("0::/system.slice/a.service", {"system.slice/a.service/cpu.max": "200000 100000"}, 2.0),
        (
            "0::/user.slice/a.service",
            {
                "user.slice/cpu.max": "50000 100000",
                "user.slice/a.service/cpu.max": "200000 100000",
                "user.slice/other.service/cpu.max": "10000 100000",
            },
            0.5,
        ),
        ("0::/outside/../of/it", {"cpu.max": "100000 100000"}, 1.0),  # no such folder in here
        # Version 1, its controllers together or alone, in a container or not.
        (
            "4:memory:/m\n3:cpu,cpuacct:/docker/7\n1:name=systemd:/x\n",
            {
                "cpu,cpuacct/docker/7/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/docker/7/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            "1:cpu:/docker/7\n0::/\n",
            {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        ("1:cpu:/\n0::/a\n", {"unified/a/cpu.max": "400000 100000"}, 4.0),
        ("0::/", {"cpu.max": "what 100000"}, inf),
        ("nonsense", {"cpu.max": "0 0"}, inf),
    ],
)
def test_the_quota_is_the_least_of_all_groups(
    tmp_path: Path, membership: str, files: dict[str, str], quota: float
) -> None:
    assert cpu_quota(*system(tmp_path, membership, files)) == quota


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/", {"memory.max": "max"}, inf),
        ("0::/a/b", {"a/memory.max": str(GIB), "a/b/memory.max": str(2 * GIB)}, GIB),
        ("4:memory:/m", {"memory/m/memory.limit_in_bytes": str(GIB)}, GIB),
        ("4:memory:/m", {"memory/memory.limit_in_bytes": str(3 * GIB)}, 3 * GIB),
    ],
)
def test_the_limit_of_memory(
    tmp_path: Path, membership: str, files: dict[str, str], limit: float
) -> None:
    assert memory_limit(*system(tmp_path, membership, files)) == limit


def test_a_system_without_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "none", tmp_path / "no file") == inf
    assert memory_limit(tmp_path / "none", tmp_path / "no file") == inf

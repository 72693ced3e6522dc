"""The instruction sets that the C++ kernel is written for, and the one that this processor gets.

Each is compiled into a shared library of its own, so that no inline function of one can be used by
another. The environment variable JUMOK_CPU caps the choice: `JUMOK_CPU=avx2` computes on any newer
processor what AVX2 computes.
"""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jumok.errors import InputError

X86_64, AARCH64 = "x86_64", "aarch64"


@dataclass(frozen=True)
class InstructionSet:
    """One set of instructions and how the kernel is compiled for it."""

    name: str
    target: str  # its code is kernel/targets/TARGET.h
    machine: str | None  # as `platform.machine` on Linux; None: every machine
    needs: frozenset[str]  # flags of the processor, as in /proc/cpuinfo
    compiler_flags: tuple[str, ...]

    @property
    def is_supported(self) -> bool:
        """Whether this processor has all its instructions."""
        return self.machine in (None, machine()) and self.needs <= processor_flags()


def _x86(name: str, target: str, flags: str) -> InstructionSet:
    """A set of x86-64 whose compiler flags follow from those of the processor."""
    needs = flags.split()
    options = tuple("-m" + _compiler_name(flag) for flag in needs)
    if "avx512f" in needs:
        options += ("-mprefer-vector-width=512",)
    return InstructionSet(name, target, X86_64, frozenset(needs), options)


def _compiler_name(flag: str) -> str:
    """The name of a flag of the processor in GCC and Clang.

    >>> _compiler_name("avx512_vnni"), _compiler_name("amx_int8")
    ('avx512vnni', 'amx-int8')
    """
    return flag.replace("_", "-" if flag.startswith("amx") else "")


_AVX2 = "avx2 fma f16c"
_AVX512 = _AVX2 + " avx512f avx512bw avx512dq avx512vl"

# From the fastest to the one that every processor has.
INSTRUCTION_SETS = (
    _x86("amx_int8", "avx512", _AVX512 + " avx512_vnni avx512_bf16 amx_tile amx_int8"),
    _x86("avx512_bf16", "avx512", _AVX512 + " avx512_vnni avx512_bf16"),
    _x86("avx512_vnni", "avx512", _AVX512 + " avx512_vnni"),
    _x86("avx512", "avx512", _AVX512),
    _x86("avx_vnni", "avx2", _AVX2 + " avx_vnni"),
    _x86("avx2", "avx2", _AVX2),
    InstructionSet("neon", "neon", AARCH64, frozenset({"asimddp"}), ("-march=armv8.2-a+dotprod",)),
    InstructionSet("generic", "generic", None, frozenset(), ()),
)


def compilable(machine_type: str) -> tuple[InstructionSet, ...]:
    """The instruction sets of a type of machine, from the fastest to `generic`.

    >>> [each.name for each in compilable("aarch64")]
    ['neon', 'generic']
    """
    return tuple(each for each in INSTRUCTION_SETS if each.machine in (None, machine_type))


def best_instruction_set() -> InstructionSet:
    """The fastest set that this processor has and JUMOK_CPU permits."""
    return usable()[0]


def usable() -> tuple[InstructionSet, ...]:
    """The sets that this processor has, from the fastest that JUMOK_CPU permits.

    Raises InputError if JUMOK_CPU is unknown, or a set that the processor lacks.
    """
    supported = tuple(each for each in INSTRUCTION_SETS if each.is_supported)
    cap = os.environ.get("JUMOK_CPU", "")
    if not cap:
        return supported
    names = [each.name for each in supported]
    if cap in names:
        return supported[names.index(cap) :]
    known = any(cap == each.name for each in INSTRUCTION_SETS)
    problem = f"{cap}, which this processor lacks" if known else repr(cap)
    raise InputError(
        "kernel.unknown_jumok_cpu",
        "JUMOK_CPU must be one of {names}, got {problem}; leave it unset for the fastest",
        names=", ".join(names),
        problem=problem,
    )


def machine() -> str:
    """The type of this machine: x86_64, aarch64, or what the system calls it."""
    name = platform.machine().lower()
    return {"amd64": X86_64, "arm64": AARCH64}.get(name, name)


@cache
def processor_flags() -> frozenset[str]:
    """The flags of this processor, in the spelling of /proc/cpuinfo; empty if unknown."""
    if sys.platform == "darwin":
        return _darwin_flags()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(flags.partition(":")[2].split())


def _darwin_flags() -> frozenset[str]:
    if machine() == AARCH64:
        return frozenset({"asimddp"})  # every Apple processor for macOS
    names = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
    command = ["/usr/sbin/sysctl", "-n", *names]
    done = subprocess.run(  # noqa: S603  (the system's own program)
        command, capture_output=True, text=True, check=False, timeout=10
    )
    return frozenset(done.stdout.lower().split())

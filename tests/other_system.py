"""A program that imitates another operating system and then runs commands of jumok.

    python -m tests.other_system win32 '[["predict", "runs/nsmc", "text"]]'

Libraries are imported first, for they are built for this system. Then the modules and functions
that the other system lacks are removed, and `os.name` and `sys.platform` are its own. What it
cannot show is that system's files and processes: the workflow in .github runs there.
"""

import importlib
import importlib.abc
import json
import os
import pathlib
import platform as platform_module
import sys
import types
from collections.abc import Sequence

POSIX_MODULES = frozenset(
    """
    resource fcntl pwd grp termios tty pty readline syslog crypt curses posix
    """.split()  # noqa: SIM905
)
POSIX_FUNCTIONS = frozenset(
    """
    sysconf statvfs fork forkpty wait wait3 wait4 waitid getuid geteuid getgid setsid killpg
    uname sched_getaffinity sched_setaffinity getloadavg mkfifo mknod chown fchmod fchown
    lchown pread pwrite posix_fadvise posix_fallocate getpgid nice confstr openpty ttyname
    chroot
    """.split()  # noqa: SIM905
)
POSIX_SIGNALS = frozenset(
    """
    SIGHUP SIGKILL SIGSTOP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGPIPE SIGQUIT
    """.split()  # noqa: SIM905
)
LIBRARIES = """
    torch torch.distributed torch.distributed.fsdp torch.distributed.tensor numpy pyarrow
    filelock sentencepiece tokenizers safetensors.torch sacrebleu matplotlib.figure jinja2
    tomli_w psutil matplotlib.backends.backend_agg typer rich.progress rich.console
    starlette.applications uvicorn socket subprocess multiprocessing.connection
    google.protobuf.message ctypes.util
    """.split()  # noqa: SIM905


class Blocker(importlib.abc.MetaPathFinder):
    """No module of POSIX can be imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name.partition(".")[0] in POSIX_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def imitate(platform: str) -> None:
    """Make this process look like one of `platform`: win32 or darwin."""
    for library in LIBRARIES:
        importlib.import_module(library)
    sys.platform = platform
    if platform != "win32":
        return
    for name in POSIX_MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Blocker())
    import signal

    for name in POSIX_SIGNALS:
        delattr(signal, name)
    here = types.ModuleType("os")
    here.__dict__.update(vars(os))  # pathlib would make paths of Windows, which need Windows
    pathlib.os = here  # type: ignore[attr-defined]
    for name in POSIX_FUNCTIONS:
        if hasattr(os, name):
            delattr(os, name)
    os.name = "nt"
    os.environ["PATH"] = ""  # and no compiler
    platform_module.libc_ver = lambda *words: ("", "")  # type: ignore[assignment]


def main(platform: str, commands: str) -> None:
    """Run commands of jumok, a JSON list of lists of words, and print the exit code of each."""
    imitate(platform)
    from jumok.cli import main as run

    for words in json.loads(commands):
        try:
            run(words)
        except SystemExit as ended:
            print(f"{words[0]}: {ended.code or 0}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

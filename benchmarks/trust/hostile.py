"""Open model files that contain code through every public entry point, under an audit hook.

    python -m benchmarks.trust.hostile [--only WORDS] [--unrecorded]

The audit hook (`sys.addaudithook`, PEP 578) records programs, imported modules, sockets, objects
found by pickle, processes, and files outside the payload's folder; the folder that a payload's code
would create is checked too. One child process is allowed: the guarded reader of
`pytorch_model.bin`. The entry points are those of the commands: `jumok.load` (predict, evaluate,
view, check, export), `jumok import`, `model.init` of a training, vocabularies, traces with their
pages, recipes, and data files.

Prints a table; the exit code is 1 if anything was executed, imported or called, or if an entry
point returned anything but a result or an error of jumok.
"""

import contextlib
import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jumok.errors import JumokError

from . import result
from .payloads import MARKER, PAYLOADS, SECRET, Payload, lay_out

_RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn")
_CALLS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "urllib.Request")
_FINDS = ("pickle.find_class", "ctypes.dlopen", "code.__new__", "sys.setprofile", "sys.settrace")


@dataclass
class AuditLog:
    """The audit events while a payload was opened."""

    home: Path  # of the payload
    seen: list[str] = field(default_factory=list)

    def note(self, event: str, words: tuple[object, ...]) -> None:
        """One event of the audit hook."""
        if event.startswith(_RUNS) or event in _CALLS or event in _FINDS:
            self.seen.append(f"{event} {words!r:.80}")
        elif event == "subprocess.Popen":
            if not _is_our_own(words):
                self.seen.append(f"{event} {words!r:.80}")
        elif event in ("exec", "compile"):
            name = str(getattr(words[0], "co_filename", words[1] if len(words) > 1 else ""))
            if not _is_installed(name):
                self.seen.append(f"{event} {name[:80]}")
        elif event == "import":
            self._imported(words)
        elif event == "open":
            self._opened(words)

    def _imported(self, words: tuple[object, ...]) -> None:
        file = words[1] if len(words) > 1 else None
        if isinstance(file, str) and not _is_installed(file):
            self.seen.append(f"import {words[0]} from {file}")

    def _opened(self, words: tuple[object, ...]) -> None:
        if isinstance(words[0], int) or words[0] is None:
            return
        path = Path(os.path.abspath(os.fsdecode(words[0])))  # type: ignore[arg-type]  # links kept
        if path == self.home / SECRET or not (path.is_relative_to(self.home) or _is_ordinary(path)):
            self.seen.append(f"open {path}")


def _is_our_own(words: tuple[object, ...]) -> bool:
    """Whether this is a guarded program of the library, started by this interpreter."""
    from jumok.pretrained import pickle_reader
    from jumok.text import chat

    arguments = words[1]
    return (
        isinstance(arguments, list)
        and arguments[:3] == [sys.executable, "-P", "-B"]
        and arguments[3] in (pickle_reader.WORKER, chat.WORKER)
    )


_ROOTS = tuple(
    Path(root).resolve()
    for root in {
        *sysconfig.get_paths().values(),
        sys.base_prefix,
        sys.prefix,
        str(Path(__file__).parents[2] / "src"),
        str(Path(__file__).parents[2] / "benchmarks"),
    }
)


def _is_installed(name: str) -> bool:
    """Whether code belongs to the installation: a file in it, or compiled from a string by it."""
    if name.startswith("<"):
        return name != "<pickle>"
    return any(Path(os.path.abspath(name)).is_relative_to(root) for root in _ROOTS)


def _is_ordinary(path: Path) -> bool:
    """Files that may always be opened: of the installation, of the system, temporary ones."""
    return (
        _is_installed(str(path))
        or (
            str(path).startswith(("/proc/", "/sys/", "/usr/", "/etc/", "/dev/null", "/dev/shm/"))
            and str(path) != "/etc/passwd"
        )
        or Path(tempfile.gettempdir()) in (path, path.parent)  # unnamed files
        or path.is_relative_to(_cache())
    )


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))


_watches: list[AuditLog] = []  # the active log; an audit hook cannot be removed


def _hook(event: str, words: tuple[object, ...]) -> None:
    if _watches:
        watch = _watches.pop()  # events of the hook itself are not recorded
        try:
            watch.note(event, words)
        finally:
            _watches.append(watch)


@contextlib.contextmanager
def watching(home: Path) -> Iterator[AuditLog]:
    """Context in which audit events are recorded."""
    watch = AuditLog(home)
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.clear()


def _load(folder: Path) -> object:
    import jumok

    loaded = jumok.load(folder, device="cpu")
    return loaded.predict(["a b"])


def _import(folder: Path) -> object:
    from jumok.tasks.runs.import_checkpoint import import_checkpoint

    return import_checkpoint(folder, folder.parent / "imported")


def _begin(folder: Path) -> object:
    """What `jumok train` does with model.init before the first step."""
    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.tasks.registry import get_task
    from jumok.tasks.runs.initialize_from import initialize_from, load_tokenizers

    recipe = folder.parent / "begin.toml"
    from .fuzz_corpus import recipe as text

    recipe.write_text(text("classification"), encoding="utf-8")
    plan = load_recipe(str(recipe), [f'model.init="{folder}"'])
    plan = plan.with_vocabulary(*load_tokenizers(folder).sizes)
    return initialize_from(
        folder, plan, get_task(plan.task).build_model(plan.model, ("no", "yes")), ("no", "yes")
    )


def _vocab(folder: Path) -> object:
    from jumok.text.sentencepiece import SentencePieceTokenizer

    name = "vocabulary.model" if (folder / "vocabulary.model").exists() else "spiece.model"
    return SentencePieceTokenizer.load(folder / name).encode("a b")


def _trace(folder: Path) -> object:
    from jumok.interpret.trace import Trace

    names = [folder / "trace.safetensors", folder / "model.safetensors"]
    found = Trace.open(next((name for name in names if name.exists()), names[0]))
    page = found.html(folder.parent / "page.html")
    if b"<img src=x" in page.read_bytes():
        raise AssertionError("HTML of a token is in the page unescaped")
    return found.to_bytes()


def _recipe(folder: Path) -> object:
    from jumok.tasks.recipe.recipe import load_recipe

    return load_recipe(str(folder / "recipe.toml"))


def _rows(folder: Path) -> object:
    from jumok.data.files.tables import read_table

    return read_table(folder / "rows.tsv", ["text", "label"])


ENTRY_POINTS: Mapping[str, Callable[[Path], object]] = {
    "jumok.load": _load,
    "jumok import": _import,
    "model.init": _begin,
    "vocab": _vocab,
    "trace open": _trace,
    "recipe": _recipe,
    "rows": _rows,
}


@dataclass(frozen=True)
class Opened:
    """The result of a payload at one entry point."""

    payload: str
    entry_point: str
    seen: tuple[str, ...]
    foreign: str | None  # an exception that is not a JumokError
    refused: bool


_LED_TO: Mapping[str, tuple[str, ...]] = {
    "foreign": ("jumok.load", "jumok import", "model.init", "vocab", "trace open"),
    "run": ("jumok.load", "model.init", "vocab", "trace open", "recipe"),
    "trace": ("trace open", "jumok.load"),
    "table": ("rows",),
    "recipe": ("recipe", "jumok.load"),
}


def open_payload(payload: Payload, entry_points: Sequence[str] = ()) -> list[Opened]:
    """Open a payload through the given entry points, by default all for its kind of folder."""
    found = []
    for entry_point in entry_points or _LED_TO[payload.base]:
        with tempfile.TemporaryDirectory(prefix="hostile-") as temporary:
            home = Path(temporary).resolve()
            folder = home / "folder"
            lay_out(payload.base, folder)
            payload.change(folder)
            found.append(_entered(payload, entry_point, folder))
    return found


def _entered(payload: Payload, entry_point: str, folder: Path) -> Opened:
    foreign, refused, here = None, False, Path.cwd()
    os.chdir(folder)  # Python would search modules here
    try:
        with watching(folder.parent) as watch:
            try:
                ENTRY_POINTS[entry_point](folder)
            except JumokError:
                refused = True
            except BaseException as error:
                foreign = f"{type(error).__name__}: {error}"
    finally:
        os.chdir(here)
    seen = list(watch.seen)
    if (folder.parent / MARKER).exists():
        seen.append("its code ran")
    return Opened(payload.name, entry_point, tuple(seen), foreign, refused)


def warm_up() -> None:
    """Open a valid folder through every entry point, so that all modules are imported first."""
    for base in ("foreign", "run", "trace", "table"):
        open_payload(Payload("fine", base, lambda folder: None))
    open_payload(next(v for v in PAYLOADS if v.name == "bin, reduce to os.system"), ["jumok.load"])
    sys.addaudithook(_hook)


def main() -> int:
    """Open all payloads and print the results."""
    parser = result.parser("Vehicles of code at every public entry_point: nothing runs.")
    parser.add_argument("--only", default="")
    words = parser.parse_args().only
    proof = result.Proof("hostile", "Vehicles of code at every public entry_point: nothing runs.")
    warm_up()
    bad = entered = refused = 0
    chosen = [payload for payload in PAYLOADS if words in payload.name]
    for payload in chosen:
        opened = open_payload(payload)
        entered += len(opened)
        refused += sum(each.refused for each in opened)
        faults = [f"{each.entry_point}: {what}" for each in opened for what in each.seen]
        faults += [f"{each.entry_point}: {each.foreign}" for each in opened if each.foreign]
        bad += len(faults)
        proof.say(f"{payload.name:<42}{'; '.join(faults) if faults else 'nothing ran'}")
    proof.figures |= {"payloads": len(chosen), "openings": entered, "refused": refused}
    proof.figures["ran"] = bad
    return proof.end(
        {
            f"{len(chosen)} payloads, 60 at least": bool(words) or len(chosen) >= 60,
            "nothing ran, was imported or called; every answer a result or a sentence": not bad,
        }
    )


if __name__ == "__main__":
    sys.exit(main())

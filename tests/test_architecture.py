"""What holds for the whole house: floors, first lines, no pickle, no network, a quick start."""

import ast
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "jumok"
HELP_SECONDS = 0.3

PICKLING = {"cloudpickle", "copyreg", "dill", "joblib", "marshal", "pickle", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {"torch.load", "torch.save", "torch.jit.load", "numpy.save", "np.save"}

# Where src/jumok may name an address, and whose: a corpus, a licence, the name of a file format.
ADDRESSES = {
    **{
        f"data/catalogue/{kind}.py": ("https://github.com/", "https://raw.githubusercontent.com/")
        for kind in ("korean_english", "labelled", "multi30k", "pairs", "reviews", "texts")
    },
    "fonts/OFL.txt": ("https://github.com/", "https://scripts.sil.org/OFL"),
    "fonts/README.md": ("https://github.com/",),
    "viewer/static/JumokHangul-OFL.txt": ("http://www.nhncorp.com", "https://scripts.sil.org/OFL"),
}
LOOPBACK = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")  # not remote
NAMESPACES = (
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1999/xlink",
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/1999/xhtml",
)


def sources(*folders: str) -> list[Path]:
    """The Python files of the project below some of its folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """The text files below a folder, with what they hold."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def command(name: str) -> str:
    """A command of the environment that runs the tests."""
    return str(Path(sys.executable).with_name(name))


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_imports_go_down_the_floors_only() -> None:
    done = subprocess.run(
        [command("lint-imports"), "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "path", sources("src", "tests", "benchmarks", "examples", "scripts"), ids=lambda path: path.stem
)
def test_the_first_line_of_a_file_says_its_idea(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if not text and path.name == "__init__.py" and path.is_relative_to(ROOT / "tests"):
        return
    idea = ast.get_docstring(ast.parse(text)) or ""
    first = next(line for line in text.splitlines() if not line.startswith("#!"))
    assert first.lstrip("r").startswith('"""'), path
    assert idea.strip(), path


def dotted(node: ast.AST) -> str:
    """The name that an expression spells, such as torch.load; "" if it spells none."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name) if dotted(owner):
            return f"{dotted(owner)}.{name}"
    return ""


DOOR = PACKAGE / "pretrained" / "unpickle.py"  # a child process with limits; see interfaces
AT_THE_DOOR = {"pickle", "torch.load"}  # its error is a name of pickle


def unsafe(tree: ast.Module) -> Iterator[str]:
    """What in a file could run somebody's data as code."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (a.name for a in names if a.name.partition(".")[0] in PICKLING)
            case ast.ImportFrom(module=str(module), names=names):
                if module.partition(".")[0] in PICKLING:
                    yield module
                yield from (
                    full for a in names if (full := f"{module}.{a.name}") in FORBIDDEN_ATTRIBUTES
                )
            case ast.Attribute() if dotted(node) in FORBIDDEN_ATTRIBUTES:
                yield dotted(node)
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                yield f"{name}()"
            case ast.keyword(arg="allow_pickle", value=value):
                if not (isinstance(value, ast.Constant) and value.value is False):
                    yield "allow_pickle"


@pytest.mark.parametrize(
    "path", sources("src"), ids=lambda path: str(path.relative_to(PACKAGE).with_suffix(""))
)
def test_no_data_is_run_as_code(path: Path) -> None:
    found = set(unsafe(ast.parse(path.read_text(encoding="utf-8"))))
    assert found == (AT_THE_DOOR if path == DOOR else set()), path


def test_the_one_door_for_pickles_reads_plain_tensors_alone() -> None:
    """What `torch.load` is told there: never more than tensors."""
    calls = [
        node
        for node in ast.walk(ast.parse(DOOR.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and dotted(node.func) == "torch.load"
    ]
    assert calls
    for call in calls:
        (told,) = [word for word in call.keywords if word.arg == "weights_only"]
        assert isinstance(told.value, ast.Constant)
        assert told.value.value is True


def test_the_search_for_unsafe_code_finds_it() -> None:
    found = unsafe(
        ast.parse(
            "import pickle\nfrom torch import load\nfrom joblib import dump\n"
            "torch.save(x, path)\neval(text)\nmodel.eval()\nnp.load(path, allow_pickle=True)\n"
        )
    )
    assert set(found) == {"pickle", "torch.load", "joblib", "torch.save", "eval()", "allow_pickle"}


def test_no_remote_address_but_those_of_corpora_and_licences() -> None:
    strangers = [
        f"{name}: {address}"
        for path, text in texts(PACKAGE)
        for name in [str(path.relative_to(PACKAGE))]
        for address in re.findall(r"https?://\w[^\s\"'`<>)\]]*", text)
        if not address.startswith((*ADDRESSES.get(name, ()), *LOOPBACK, *NAMESPACES))
    ]
    assert strangers == []


def test_no_path_of_somebodys_machine() -> None:
    homes = "|".join(["home", "mnt", "opt", "ro" + "ot", "Users", "wo" + "rk"])
    somewhere = re.compile(rf"(?<![\w.~$}}/-])/(?:{homes})/\w")
    pages = [ROOT / "Makefile", ROOT / "pyproject.toml", *ROOT.glob("*.md")]
    folders = ["src", "tests", "docs", "benchmarks", "examples", "scripts", ".ci"]
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, text in [
            *((page, page.read_text(encoding="utf-8")) for page in pages),
            *(pair for folder in folders for pair in texts(ROOT / folder)),
        ]
        for match in somewhere.finditer(text)
    ]
    assert found == []


def test_importing_jumok_leaves_torch_alone() -> None:
    done = run_python("import sys, jumok; print(*sorted(sys.modules))")
    assert done.returncode == 0, done.stderr
    assert "jumok" in done.stdout.split()
    assert not {"torch", "matplotlib", "pyarrow", "sentencepiece"} & set(done.stdout.split())


def test_help_leaves_torch_alone() -> None:
    done = run_python(
        "import sys\n"
        "from jumok.cli import main\n"
        "sys.argv = ['jumok', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "heavy = {'torch', 'matplotlib', 'pyarrow', 'sentencepiece'}\n"
        "print('imported', *sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout
    assert done.stderr == "imported\n"


def test_help_answers_at_once() -> None:
    """The best of several runs, for the machine may be busy with something else."""
    fastest = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        subprocess.run([command("jumok"), "--help"], capture_output=True, check=True)
        fastest = min(fastest, time.perf_counter() - start)
        if fastest < HELP_SECONDS:
            return
    pytest.fail(f"jumok --help took {fastest:.2f} s at best, wanted {HELP_SECONDS} s")

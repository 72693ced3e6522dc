"""Rules for the whole project: layers, module docstrings, no pickle, no network."""

import ast
import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_trees import source_tree

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "jumok"

PICKLING = {"cloudpickle", "copyreg", "dill", "joblib", "marshal", "pickle", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {"torch.load", "torch.save", "torch.jit.load", "numpy.save", "np.save"}

# The files of src/jumok that may contain URLs, and which: corpora, licences, format names.
ADDRESSES = {
    "lab/rebuild/sources.py": ("https://github.com",),  # of clones, when a corpus is built
    **{
        f"data/corpora/{path.name}": ("https://github.com/", "https://raw.githubusercontent.com/")
        for path in (PACKAGE / "data" / "corpora").glob("*.toml")
    },
    "fonts/OFL.txt": ("https://github.com/", "https://scripts.sil.org/OFL"),
    "course/data/README.md": ("https://github.com/e9t/nsmc",),
    "fonts/README.md": ("https://github.com/",),
    "viewer/static/JumokHangul-OFL.txt": ("http://www.nhncorp.com", "https://scripts.sil.org/OFL"),
}
LOOPBACK = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")  # not remote
NAMESPACES = (
    "http://schemas.openxmlformats.org/",
    "http://www.w3.org/XML/1998/namespace",
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1999/xlink",
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/1999/xhtml",
)


def sources(*folders: str) -> list[Path]:
    """All Python files below the given folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """The text files below a folder, with their content."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def command(name: str) -> str:
    """The path of a command of the environment that runs the tests."""
    return str(Path(sys.executable).with_name(name))


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_import_linter_accepts_the_layers() -> None:
    done = subprocess.run(
        [command("lint-imports"), "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_every_file_starts_with_a_docstring() -> None:
    missing = []
    for path in sources("src", "tests", "benchmarks", "examples", "scripts"):
        text = path.read_text(encoding="utf-8")
        if not text and path.name == "__init__.py" and path.is_relative_to(ROOT / "tests"):
            continue
        first = next((line for line in text.splitlines() if not line.startswith("#!")), "")
        docstring = ast.get_docstring(ast.parse(text)) or ""
        if not (first.lstrip("r").startswith('"""') and docstring.strip()):
            missing.append(str(path.relative_to(ROOT)))
    assert missing == []


def dotted(node: ast.AST) -> str:
    """The dotted name of an expression, such as torch.load; "" for any other expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name) if dotted(owner):
            return f"{dotted(owner)}.{name}"
    return ""


PICKLE_READER = PACKAGE / "pretrained" / "pickle_worker.py"  # runs in a child process with limits
ALLOWED_THERE = {"pickle", "torch.load"}  # pickle for the name of its error


def unsafe(tree: ast.Module) -> Iterator[str]:
    """The calls and imports of a file that could execute data as code."""
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


def test_no_data_is_executed_as_code() -> None:
    found = {path: calls for path in sources("src") if (calls := set(unsafe(source_tree(path))))}
    assert found == {PICKLE_READER: ALLOWED_THERE}


def test_the_pickle_reader_loads_weights_only() -> None:
    """`torch.load` is called with weights_only=True."""
    calls = [
        node
        for node in ast.walk(ast.parse(PICKLE_READER.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and dotted(node.func) == "torch.load"
    ]
    assert calls
    for call in calls:
        (keyword,) = [k for k in call.keywords if k.arg == "weights_only"]
        assert isinstance(keyword.value, ast.Constant)
        assert keyword.value.value is True


def test_unsafe_finds_each_kind() -> None:
    found = unsafe(
        ast.parse(
            "import pickle\nfrom torch import load\nfrom joblib import dump\n"
            "torch.save(x, path)\neval(text)\nmodel.eval()\nnp.load(path, allow_pickle=True)\n"
        )
    )
    assert set(found) == {"pickle", "torch.load", "joblib", "torch.save", "eval()", "allow_pickle"}


def test_the_only_urls_are_those_of_corpora_and_licences() -> None:
    found = [
        f"{name}: {address}"
        for path, text in texts(PACKAGE)
        for name in [str(path.relative_to(PACKAGE))]
        for address in re.findall(r"https?://\w[^\s\"'`<>)\]]*", text)
        if not address.startswith((*ADDRESSES.get(name, ()), *LOOPBACK, *NAMESPACES))
    ]
    assert found == []


def test_no_absolute_paths_of_a_machine() -> None:
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


def test_importing_jumok_does_not_import_torch() -> None:
    done = run_python("import sys, jumok; print(*sorted(sys.modules))")
    assert done.returncode == 0, done.stderr
    assert "jumok" in done.stdout.split()
    assert not {"torch", "matplotlib", "pyarrow", "sentencepiece"} & set(done.stdout.split())


@pytest.mark.slow
def test_training_and_loading_import_few_modules() -> None:
    """Families, tasks and formats are imported by name: at most 190 modules and 150."""
    script = ROOT / "scripts" / "structure.py"
    done = subprocess.run(
        [sys.executable, script, "--source", ROOT / "src" / "jumok"],
        capture_output=True,
        text=True,
        check=True,
    )
    counts = re.findall(r"modules imported by jumok\.(train|load) +(\d+)", done.stdout)
    trained, loaded = (int(count) for _, count in counts)
    assert trained <= 190
    assert loaded <= 150


@pytest.mark.slow
def test_predicting_imports_neither_the_trainer_nor_tables(review_run: Path) -> None:
    done = run_python(
        "import sys, jumok\n"
        f"jumok.load({str(review_run)!r})('좋아요')\n"
        "print(*sorted(name for name in sys.modules\n"
        "    if name.startswith('jumok.training') or name in ('pyarrow', 'pandas')))\n"
    )
    assert done.returncode == 0, done.stderr
    allowed = {
        "jumok.training",
        "jumok.training.config",
        "jumok.training.optimizers",  # a registry, which loads by name
        "jumok.training.schedules",
        "jumok.training.job",  # the protocol that the file of each task names
    }
    assert set(done.stdout.split()) <= allowed


def test_help_does_not_import_torch() -> None:
    done = run_python(
        "import sys\n"
        "from jumok.cli import main\n"
        "sys.argv = ['jumok', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "heavy = {'torch', 'matplotlib', 'numpy', 'pyarrow', 'rich', 'sentencepiece'}\n"
        "print('imported', *sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout
    assert done.stderr == "imported\n"


@pytest.mark.parametrize(("name", "lines"), [("attention", 240), ("layer", 141)])
def test_attention_and_layer_stay_readable(name: str, lines: int) -> None:
    """New kinds of models are data in the config: these two files do not grow with them.

    The lines of examples in docstrings do not count.
    """
    text = (PACKAGE / "nn" / f"{name}.py").read_text(encoding="utf-8")
    examples = doctest.DocTestParser().get_examples(text)
    shown = sum(len((each.source + each.want).splitlines()) for each in examples)
    assert len(text.splitlines()) - shown <= lines

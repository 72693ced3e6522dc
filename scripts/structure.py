"""Measures the structure of the source tree: sizes, imports, cycles, calls and hand-overs.

    python scripts/structure.py                # the tree this script belongs to
    python scripts/structure.py --root OTHER   # another checkout, with the same definitions

The static figures come from the syntax trees. Imports under TYPE_CHECKING and imports inside
functions count as arrows. The dynamic figures come from training a tiny model in this process:
the calls between one training step and `backward()`, and the modules and parameters that receive
the recipe or one of its tables.
"""

import argparse
import ast
import inspect
import statistics
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import FrameType

import torch

FOLDERS = ("", "tasks", "training", "decoding", "interpret", "viewer", "data", "text", "models")
WORDS = (
    ("영화가", "결말이", "음악도", "배우들이"),
    ("정말", "너무"),
    ("좋아요", "지루해", "최고예요", "별로"),
)
TINY = (
    "task = 'classification'\n"
    "[data]\ntrain = '{folder}/train.tsv'\n"
    "dev = '{folder}/train.tsv'\ntest = '{folder}/train.tsv'\n"
    "[vocabulary]\nsize = 43\n"
    "[model]\nd_model = 16\nn_heads = 2\nd_ff = 32\nn_layers = 1\nmax_length = 16\n"
    "[training]\nsteps = 4\nbatch_tokens = 64\nprecision = 'float32'\n"
)


class Module:
    """One Python file: its name, lines, functions and the project's modules that it imports."""

    def __init__(self, path: Path, source: Path) -> None:
        relative = path.relative_to(source).with_suffix("")
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        self.name = ".".join(parts)
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @property
    def lines(self) -> int:
        """The number of lines of the file."""
        return self.text.count("\n")

    def imports(self, names: set[str]) -> set[str]:
        """The project's modules that this one imports, anywhere in the file."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= (whole & names) or {node.module}
        return (found & names) - {self.name}

    def functions(self) -> Iterator[int]:
        """The number of lines of each function's body, without its docstring."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                yield body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            component = []
            while not component or component[-1] != name:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def report_static(source: Path) -> None:
    """Prints the figures of the syntax trees, for the package and for its larger folders."""
    files = sorted(source.rglob("jumok/**/*.py"))
    modules = {module.name: module for module in (Module(path, source) for path in files)}
    names = set(modules)
    graph = {name: module.imports(names) for name, module in modules.items()}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, imported in graph.items():
        for other in imported:
            importers[other].add(name)
    print(f"{'folder':12} modules  lines  imported by one  arrows  cycles (modules in them)")
    for folder in FOLDERS:
        prefix = f"jumok.{folder}." if folder else "jumok"
        inside = {name for name in names if name.startswith(prefix)}
        part = {name: graph[name] & inside for name in inside}
        loops = cycles(part)
        print(
            f"{folder or 'jumok':12} {len(inside):7} {sum(modules[n].lines for n in inside):6} "
            f"{sum(len(importers[n]) == 1 for n in inside):16} {sum(map(len, part.values())):7}  "
            f"{len(loops)} ({', '.join(str(len(loop)) for loop in loops) or '-'})"
        )
    sizes = sorted(size for module in modules.values() for size in module.functions())
    print(
        f"functions: {len(sizes)}, lines of a body: mean {statistics.mean(sizes):.1f}, "
        f"99 % {sizes[int(0.99 * len(sizes))]}, longest {sizes[-1]}"
    )


def report_dynamic(package: Path) -> None:
    """Trains a tiny model; prints the calls to `backward()` and who receives the recipe."""
    from dataclasses import fields, is_dataclass

    train, load_recipe = entry_points()
    stacks: list[list[str]] = []
    backward = torch.Tensor.backward

    def observed(tensor: torch.Tensor, *args: object, **kwargs: object) -> None:
        frames = [f for f in traceback.extract_stack() if Path(f.filename).is_relative_to(package)]
        first = next(
            i for i, f in enumerate(frames) if "trainer" in f.filename and "step" in f.name
        )
        stacks.append([f"{Path(f.filename).stem}.{f.name}" for f in frames[first:]])
        backward(tensor, *args, **kwargs)  # type: ignore[arg-type]

    with tempfile.TemporaryDirectory() as folder:
        rows = "".join(f"{' '.join(text)}\t{text[1]}\n" for text in product(*WORDS))
        Path(folder, "train.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
        path = Path(folder, "tiny.toml")
        path.write_text(TINY.format(folder=folder), encoding="utf-8")
        recipe = load_recipe(str(path))
        tables = [getattr(recipe, f.name) for f in fields(recipe)]
        watched = {id(recipe)} | {id(table) for table in tables if is_dataclass(table)}
        received: set[tuple[str, str]] = set()
        whole: set[tuple[str, str]] = set()

        def look(frame: FrameType, event: str, _: object) -> None:
            if event != "call" or not frame.f_code.co_filename.startswith(str(package)):
                return
            code = frame.f_code
            for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                value = frame.f_locals.get(name)
                if id(value) in watched or type(value) is type(recipe):
                    key = (code.co_filename, f"{code.co_qualname}({name})")
                    received.add(key)
                    if type(value) is type(recipe):
                        whole.add(key)

        torch.Tensor.backward = observed  # type: ignore[method-assign, assignment]
        sys.setprofile(look)
        try:
            train(recipe, Path(folder, "run"))
        finally:
            sys.setprofile(None)
            torch.Tensor.backward = backward  # type: ignore[method-assign]
    way = max(stacks, key=len)
    print(f"from a step to backward(): {len(way)} calls: {' > '.join(way)}")
    for label, found in (("recipe", whole), ("recipe and its tables", received)):
        files = {file for file, _ in found}
        print(f"the {label}: {len(files)} modules, {len(found)} parameters")


def entry_points() -> tuple:  # type: ignore[type-arg]
    """`train` and `load_recipe`, of this tree or of one from before the modules were renamed."""
    try:
        from jumok.tasks.recipe.recipe import load_recipe
        from jumok.tasks.runs.train import train
    except ModuleNotFoundError:
        from jumok.tasks.training import train  # type: ignore[import-not-found, no-redef]

        from jumok.tasks.recipe import load_recipe  # type: ignore[attr-defined, no-redef]
    return train, load_recipe


def main() -> None:
    """Measures the tree that `--root` names."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    source = parser.parse_args().root.resolve() / "src"
    sys.path.insert(0, str(source))
    report_static(source)
    report_dynamic(source / "jumok")


if __name__ == "__main__":
    main()

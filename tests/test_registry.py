"""Parts by name: of jumok, of a program, and of other distributions."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.registry import Extension, Registry, _import_files, register

Function = Callable[[float], float]
CODE = "def half(x):\n    return x / 2\n"


def functions(group: str) -> Registry[Function]:
    return Registry(group, "function", {"root": "math:sqrt"})


def install(folder: Path, group: str, *entries: str) -> None:
    """A distribution as pip writes it: a module, and metadata with entry points."""
    (folder / "parts_of_others.py").write_text(CODE, encoding="utf-8")
    info = folder / "parts_of_others-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-of-others\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries]) + "\n")


def test_a_part_of_jumok_is_imported_when_it_is_used() -> None:
    found = Registry[object]("tests.lazy", "module", {"dis": "this_module_does_not_exist:x"})
    assert found.names() == ("dis",)
    with pytest.raises(ModuleNotFoundError):
        found.get("dis")


def test_a_program_registers_a_part() -> None:
    @register("tests.program", "twice")
    def twice(x: float) -> float:
        return 2 * x

    registry = functions("tests.program")
    assert registry.get("twice") is twice
    assert registry.names() == ("root", "twice")
    assert registry.extension("root") is None
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert registry.extension("twice") == Extension(
        "tests.program", "twice", __name__, "", "", digest
    )


def test_a_name_belongs_to_one_part() -> None:
    register("tests.conflict", "same", len)
    register("tests.conflict", "same", len)  # a notebook cell that runs again
    with pytest.raises(InputError, match="each name once"):
        register("tests.conflict", "same", max)
    assert functions("tests.conflict").get("same") is len


def test_the_name_of_a_part_of_jumok_is_refused() -> None:
    """It would be used instead of that of the program, without a word."""
    assert functions("tests.builtin").get("root")(9) == 3
    register("tests.builtin", "root", len)
    with pytest.raises(InputError) as caught:
        functions("tests.builtin").get("root")
    assert caught.value.message.code == "extension.name_taken"
    assert caught.value.message.values["place"] == "jumok (math:sqrt)"


def test_a_distribution_adds_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "tests.installed", "half = parts_of_others:half")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = functions("tests.installed")
    assert "half" in registry
    assert "parts_of_others" not in sys.modules  # not before it is used
    assert registry.get("half")(3) == 1.5
    digest = hashlib.sha256(CODE.encode()).hexdigest()
    assert registry.extension("half") == Extension(
        "tests.installed", "half", "parts_of_others", "parts-of-others", "1.2", digest
    )
    del sys.modules["parts_of_others"]


def test_a_distribution_whose_part_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "tests.broken", "third = parts_of_others:third")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"must be parts_of_others:third of parts-of-others"):
        functions("tests.broken").get("third")
    del sys.modules["parts_of_others"]


def test_an_unknown_name() -> None:
    with pytest.raises(InputError, match="got 'rot'; did you mean root"):
        functions("tests.unknown").get("rot")
    with pytest.raises(InputError, match="got 'sine'; known: root"):
        functions("tests.unknown").check("sine")


def test_parts_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of JUMOK_EXTENSIONS are imported when a name is not one of jumok."""
    path = tmp_path / "tests_parts.py"
    line = "from jumok.registry import register\n"
    path.write_text(f'{line}register("tests.file", "half", lambda x: x / 2)\n')
    monkeypatch.setenv("JUMOK_EXTENSIONS", str(path))
    _import_files.cache_clear()
    registry = functions("tests.file")
    assert registry.get("root")(9) == 3
    assert "tests_parts" not in sys.modules
    assert registry.get("half")(3) == 1.5
    found = registry.extension("half")
    assert found is not None
    assert (found.module, found.sha256) == (
        "tests_parts",
        hashlib.sha256(path.read_bytes()).hexdigest(),
    )
    monkeypatch.setenv("JUMOK_EXTENSIONS", str(tmp_path / "missing.py"))
    _import_files.cache_clear()
    with pytest.raises(InputError, match=r"must name files of Python, got '.*missing\.py'"):
        registry.get("third")
    monkeypatch.undo()
    _import_files.cache_clear()
    del sys.modules["tests_parts"]

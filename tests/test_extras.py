"""The extras: the table of their libraries, and the sentence where one of them is missing."""

import ast
import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest

from jumok.errors import MissingDependencyError
from jumok.extras import EXTRAS, check_installed, import_attribute, naming_extras
from jumok.language import localize
from tests.source_trees import source_nodes

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DISTRIBUTIONS = {"google": "protobuf"}  # whose module has another name
ON_WINDOWS = {"psutil"}  # elsewhere the source does without it
OF_A_NOTEBOOK = {"IPython"}


def required(lines: list[str]) -> set[str]:
    """The names of requirements, without the extras of jumok itself."""
    names = {re.split(r"[^\w.-]", line)[0].lower() for line in lines}
    return names - {"jumok"}


def distribution(module: str) -> str:
    return DISTRIBUTIONS.get(module, module.lower().replace("_", "-"))


def raises(beginning: str) -> "pytest.RaisesExc[MissingDependencyError]":
    return pytest.raises(MissingDependencyError, match=f"^{re.escape(beginning)}")


def imported() -> set[str]:
    """The modules of other distributions that the source imports, wherever."""
    found = set()
    for nodes in source_nodes().values():
        for node in nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"jumok"}


@pytest.mark.parametrize("extra", [name for name in EXTRAS if name != "korean"])
def test_the_table_has_the_libraries_of_an_extra(extra: str) -> None:
    wanted = required(PROJECT["optional-dependencies"][extra])
    assert set(map(distribution, EXTRAS[extra])) == wanted


def test_the_morphemes_are_of_sacrebleu() -> None:
    assert PROJECT["optional-dependencies"]["korean"][0].startswith("sacrebleu[ko]")
    wanted = [line for line in requires("sacrebleu") or () if 'extra == "ko"' in line]
    assert set(map(distribution, EXTRAS["korean"])) == required(wanted)


def test_each_library_of_the_source_is_required_or_in_an_extra() -> None:
    known = {distribution(module) for modules in EXTRAS.values() for module in modules}
    known |= required(PROJECT["dependencies"])
    found = imported() - OF_A_NOTEBOOK
    assert {module for module in found if distribution(module) not in known} == set()
    unused = required(PROJECT["dependencies"]) - set(map(distribution, found))
    assert unused <= ON_WINDOWS


def test_the_sentence_names_what_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MissingDependencyError) as caught, naming_extras("jumok evaluate"):
        import sacremoses  # noqa: F401
    assert str(caught.value) == (
        'jumok evaluate needs sacremoses, which is not installed; run pip install "jumok[moses]"'
    )
    assert localize(caught.value, "ko") == (
        "jumok evaluate에는 sacremoses이(가) 필요한데 설치되어 있지 않습니다; "
        'pip install "jumok[moses]"을 실행하십시오'
    )
    with raises("a score needs sacremoses"):
        check_installed("a score", "numpy", "sacremoses")


def test_an_attribute_of_a_package_has_the_name_that_the_user_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "needs_moses.py").write_text("import sacremoses\nscore = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with raises("jumok.nn.score needs sacremoses"):
        import_attribute("jumok.nn", "needs_moses", "score")
    with raises("jumok train needs sacremoses"), naming_extras("jumok train"):
        import_attribute("jumok.nn", "needs_moses", "score")
    with raises("note needs sacremoses"), naming_extras("jumok predict"):
        check_installed("note", "sacremoses")


@pytest.mark.parametrize("module", ["torch.no_such_module", "no_such_library"])
def test_other_missing_modules_stay_errors_of_python(module: str) -> None:
    named = pytest.raises(ModuleNotFoundError, match=re.escape(repr(module)))
    with named, naming_extras("jumok train"):
        __import__(module)

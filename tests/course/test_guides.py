"""The guides of the site: their Python runs, their commands and names exist."""

import re
import shlex
from pathlib import Path

import pytest

import jumok
from jumok.cli import COMMANDS
from jumok.cli.completion import candidates
from tests.course.public_objects import find_object

PAGES = Path(__file__).parents[2] / "docs" / "site" / "pages"
GUIDES = sorted([*PAGES.glob("guides/*.md"), PAGES / "index.md"])

every_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)


def _blocks(guide: Path, language: str) -> list[str]:
    text = guide.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["from-transformers", "from-joeynmt", "from-bertviz"])
def test_a_guide_for_users_of_other_libraries(name: str) -> None:
    text = (PAGES / "guides" / f"{name}.md").read_text(encoding="utf-8")
    assert text.count("\n|") > 5, "a table from their words to those of jumok"


@every_guide
def test_commands_and_options_exist(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    lines = [line for block in _blocks(guide, "sh") for line in block.splitlines()]
    lines += re.findall(r"`(jumok [a-z][^`]*)`", text)
    for line in lines:
        words = shlex.split(line.partition(" #")[0])
        if words[:1] != ["jumok"]:
            continue
        command, *rest = words[1:]
        assert command in COMMANDS, line
        subcommands = [each for each in candidates([command], "") if not each.startswith("-")]
        before = [command, rest[0]] if rest and rest[0] in subcommands else [command]
        options = [
            word.partition("=")[0] for word in rest if re.fullmatch(r"--[a-z-]+(=.*)?", word)
        ]
        for option in options:
            assert option in candidates(before, "--"), line


@every_guide
def test_objects_exist(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    for name in re.findall(r"\{py:obj\}`jumok\.([\w.]+)`", text):
        find_object(name)
    for name, attribute in re.findall(r"`?\b(jumok|trace|pipeline)\.(\w+)\(", text):
        owner = {"jumok": jumok, "trace": jumok.Trace, "pipeline": jumok.Pipeline}[name]
        assert hasattr(owner, attribute), f"{name}.{attribute}"


@every_guide
def test_python_runs(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in _blocks(guide, "python"):
        if "runs/" not in block:  # needs a trained run
            exec(compile(block, guide.name, "exec"), {})

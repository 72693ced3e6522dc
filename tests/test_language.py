"""The catalogue of Korean: complete, not stale, the same values; JSON stays English."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
import typer

from jumok.checks import EXPORT_CHECKS, all_checks
from jumok.cli import COMMANDS, OPTIONS, command_app, help_text
from jumok.cli.export import _in_language
from jumok.data.corpora.registry import CORPORA
from jumok.errors import InputError
from jumok.export.report import ExportReport, NotMeasured, NumericComparison, OutputComparison
from jumok.language import (
    GOT,
    catalogue,
    korean_message,
    language,
    literals,
    match,
    translate,
    translate_message,
)
from jumok.serving.worker import without_input
from jumok.tasks.recipe.recipe import load_recipe
from jumok.terminal import text_width
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]

SOURCE = Path(__file__).parent.parent / "src" / "jumok"

MESSAGE_CALLS = re.compile(
    r"(Jumok|Input|Storage|Checkpoint|NonFinite|ProcessLost|Callback|Kernel|ServerBusy)Error|Interrupted|"
    r"RequestError|invalid|NotApplicable|unavailable|print_notice|_print_error|_?warn_once|logger\.warning"
)

TRANSLATES = ("translate", "say")  # `say` is an argument of the report of an export

# What typer and the operating system write, and values that are chosen in the source.
OF_OTHERS = re.compile(
    r"Missing |No such |Invalid value|Got unexpected|Option '|Input should|'\{\}' is not one of|"
    r"Permission denied|Is a directory|Not a directory|File exists|No space left"
)
BUILT_IN_PARTS = (
    "an integer or a string",
    "a number or a string",
    "a string or a list",
    "{}: {}",
)


def _template(node: ast.AST) -> str | None:
    """A string or an f-string, with {} for each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("%s", "{}")  # of a log message
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) or "" for part in node.values)
    return "{}" if isinstance(node, ast.FormattedValue) else None


def _messages() -> Iterator[tuple[str, str]]:
    """The place and the template of every message that the source raises or prints."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = ast.unparse(node.func)
            if MESSAGE_CALLS.fullmatch(name):
                template = _template(node.args[2 if name == "RequestError" else 0])
                if template is not None:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", template


def _templates_of_the_source() -> set[str]:
    """Every string of the source with {} for its values, whole and line by line."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (template := _template(node)) is not None:
                found |= {template, *template.split("\n")}
    return found


def _help_texts() -> Iterator[str]:
    def walk(command: typer.core.TyperGroup) -> Iterator[str]:
        yield inspect.cleandoc(command.help or "")
        for parameter in command.params:
            yield getattr(parameter, "help", None) or ""
        for subcommand in getattr(command, "commands", {}).values():
            yield from walk(subcommand)

    yield from (*COMMANDS.values(), *OPTIONS.values())
    for name in COMMANDS:
        yield from walk(typer.main.get_command(command_app(name)))  # type: ignore[arg-type]


def _has_words(template: str) -> bool:
    return bool(re.search("[A-Za-z]{2}", "".join(literals(template.replace("{}", "{0}")))))


@pytest.fixture
def korean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_LANG", "ko")


def test_every_help_text_has_its_korean() -> None:
    known = catalogue()["help"]
    assert [text for text in _help_texts() if text and text not in known] == []


def test_every_message_has_its_korean() -> None:
    known = catalogue()["messages"]
    missing = {
        place: template
        for place, template in _messages()
        if _has_words(template) and not any(line in known for line in template.split("\n"))
    }
    assert missing == {}


def _translated_literals() -> Iterator[tuple[str, str]]:
    """The place and the template of every text that the source translates."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            translates = isinstance(node, ast.Call) and ast.unparse(node.func) in TRANSLATES
            if isinstance(node, ast.Call) and translates and node.args:
                section = next((k.value for k in node.keywords if k.arg == "section"), None)
                if section is None and (template := _template(node.args[0])) is not None:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", template


def test_every_translated_text_has_its_korean() -> None:
    known = catalogue()["output"]
    assert {place: text for place, text in _translated_literals() if text not in known} == {}


def test_the_report_and_the_tables_have_their_korean() -> None:
    known = catalogue()["output"]
    report = (SOURCE / "training/reporting/report.html.jinja").read_text(encoding="utf-8")
    words = re.findall(r'(?:section|translate)\("([^"]+)"\)', report)
    for headings in re.findall(r'table\("[^"]*", \(([^)]*)\)', report):
        words += re.findall(r'"([^"]+)"', headings)
    assert len(words) > 15
    assert [word for word in words if word not in known] == []


def test_the_descriptions_of_corpora_and_checks_have_their_korean(korean: None) -> None:
    names = [check.name for check in (*all_checks(), *EXPORT_CHECKS)]
    texts = [*names, *(corpus.description for corpus in CORPORA.values())]
    assert len(texts) > 30
    assert [text for text in texts if not re.search("[가-힣]", translate_message(text))] == []


def test_the_report_of_an_export_is_korean(korean: None) -> None:
    outputs = OutputComparison("beam 4", 3, 1, ("text 2: from token 4 on, 0.000001 apart",), ("",))
    compared = NumericComparison("logits", "all 30 rows of dev", 2e-7, 1e-5, (outputs,))
    report = ExportReport(compared, NotMeasured("dev.tsv"))
    assert list(report.lines(_in_language)) == [
        "차이         검증 세트의 행 30개 전체의 로짓: 최대 2.0e-07, 허용 1e-05",
        "beam 4       텍스트 3개 가운데 1개가 같음, 동점 1개, 다름 1개",
        "  동점, 텍스트 2: 토큰 4부터, 차이 0.000001",
        "  다름, ",
        "int8         재지 않음: dev.tsv",
    ]
    assert next(report.lines()).startswith("difference   logits of all 30 rows of dev: at most ")


def test_the_effects_of_heads_are_korean(korean: None, capsys: Capture) -> None:
    done = call(capsys, "heads", "note", "겨울은 추워요.", "--patch", "여름은 더워요.")
    first, columns, *rows = done.out.splitlines()
    assert re.fullmatch(
        r"'Winter is cold.'의 로그 확률: -\d\.\d{6}; OTHER에서는 -\d+\.\d{6}", first
    )
    assert columns.split() == ["헤드", "값", "변화"]
    assert {text_width(line) for line in rows} == {text_width(columns)}


def test_warnings_are_printed_in_korean(review_run: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jumok", "predict", review_run, "좋아요 " * 2_000],
        env=os.environ | {"JUMOK_LANG": "ko"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "특수 토큰을 포함해 토큰이" in done.stderr
    assert "truncated" not in done.stderr


def test_the_models_are_described_in_korean(korean: None, capsys: Capture) -> None:
    out = call(capsys, "models").out
    assert "한국어 인코더입니다" in out
    assert re.search(r"^ko-small  +마스크 언어 모델$", out, re.MULTILINE)


def test_no_entry_is_stale() -> None:
    source = _templates_of_the_source()
    templates = (SOURCE / "training/reporting/report.html.jinja").read_text(encoding="utf-8")
    sections = catalogue()
    helps = {*_help_texts()}
    of_typer = ("Usage", "Arguments", "Options", "Commands", "default", "required")
    stale = [
        english
        for english in sections["help"]
        if english not in helps | source
        and english not in (*of_typer, "Show this message and exit.")
    ]
    stale += [x for x in sections["output"] if x not in source and f'"{x}"' not in templates]
    stale += [
        english
        for english in sections["messages"]
        if not {english, english.strip("\n")} & source
        and not OF_OTHERS.match(english)
        and english not in BUILT_IN_PARTS
    ]
    assert stale == []


@pytest.mark.parametrize("section", ["output", "messages"])
def test_the_korean_has_the_same_values(section: str) -> None:
    for english, korean in catalogue()[section].items():
        assert sorted(_values(english)) == sorted(_values(korean)), english


def _values(template: str) -> list[tuple[str, str, str | None]]:
    """Number, format and conversion of each value of a template."""
    fields = [part for part in Formatter().parse(template) if part[1] is not None]
    return [
        (name or str(number), specification or "", conversion)
        for number, (_, name, specification, conversion) in enumerate(fields)
    ]


def test_the_korean_is_korean() -> None:
    for section in catalogue().values():
        for english, korean in section.items():
            if korean != english:
                assert re.search("[가-힣]", korean), english


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "JUMOK_LANG": "ko"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "JUMOK_LANG": "en"}, "en"),
    ],
)
def test_language_of_the_environment(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JUMOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language() == expected


def test_match() -> None:
    with_advice = literals("{} must be {}, got {}{}")
    assert match(with_advice, "a must be b, got c") == ["a", "b", "c", ""]
    assert match(with_advice, "a must be b, got c; try d") == ["a", "b", "c", "; try d"]
    assert match(literals("{}x{}"), "no letter") is None
    assert match(literals("same"), "same") == []
    assert match(literals("ab{}bc"), "abc") is None  # the parts do not overlap


def test_messages_of_the_server_without_their_values_are_korean() -> None:
    for english, korean in catalogue()["messages"].items():
        before, got, _ = english.partition(GOT)
        if got and len(before) > 20 and "{" not in before:
            values = ["17"] * (len(literals(english)) - 1)
            found = korean_message(without_input(english.format(*values), "a"), cut=True)
            assert literals(korean)[0] == found[: len(literals(korean)[0])], english
            assert re.search("[가-힣]", found), english


def test_an_exception_stays_english_and_is_printed_in_korean(korean: None, capsys: Capture) -> None:
    with pytest.raises(InputError) as raised:
        load_recipe("numbers", ["training.stesp=3"])
    assert str(raised.value) == "training.stesp is not known; did you mean training.steps?"
    done = call(capsys, "train", "numbers", "training.stesp=3")
    assert done.code == 2
    assert done.err == "jumok: training.stesp: 없는 키입니다; 혹시 training.steps 아닌가요?\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["trian"], "'trian': 없는 명령입니다; 혹시 train 아닌가요?"),
        (["train", "numbers", "seed=x"], 'seed: 정수여야 합니다 (받은 값: "x")'),
        (["train", "numbers", "seed"], "덮어쓰기 값은 key=value 꼴이어야 합니다"),
        (["train", "numbres"], "레시피는 내장 이름이거나 .toml 파일이어야 합니다"),
        (["average"], "인자 'RUN'이(가) 없습니다; jumok average --help를 보십시오"),
        (["average", "x", "--lsat", "2"], "없는 옵션입니다: --lsat"),
        (["average", "x", "--last", "둘"], "'--last'의 값이 올바르지 않습니다: "),
        (["vocab", "trian"], "'trian': 없는 명령입니다. 혹시 'train' 아닌가요?"),
        (["predict", "없는-폴더", "글"], "그런 폴더가 없습니다. jumok train으로 만든 폴더를"),
    ],
)
def test_korean_errors(arguments: list[str], expected: str, korean: None, capsys: Capture) -> None:
    done = call(capsys, *arguments)
    assert done.code == 2
    assert expected in done.err
    assert done.err.startswith("jumok: ")


def test_errors_in_a_table(korean: None, tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "리뷰.tsv"
    data.write_text("text\tlabel\n좋아요\n별로예요\t0\t1\n", encoding="utf-8")
    done = call(
        capsys, "train", "nsmc", f"data.train={data}", "data.corpus=", "--out", tmp_path / "r"
    )
    assert done.code == 2
    assert "칸 1개인데 2개여야 합니다" in done.err
    assert "칸 3개인데 2개여야 합니다" in done.err


def test_a_long_message_is_translated_at_once(korean: None) -> None:
    hostile = "a: " * 1000 + ", got " * 100
    start = time.process_time()
    translate_message(hostile)
    assert time.process_time() - start < 1.0
    assert translate_message("x" * 10_000) == "x" * 10_000


def test_help_in_korean(korean: None, capsys: Capture) -> None:
    done = call(capsys, "average", "--help")
    assert done.code == 0
    assert done.out.startswith("사용법: jumok average [OPTIONS]")
    assert "평균할 최근 체크포인트의 수. [기본값: 2]" in done.out
    assert max(map(text_width, done.out.splitlines())) <= 80
    assert not re.search(r"\b(Usage|Options|Arguments|Show this|default|required)\b", done.out)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_english_is_left_in_korean_help(name: str, korean: None, capsys: Capture) -> None:
    out = call(capsys, name, "--help").out
    assert max(map(text_width, out.splitlines())) <= 80
    assert not re.search(r"\b(the|of|and|for|is|are)\b", out)


def test_the_list_of_commands_in_korean(korean: None) -> None:
    assert help_text().startswith("jumok(주목)")
    assert "사용법: jumok COMMAND ..." in help_text()


def test_json_is_the_same_in_korean(
    review_run: Path, korean: None, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    lines = ["vocab", "encode", review_run / "vocabulary.model", "좋아요", "--json"]
    korean_json = call(capsys, *lines).out
    monkeypatch.setenv("JUMOK_LANG", "en")
    assert call(capsys, *lines).out == korean_json
    assert json.loads(korean_json)["text"] == "좋아요"


def test_translate_in_korean(korean: None) -> None:
    assert translate("{:,} rows of {}", 2000, "dev") == "dev의 행 2,000개"
    assert translate("not in the catalogue {}", 1) == "not in the catalogue 1"


@pytest.mark.parametrize("name", ["en", "ko"])
def test_help_takes_less_than_0_3_seconds(name: str) -> None:
    environment = os.environ | {"JUMOK_LANG": name}
    code = "from jumok.cli import main; main(['--help'])"
    seconds = []
    for _ in range(3):
        times = os.times()
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        )
        after = os.times()
        seconds.append(
            after.children_user
            + after.children_system
            - times.children_user
            - times.children_system
        )
    assert min(seconds) < 0.3

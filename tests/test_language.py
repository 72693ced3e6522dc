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
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Literal, NamedTuple

import pytest
import typer

import jumok.errors
from jumok.checks import EXPORT_CHECKS, all_checks
from jumok.cli import COMMANDS, OPTIONS, command_app, help_text
from jumok.cli.export import _in_language
from jumok.config_io import check_choice
from jumok.data.corpora.registry import CORPORA
from jumok.errors import InputError, Message
from jumok.export.report import ExportReport, NotMeasured, NumericComparison, OutputComparison
from jumok.language import (
    catalogue,
    language,
    literals,
    localize,
    match,
    translate,
)
from jumok.tasks.pipeline.text_warnings import EMPTY_TEXT, _text_warnings
from jumok.tasks.recipe.recipe import load_recipe
from jumok.terminal import text_width
from tests.cli.commands import call
from tests.source_trees import SOURCE, source_nodes

Capture = pytest.CaptureFixture[str]

CODE = re.compile(r"[a-z]+\.[a-z0-9_]+")

# The classes of exceptions and messages, and functions that make one.
MESSAGES = re.compile(
    r"[A-Z]\w*Error|Interrupted|NotApplicable|Message|print_message|super\(\).__init__|_invalid"
)

TRANSLATES = ("translate", "say")  # `say` is an argument of the report of an export


class Raised(NamedTuple):
    """A message of the source: where it is, its code, template and the names of its values."""

    place: str
    code: str
    template: str
    values: tuple[str, ...]


@cache
def _messages() -> tuple[Raised, ...]:
    """Every call whose first two arguments are a code and a template."""
    found = []
    for path, nodes in source_nodes().items():
        for node in nodes:
            if not isinstance(node, ast.Call) or len(node.args) < 2:
                continue
            first, second = (
                each.value if isinstance(each, ast.Constant) else None for each in node.args[:2]
            )
            if not (isinstance(first, str) and isinstance(second, str) and CODE.fullmatch(first)):
                continue
            if MESSAGES.fullmatch(function := ast.unparse(node.func)):
                names = [k.arg for k in node.keywords if k.arg]
                if function == "RequestError":
                    names.append("param")
                found.append(
                    Raised(f"{path.relative_to(SOURCE)}:{node.lineno}", first, second, tuple(names))
                )
    return tuple(found)


def _template(node: ast.AST) -> str | None:
    """A string or an f-string, with {} for each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) or "" for part in node.values)
    return "{}" if isinstance(node, ast.FormattedValue) else None


def _strings() -> set[str]:
    """Every string of the source with {} for its values, whole and line by line."""
    found: set[str] = set()
    for nodes in source_nodes().values():
        for node in nodes:
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


@pytest.fixture
def korean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_LANG", "ko")


def test_every_help_text_has_its_korean() -> None:
    known = catalogue()["help"]
    assert [text for text in _help_texts() if text and text not in known] == []


def test_each_code_has_one_template() -> None:
    templates: dict[str, set[str]] = {}
    for message in _messages():
        templates.setdefault(message.code, set()).add(message.template)
    assert {code: each for code, each in templates.items() if len(each) > 1} == {}


def test_every_message_has_its_korean() -> None:
    known = catalogue()["messages"]
    assert {each.place: each.code for each in _messages() if each.code not in known} == {}


def test_no_message_is_stale() -> None:
    assert set(catalogue()["messages"]) - {each.code for each in _messages()} == set()


def test_the_korean_of_a_message_has_its_values() -> None:
    known = catalogue()["messages"]
    wrong = {}
    for each in _messages():
        english, korean = _fields(each.template), _fields(known.get(each.code, each.template))
        if not set(korean) <= set(english) or {name for name, _, _ in english} - set(each.values):
            wrong[each.place] = each.code
    assert wrong == {}


def test_every_message_is_localized_without_the_values_that_were_given() -> None:
    """As the server answers, after the message has come from the computing process as JSON."""
    for each in _messages():
        values = _example_values(each.template)
        public = Message(each.code, each.template, **values).without(["1f9c"])
        for message in (public, Message.from_json(json.loads(json.dumps(public.to_json())))):
            for text in (localize(message, "ko"), localize(message, "en")):
                assert "1f9c" not in text, each


def _example_values(template: str) -> dict[str, object]:
    """A text for each field that formats one, and a number for the others."""
    return {
        name: 2 if spec and spec[-1] in "fdge%," else "1f9c" for name, spec, _ in _fields(template)
    }


def _texts(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may have as its value, with {} for their values."""
    match node:
        case ast.IfExp():
            yield from (*_texts(node.body), *_texts(node.orelse))
        case ast.BoolOp():
            for each in node.values:
                yield from _texts(each)
        case ast.Dict():
            for value in node.values:
                yield from _texts(value)
        case _:
            yield from filter(None, [_template(node)])


# The arguments of functions that become a value of a message.
VALUES = {"storage_errors": 0, "check_finite": 1, "KernelChoice": 2}


def _values_of_messages() -> Iterator[tuple[str, str]]:
    """The place and the text of each value of a message that is written in the source."""
    for path, nodes in source_nodes().items():
        for node in nodes:
            found: list[ast.expr] = []
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in VALUES:
                    found = node.args[VALUES[name] :][:1]
                elif MESSAGES.fullmatch(name) and len(node.args) > 1:
                    found = [keyword.value for keyword in node.keywords]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_ADVICE":
                found = [node.value]
            for value in found:
                for text in _texts(value):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", text


def test_every_text_among_the_values_has_its_korean() -> None:
    """A value of several English words is a phrase, or has the form of a text of others."""
    phrases, others = catalogue()["phrases"], catalogue()["others"]
    command = "iconv -f cp949 -t utf-8"
    missing = {}
    for place, text in _values_of_messages():
        words = re.search(r"[a-z]{2,} +[a-z]{2}", text.replace("{}", ""))
        if not words or text in phrases or text == command:
            continue
        probe = text.replace("{}", "1f9c")
        if all(match(literals(each), probe) is None for each in others):
            missing[place] = text
    assert missing == {}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("no/d.npy: cannot be written", "no/d.npy: 쓸 수 없습니다"),
        ("Input should be greater than or equal to 1", "1 이상이어야 합니다"),
        ("Bad file descriptor", "잘못된 파일 디스크립터입니다"),
        ("the engine for avx2, without PyTorch", "PyTorch 없는 avx2용 엔진"),
        (
            Message("model.tensor_of_other_shape", "", name="a", shape=(4,), expected=(3,)),
            "a의 모양은 (3,)이어야 하는데 (4,)입니다",
        ),
    ],
)
def test_values_of_messages_in_korean(message: object, expected: str, korean: None) -> None:
    assert localize(message) == expected


def test_no_exception_is_raised_without_a_code() -> None:
    """An exception of jumok has a code, or is another's message that is passed on."""
    without = []
    for path, nodes in source_nodes().items():
        for node in nodes:
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                name = ast.unparse(node.exc.func)
                text = _template(node.exc.args[0])
                known = getattr(jumok.errors, name, None) is not None
                if known and text is not None and not CODE.fullmatch(text):
                    without.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert without == []


def _translated_literals() -> Iterator[tuple[str, str]]:
    """The place and the template of every text that the source translates."""
    for path, nodes in source_nodes().items():
        for node in nodes:
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
    assert [text for text in texts if not re.search("[가-힣]", localize(text))] == []


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
    source = _strings()
    templates = (SOURCE / "training/reporting/report.html.jinja").read_text(encoding="utf-8")
    sections = catalogue()
    helps = {*_help_texts()}
    of_typer = ("Usage", "Arguments", "Options", "Commands", "default", "env var", "required")
    stale = [
        english
        for english in sections["help"]
        if english not in helps | source
        and english not in (*of_typer, "Show this message and exit.")
    ]
    built = re.compile(r"an? \w+ or an? \w+")  # of the names of types
    stale += [
        x
        for x in sections["output"]
        if x not in source and f'"{x}"' not in templates and not built.fullmatch(x)
    ]
    assert stale == []


@pytest.mark.parametrize("section", ["output", "others"])
def test_the_korean_has_the_same_values(section: str) -> None:
    for english, korean in catalogue()[section].items():
        assert sorted(_fields(english)) == sorted(_fields(korean)), english


def _fields(template: str) -> list[tuple[str, str, str | None]]:
    """Name or number, format and conversion of each value of a template."""
    fields = [part for part in Formatter().parse(template) if part[1] is not None]
    return [
        (name or str(number), specification or "", conversion)
        for number, (_, name, specification, conversion) in enumerate(fields)
    ]


def test_the_korean_is_korean() -> None:
    for section in catalogue().values():
        for english, korean in section.items():
            words = re.search("[A-Za-z]{2}", re.sub(r"\{[^}]*\}", "", korean))
            if korean != english and words:
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
    rows = "text\tlabel\n좋아요\n별로예요\t0\t1\n\t1\n".encode()
    data.write_bytes(rows + "재미있다\t1\n".encode("cp949"))
    done = call(
        capsys, "train", "nsmc", f"data.train={data}", "data.corpus=", "--out", tmp_path / "r"
    )
    assert done.code == 2
    assert "칸 1개인데 2개여야 합니다" in done.err
    assert "칸 3개인데 2개여야 합니다" in done.err
    assert "text이(가) 비어 있습니다(받은 값: '')" in done.err
    assert "1번째 바이트가 UTF-8이 아니며 cp949일 수 있습니다" in done.err


def test_no_text_of_others_is_hidden_by_an_earlier_one(korean: None) -> None:
    for english, expected in catalogue()["others"].items():
        names = [f"1f9c{number}" for number in range(english.count("{}"))]
        assert localize(english.format(*names)) == expected.format(*names)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("No such option: --foo (Possible options: --log, --out)", "비슷한 옵션: --log, --out"),
        ("the tokens have a mean probability of 0.50: a, b", "평균 0.50, 확률이 낮은 단어: a, b"),
        ("part 2: 3 tokens of the text were not read", "2번째 부분: 텍스트에서 읽지 않은 토큰 3개"),
        (next(_text_warnings(1, 0)).message, "어휘에 없는 문자 1개"),
        (next(_text_warnings(0, 1)).message, "텍스트에서 읽지 않은 토큰 1개"),
        (EMPTY_TEXT.message, "텍스트가 비어 있습니다"),
    ],
)
def test_options_and_warnings_in_korean(message: str, expected: str, korean: None) -> None:
    assert expected in localize(message)


def test_decoding_settings_in_korean(korean: None, capsys: Capture) -> None:
    done = call(capsys, "predict", "note", "겨울은 추워요.")
    assert done.err.startswith("디코딩 설정: ")


def test_a_wrong_choice_of_an_option(korean: None, capsys: Capture) -> None:
    """The words that pydantic puts before the message of typer are left out."""
    done = call(capsys, "search", "ko-static", "a.txt", "--method", "x")
    assert "'x'은(는) 쓸 수 없습니다" in done.err
    assert "Value error" not in done.err


def test_choices_in_korean(korean: None) -> None:
    with pytest.raises(InputError) as raised:
        check_choice("norm", 1, Literal["layer", "rms", "none"])
    assert localize(raised.value) == 'norm: "layer", "rms" 또는 "none"여야 합니다 (받은 값: 1)'


def test_a_message_of_others_is_translated(korean: None) -> None:
    assert localize("No such option: --lsat") == "없는 옵션입니다: --lsat"
    assert localize("unknown to the catalogue") == "unknown to the catalogue"
    assert localize("Invalid value (at line 3, column 9)") == "3행 9열: 값이 잘못되었습니다"
    hostile = "No such option: " * 1000
    start = time.process_time()
    localize(hostile)
    assert time.process_time() - start < 1.0


def test_messages_within_messages_are_translated(korean: None) -> None:
    inner = InputError("advice.did_you_mean", "did you mean {word}?", word="steps")
    outer = Message(
        "file.bad_line",
        "{path}:{number}: {fault}; {advice}",
        path="a",
        number=1,
        fault=inner,
        advice="",
    )
    assert "혹시 steps 아닌가요?" in localize(outer)
    assert localize(inner.at("a.toml:3")) == "a.toml:3: 혹시 steps 아닌가요?"


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


def test_no_code_has_two_messages() -> None:
    def check(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        assert {name for name in names if names.count(name) > 1} == set()
        return dict(pairs)

    json.loads((SOURCE / "korean.json").read_text(encoding="utf-8"), object_pairs_hook=check)

"""`report.html`: one self-contained file that shows every text literally."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.evaluation.examples import Example, Mistake
from jumok.terminal import escape_control
from jumok.training.reporting.metrics import LogRecord
from jumok.training.reporting.report import write_report
from tests.errors import raises

NASTY = [
    "</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "]]>",
    "\u2028",
    "javascript:alert(1)",
    "</style>",
    "</pre><h1>",
    "\"'&amp;",
    "$x_1$ {row} %s",
    "ㅋㅋㅠㅠ … ㈜",
    "\u202eright to left",
]
HISTORY: list[LogRecord] = [
    {
        "kind": "train",
        "step": 10,
        "epoch": 0.5,
        "loss": 0.7,
        "learning_rate": 1e-4,
        "tokens_per_second": 9000.0,
        "seconds": 3.0,
    },
    {
        "kind": "dev",
        "step": 20,
        "epoch": 1.0,
        "loss": 0.6,
        "score": 0.8,
        "metric": "accuracy",
        "seconds": 75.0,
    },
]


class Page(HTMLParser):
    """The page as a browser parses it: elements, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def report(folder: Path, texts: list[str]) -> tuple[str, Page]:
    path = write_report(
        folder,
        title=texts[0],
        history=HISTORY,
        results={"accuracy": 0.8671, "n": 50_000, "versions": {texts[0]: texts[-1]}, "gap": None},
        recipe_toml="\n".join(texts),
        confusion=[[1] * len(texts)] * len(texts),
        labels=texts,
        mistakes=[Mistake(text, text, text, 0.9) for text in texts],
        examples=[Example(text, text, text + "!") for text in texts],
    )
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def test_texts_are_shown_literally(tmp_path: Path) -> None:
    _, page = report(tmp_path, NASTY)
    for text in map(escape_control, NASTY):
        assert page.texts.count(text) >= 6  # label twice, mistake three times, example twice
        assert text + "!" in page.texts
    assert escape_control("\n".join(NASTY)) in page.texts  # the recipe


def test_texts_add_no_element(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    _, nasty = report(tmp_path, NASTY)
    _, plain = report(tmp_path / "plain", [f"text {n}" for n in range(len(NASTY))])
    assert nasty.tags == plain.tags


def test_the_page_loads_nothing_external(tmp_path: Path) -> None:
    text, page = report(tmp_path, ["글"])
    assert not {"script", "link", "img", "iframe", "object", "base", "a"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {"src", "href", "srcset", "action", "xlink:href"} & names
    assert not any(name.startswith("on") for name in names)
    assert "://" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_the_page_in_korean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_LANG", "ko")
    text, page = report(tmp_path, ["부정", "긍정"])
    assert '<html lang="ko">' in text
    assert {"학습 곡선", "혼동 행렬", "가장 확신한 오답", "검증 손실", "에폭"} <= {*page.texts}
    assert not {"Curves", "Confusion matrix", "dev loss", "epoch"} & {*page.texts}


def test_the_contents_of_the_page(tmp_path: Path) -> None:
    _, page = report(tmp_path, ["부정", "긍정"])
    assert page.tags.count("svg") == 2
    for expected in (
        "0.8671",
        "50,000",
        "Curves",
        "Confusion matrix",
        "1:15",
        "90.0%",
        "50.0%",
        "–",
    ):
        assert expected in page.texts
    assert "versions.부정" in page.texts


def test_results_have_dotted_names(tmp_path: Path) -> None:
    results = {"others": [{"split": "patterns", "bleu": 81.5}], "seeds": [1, 2], "none": {}}
    path = write_report(tmp_path, title="", history=[], results=results, recipe_toml="")
    texts = Page(path.read_text(encoding="utf-8")).texts
    for name, value in {
        "others.1.split": "patterns",
        "others.1.bleu": "81.5000",
        "seeds": "[1, 2]",
    }.items():
        assert texts[texts.index(name) + 1] == value


def test_sections_without_data_are_omitted(tmp_path: Path) -> None:
    path = write_report(tmp_path, title="빈", history=[], results={}, recipe_toml="seed = 1\n")
    page = Page(path.read_text(encoding="utf-8"))
    assert page.tags.count("section") == 1
    assert "svg" not in page.tags
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_the_most_confident_mistake_comes_first(tmp_path: Path) -> None:
    path = write_report(
        tmp_path,
        title="순서",
        history=[],
        results={},
        recipe_toml="",
        mistakes=[Mistake("덜", "긍정", "부정", 0.6), Mistake("더", "긍정", "부정", 0.99)],
        examples=[Example("스무 살", "20살", "20살"), Example("두 개", "2개", "3개")],
    )
    texts = Page(path.read_text(encoding="utf-8")).texts
    assert texts.index("더") < texts.index("덜")
    assert texts[texts.index("20살") + 1] == "✓ "
    assert texts[texts.index("2개") + 1] == "✗ "


def test_a_confusion_matrix_must_fit_its_labels(tmp_path: Path) -> None:
    for confusion in ([[1, 2]], [[1, 2], [3]]):
        with raises(InputError, "training.confusion_matrix_shape"):
            write_report(
                tmp_path,
                title="",
                history=[],
                results={},
                recipe_toml="",
                confusion=confusion,
                labels=["부정", "긍정"],
            )


def test_control_characters_and_surrogates_are_visible(tmp_path: Path) -> None:
    text, page = report(tmp_path, ["\ud800가", "a\x00\x1b\x7f"])
    assert "\\ud800가" in text
    assert page.texts.count("a␀␛␡") >= 6


def test_the_recipe_is_folded(tmp_path: Path) -> None:
    """Half of the page was the text of the recipe."""
    recipe = "\n".join(f"key_{i} = {i}" for i in range(200))
    path = write_report(tmp_path, title="", history=[], results={}, recipe_toml=recipe)
    page = path.read_text(encoding="utf-8")
    assert re.search(r"<details><summary><h2>[^<]+</h2></summary>\s*<pre>key_0 = 0\n", page)

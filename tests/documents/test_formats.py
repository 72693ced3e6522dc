"""What each format reads as text."""

import time
from pathlib import Path

import pytest

from jumok.documents import Document, format_of
from jumok.errors import InputError
from tests.combinations import singly


def texts(source: str, kind: str) -> list[str]:
    return [block.text for block in Document.read(source, kind).blocks]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b 가", ["a < b 가"]),
        ('<p title="a>b">가</p>', ["가"]),
        ("<a title=don't>가</a>", ["가"]),
        ("<p translate=no>가<p>나</p></p>다", ["다"]),
        ('<div class="x notranslate">가</div>나', ["나"]),
        ('<script>if (a<b) "가"</script>나', ["나"]),
        ("가<b 나", ["가"]),
        ("가<!-- 나", ["가"]),
        ("가 \n 나&nbsp;다", ["가 나 다"]),
        ("<pre>가</pre><br>나<hr translate=no>다", ["나", "다"]),
        ("가 <b>나</b><p>다 <i>라</i></p>", ["가 나", "다 라"]),
        ("<b>가<p>나</b>", ["가", "나"]),
        ("가 <code>x()</code> 나", ["가 x() 나"]),
        ("가 <code>a_very_long_function_name_of_somebody()</code> 나", ["가 나"]),
        ('가 <span translate="no">고유</span> 나', ["가 고유 나"]),
        ("<b>" * 40 + "가" + "</b>" * 40, ["가"]),
    ],
)
def test_html(source: str, expected: list[str]) -> None:
    assert texts(source, "html") == expected
    document = Document.read(source, "html")
    found = document.write([("X", None)] * len(expected))
    assert len(texts(found, "html")) == len(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("---\ntitle: 가\n---\n나", ["나"]),
        ("가\n===\n나\n---", ["가", "나"]),
        ("```\n가\n```\n나", ["나"]),
        ("- 가\n  나\n- [x] 다", ["가 나", "다"]),
        ("> 가\n> 나\n\n다", ["가 나", "다"]),
        (r"| 가 | `a\|b` 나 |" + "\n|--|--|\n| 다 | |", ["가", r"a\|b 나", "다"]),
        ("가 | 나\n---|---\n다 | 라", ["가", "나", "다", "라"]),
        ("    가\n\n나", ["나"]),
        ("- 가\n\n      나", ["가", "나"]),
        ("## 가 ##\n나  \n다", ["가", "나", "다"]),
        ("[가]: http://a\n[가][b] [가] 나", ["가 나"]),  # a label stays
        ("<div>\n**가**\n</div>\n\n나", ["**가**", "나"]),
        ("<pre>\n가\n\n나</pre>\n다", ["다"]),
        ("![가](b) `가` **나**", ['"가" 나']),
        ("가\\*나 &amp; 다", ["가*나 & 다"]),
    ],
)
def test_markdown(source: str, expected: list[str]) -> None:
    assert texts(source, "markdown") == expected


def test_gettext() -> None:
    source = (
        'msgid ""\nmsgstr "Language: ko\\n"\n\nmsgid "가"\nmsgstr "a"\n\n#, fuzzy\nmsgctxt "x"\n'
        'msgid ""\n"나 "\n"다\\n"\n"라"\nmsgstr ""\n\nmsgid "마"\nmsgid_plural "바"\nmsgstr[0] ""\n'
        'msgstr[1] ""\n\n#~ msgid "사"\n#~ msgstr ""\n'
    )
    assert texts(source, "po") == ["나 다", "라", "마", "바"]
    assert texts('msgid "가"\nmsgstr ""\n"a"\n', "po") == []  # it has a translation on more lines


def test_subtitles() -> None:
    source = "WEBVTT\n\nNOTE 가\n\nid\n00:01.000 --> 00:02.000 align:left\n<v 철수>나\n다</v>\n"
    assert texts(source, "vtt") == ["나 다"]
    assert texts("1\n00:00:01,000 --> 00:00:02,000\n- 가\n- 나\n", "srt") == ["가", "나"]


def test_the_format_by_the_name() -> None:
    assert format_of(Path("a/B.HTM")) == "html"
    with pytest.raises(InputError) as caught:
        format_of(Path("a.doc"))
    assert caught.value.code == "documents.unknown_suffix"
    with pytest.raises(InputError) as caught:
        Document.read("", "docx")
    assert caught.value.code == "extension.unknown_name"


UNITS = (
    *('<a "', "<a =", '<a ="x>"', "<a", "<i>", "<!--", "가 ", "<", "`a", "*a ", "[", "[a]("),
    *("{", "%(", "가\n", "| 가 ", "- ", "> ", " ", "&a", "**가 ", "a@", "http://가."),
)


@pytest.mark.parametrize(
    ("kind", "unit"), singly(["html", "markdown", "po", "srt", "text", "wrapped"], UNITS)
)
def test_the_time_is_linear(kind: str, unit: str) -> None:
    started = time.process_time()
    Document.read(unit * 10_000, kind)
    assert (
        time.process_time() - started < 4
    )  # most in 0.1 s; a quadratic reading takes 10 s and more

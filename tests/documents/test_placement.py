"""Where markup goes: by links, by order, and without either."""

import re

import pytest

from jumok.documents import Document
from jumok.documents.glossary import Glossary
from jumok.documents.nodes import Atom
from jumok.documents.placement import Link

Words = list[tuple[str, str]]  # a word of the translation, and the word of the text


def links(text: str, output: str, words: Words) -> list[Link]:
    return [
        (output.index(t), output.index(t) + len(t), text.index(s), text.index(s) + len(s), 1.0)
        for t, s in words
    ]


def written(source: str, kind: str, output: str, words: Words) -> str:
    document = Document.read(source, kind)
    (block,) = document.blocks
    return document.write([(output, links(block.text, output, words))])


WINTER = [("Winter", "겨울은"), ("is", "추워요"), ("very", "매우"), ("cold", "추워요")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>겨울은 <b>매우</b> 추워요.</p>", "<p>Winter is <b>very</b> cold.</p>"),
        ("<b>겨울은</b> 매우 <i>추워요</i>.", "<b>Winter</b> <i>is</i> very cold."),
        ("<b>겨울은 <i>매우</i> 추워요</b>.", "<b>Winter is <i>very</i> cold</b>."),
        ("<b>겨울은 매우 추워요.</b>", "<b>Winter is very cold.</b>"),
        ("겨울은<img src=a> 매우 추워요.", "Winter<img src=a> is very cold."),
        ("겨울은 매우 추워요. <br>", "Winter is very cold. <br>"),
    ],
)
def test_tags_are_around_the_linked_words(source: str, expected: str) -> None:
    assert written(source, "html", "Winter is very cold.", WINTER) == expected


CAPITAL = [("The", "서울"), ("capital", "서울"), ("grows", "커요")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("**서울**은 커요.", "**The capital** grows."),
        ("**서울(수도)**은 커요.", "**The capital** grows."),  # CommonMark sees signs here
        ("나의**(서울)**은 커요.", "**The capital** grows."),
        ("_서울_은 커요.", "_The capital_ grows."),
        ("<b>서울</b>은 커요.", "<b>The capital</b> grows."),
    ],
)
def test_emphasis_within_a_word(source: str, expected: str) -> None:
    assert written(source, "markdown", "The capital grows.", CAPITAL) == expected


@pytest.mark.parametrize(
    "source", ["가_나_다", "값*(할인)*수량", "2 * 3 * 4는", "snake_case_name은"]
)
def test_signs_within_a_word_are_no_emphasis(source: str) -> None:
    (block,) = Document.read(source, "markdown").blocks
    assert block.text == source


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("겨울은&nbsp;추워요.", "html", "Winter&nbsp;is very cold."),
        ("겨울은 \u00a0 추워요.", "text", "Winter\u00a0is very cold."),
        ("&nbsp; 겨울은 추워요.&nbsp;", "html", "&nbsp; Winter is very cold.&nbsp;"),
        ("♪ 겨울은 추워요 ♪", "text", "♪ Winter is very cold. ♪"),
        ("겨울은 &rarr; 추워요.", "markdown", "Winter &rarr; is very cold."),
        ("겨울은 추워요. ※", "text", "Winter is very cold. ※"),
        ("`겨울`은 추워요.", "markdown", "`겨울` is very cold."),
        ("👍🏻👨‍👩‍👧 겨울은 추워요.", "srt", "👍🏻👨‍👩‍👧 Winter is very cold."),
    ],
)
def test_signs_are_kept(source: str, kind: str, expected: str) -> None:
    cue = "00:00:01,000 --> 00:00:02,000\n" if kind == "srt" else ""
    words = [("Winter", "겨울"), *WINTER[1:2], *WINTER[3:]]
    assert written(cue + source, kind, "Winter is very cold.", words) == cue + expected


def test_a_sign_between_sentences_stays_between_them() -> None:
    words = [("Be", "조심"), ("careful.", "조심"), ("Winter", "겨울은"), ("cold.", "추워요.")]
    assert written("조심해요. ※ 겨울은 추워요.", "text", "Be careful. Winter is cold.", words) == (
        "Be careful. ※ Winter is cold."
    )


def test_a_sign_of_the_model_joins_no_placeholder() -> None:
    assert written("%s 50% 할인", "text", "50% sale %s %", []) == "50% sale %s"
    assert written("%1$s 할인", "text", "%1 $s sale", [("sale", "할인")]).count("%1$s") == 1


@pytest.mark.parametrize(
    ("message", "output", "expected"),
    [
        ("저장(_S)", "Save", "_Save"),
        ("<이름> 저장(&S)...", "Save <as>...", "&Save <as>..."),
        ("닫기(_X)", "Exit", "E_xit"),
        ("_Save", "저장", "저장(_S)"),
        ("E_xit...", "종료_...", "종료(_X)..."),
        ("Find &Next:", "다음 찾기:", "다음 찾기(&N):"),
        ("Cu_t", "", "Cu_t"),
        ("a file_name", "file_name", "file_name"),
        ("R&D", "R&D", "R&D"),
    ],
)
def test_an_accelerator_is_written_once(message: str, output: str, expected: str) -> None:
    source = f'msgid "{message}"\nmsgstr ""\n'
    assert written(source, "po", output, []) == source.replace('""', f'"{expected}"')


def test_neighbours_change_their_order() -> None:
    source = "<a href=1>나는</a> <b>집으로</b> <i>간다</i>."
    found = written(
        source, "html", "I go home.", [("I", "나는"), ("go", "간다"), ("home", "집으로")]
    )
    assert found == "<a href=1>I</a> <i>go</i> <b>home</b>."


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Open the file {name}.", "Open the file {name}."),
        ("Open {x} the file {name}.", "Open the file {name}."),  # {x} is not of the text
        ("{name} {name} Open it.", "{name} Open it."),
        ("Open the file.", "{name} Open the file."),  # it is the first word of the text
    ],
)
def test_a_placeholder_occurs_as_often_as_in_the_text(output: str, expected: str) -> None:
    assert written("{name} 파일을 여세요.", "text", output, [("Open", "여세요")]) == expected


def test_placeholders_without_a_number_stay_in_order() -> None:
    source = 'msgid "%s 파일 %d개"\nmsgstr ""\n'
    found = written(source, "po", "%d files in %s", [("files", "파일")])
    assert found.endswith('msgstr "%s files in %d"\n')
    source = 'msgid "%(a)s 파일 %(b)d개"\nmsgstr ""\n'
    found = written(source, "po", "%(b)d files in %(a)s", [("files", "파일")])
    assert found.endswith('msgstr "%(b)d files in %(a)s"\n')


TEMPLATES = [
    "{{ x }}",
    "{{x}}",
    "{{{x}}}",
    "<%= x %>",
    "{0}",
    "[[x]]",
    "{% x %}",
    "{#x}",
    "{{ 가 }}",
]


@pytest.mark.parametrize("kind", ["text", "html", "markdown"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_one_placeholder(template: str, kind: str) -> None:
    """With its blanks, whatever a translation makes of its brackets."""
    document = Document.read(f"나는 {template} 가요", kind)
    (placed,) = document.blocks[0].placed
    assert isinstance(placed.node, Atom)
    assert placed.node.markup == template
    for output in ("I go {{{{ }} }.", "I {x} {0} go", "I go <", "%> I go {{ x"):
        found = document.write([(output, None)])
        assert found.count(template) == 1
        assert not re.search("[{}<>]", found.replace(template, ""))


def test_an_escaped_bar_and_spaces_after_tags_are_kept() -> None:
    assert written(r"값 \| 기본", "markdown", "Value – default", []).count(r"\|") == 1
    cue = "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}♪ 사랑해요 ♪\n"
    assert written(cue, "srt", "I love you", []) == cue.replace("사랑해요", "I love you")
    for text in ("<i>♪</i> 가요", "♪ <i>가요</i>", "♪<i> 가요</i>", "<i>♪ </i>가요"):
        found = written(f"<p>{text}</p>", "html", "going", [])
        assert found.replace("</i>", "").replace("<i>", "") == "<p>♪ going</p>"


def test_signs_that_the_text_lacks() -> None:
    """Bytes that are no character and symbols are left out, without the space before them."""
    assert written("가나", "text", "\U0001f914the {a b\ufffd\ufffd .", []) == "the a b."
    assert written("가나", "text", "from \ufffd\ufffd.", []) == "from."
    assert written("25도 > 24도", "text", "25°C > 24°C >", []) == "25°C > 24°C"


def test_what_a_translation_may_not_write() -> None:
    """Signs that have a meaning in the format are escaped."""
    assert written("&lt;가&gt;", "html", "a <b> & c", []) == "a &lt;b&gt; &amp; c"
    assert written("가나", "markdown", "1. *a* [b](c)", []) == r"1\. \*a\* \[b\](c)"
    assert written('msgid "가"\nmsgstr ""\n', "po", 'a "b" \\', []).endswith('"a \\"b\\" \\\\"\n')


@pytest.mark.parametrize(
    ("output", "expected"),
    [("The attention is large.", "attention"), ("The interest is large.", "attention")],
)
def test_a_glossary(output: str, expected: str) -> None:
    document = Document.read("어텐션이 크다.").with_terms(Glossary({"어텐션": "attention"}).find)
    (block,) = document.blocks
    words = [(output.split()[1], "어텐션"), ("large", "크다")]
    assert (
        document.write([(output, links(block.text, output, words))]) == f"The {expected} is large."
    )


def test_lines_of_a_paragraph() -> None:
    source = "> 겨울은 매우\r\n> 추워요.\r\n"
    assert written(source, "markdown", "Winter is very cold.", WINTER) == (
        "> Winter is very\r\n> cold.\r\n"
    )
    assert written(source, "markdown", "Cold.", []) == "> Co\r\n> ld.\r\n"
    assert written("가\n나", "wrapped", "a", []) == "가\n나"  # fewer characters than lines

"""LibreTranslate's routes with models whose languages are in their names."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.tasks.runs.load import load
from tests.serving.server_process import Reply, Server, serving

TEXT = "겨울 + 여름 & 가을"
FORM = "application/x-www-form-urlencoded"
UNKNOWN = ["unknown_characters"]  # "+" and "&" are not in the vocabulary


LENGTHS = {"koen": 8, "multi30k-de-en": 1, "enko": 2}  # tokens: the answers differ


@pytest.fixture(scope="module")
def translator(reading_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same model as three: from Korean, from German and to Korean."""
    folder = tmp_path_factory.mktemp("translator")
    for name in LENGTHS:
        (folder / name).symlink_to(reading_run)
    decoding = [f"{name}:max_length={n}" for name, n in LENGTHS.items()]
    paths = [folder / name for name in LENGTHS]
    with serving(folder / "server", paths, decoding=decoding) as server:
        yield server


@pytest.fixture(scope="module")
def expected(reading_run: Path) -> dict[str, str]:
    found = {
        name: load(reading_run).with_decoding([f"max_length={n}"])(TEXT).output  # type: ignore[union-attr]
        for name, n in LENGTHS.items()
    }
    assert len(set(found.values())) == len(found)
    return found


def test_languages(translator: Server) -> None:
    assert translator.request("/languages").json == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["ko"]},
        {"code": "ko", "name": "Korean", "targets": ["en"]},
    ]


@pytest.mark.parametrize(
    ("source", "target", "model"),
    [("ko", "en", "koen"), ("de", "en", "multi30k-de-en"), ("en", "ko", "enko")],
)
def test_the_pair_selects_the_model(
    translator: Server, expected: dict[str, str], source: str, target: str, model: str
) -> None:
    reply = translator.request("/translate", {"q": TEXT, "source": source, "target": target})
    assert reply.json["translatedText"] == expected[model]
    assert [each["code"] for each in reply.json["warnings"]] == UNKNOWN


def test_auto_is_the_source_of_the_only_model(translator: Server, expected: dict[str, str]) -> None:
    request = {"q": TEXT, "source": "auto", "target": "ko"}
    detected = {"confidence": 0.0, "language": "en"}
    reply = translator.request("/translate", request)
    assert reply.json["translatedText"] == expected["enko"]
    assert reply.json["detectedLanguage"] == detected
    reply = translator.request("/translate", {**request, "q": [TEXT, TEXT]})
    assert reply.json["detectedLanguage"] == [detected, detected]


def test_auto_detects_the_source(translator: Server, expected: dict[str, str]) -> None:
    """Two models translate to English: from Korean and from German."""

    def ask(*texts: str) -> Reply:
        return translator.request("/translate", {"q": texts, "source": "auto", "target": "en"})

    reply = ask(TEXT).json
    assert reply["translatedText"] == [expected["koen"]]
    assert reply["detectedLanguage"] == [{"confidence": 100.0, "language": "ko"}]
    assert ask("Das ist der Winter").json["detectedLanguage"][0]["language"] == "de"
    for texts in (("123",), (TEXT, "Das ist der Winter")):
        assert ask(*texts).error["code"] == "request.source_not_detected"


def test_detect(translator: Server, server: Server) -> None:
    def ask(text: str) -> list[tuple[str, float]]:
        found = translator.request("/detect", {"q": text, "api_key": "none"}).json
        return [(each["language"], each["confidence"]) for each in found]

    assert ask(TEXT) == [("ko", 100.0)]
    assert ask("Der Winter ist nicht kalt")[0][0] == "de"
    assert ask("Winter is not that cold, and it is dark")[0][0] == "en"
    assert ask("가 abc") == [("de", 37.5), ("en", 37.5), ("ko", 25.0)]
    assert ask("1") == [("de", 0.0)]
    body = urllib.parse.urlencode({"q": TEXT}).encode()
    assert translator.request("/detect", body, Content_Type=FORM).json[0]["language"] == "ko"
    assert server.request("/detect", {"q": TEXT}).error["code"] == "request.needs_translator"


def test_html_keeps_its_markup(translator: Server, expected: dict[str, str]) -> None:
    answer = expected["koen"]
    text = TEXT.replace("&", "&amp;")
    before = '<p class="a">\n <a href="가?b&amp;c">'
    after = '</a><br/>12 <span translate="no">:가:</span><!-- 나 --><code>다</code></p>'
    request = {"source": "ko", "target": "en", "format": "html"}
    reply = translator.request("/translate", {**request, "q": f"{before}{text}{after}"}).json
    assert reply["translatedText"] == f"{before}{answer}{after}"
    assert [each["code"] for each in reply["warnings"]] == UNKNOWN
    several = [f"<p>{text}</p><div>{text}</div>", "<hr>", text]
    reply = translator.request("/translate", {**request, "q": several, "alternatives": 1}).json
    beam = reply["translatedText"][2]
    assert reply["translatedText"] == [f"<p>{beam}</p><div>{beam}</div>", "<hr>", beam]
    first, second, third = (each[0] for each in reply["alternatives"])
    assert (first, second) == (f"<p>{third}</p><div>{third}</div>", "<hr>")
    reply = translator.request("/translate", {**request, "q": "<hr>"}).json
    assert reply == {"translatedText": "<hr>"}


@pytest.mark.parametrize("q", [["<p>겨울은 <b>하나</b> 둘</p>"], "<p>겨울은 <b>하나</b> 둘</p>"])
def test_requests_of_mastodon_and_wagtail_localize(translator: Server, q: object) -> None:
    """Mastodon sends one text, or several since it translates polls, and the key null without one.

    Mastodon: app/lib/translation_service/libre_translate.rb; wagtail-localize:
    wagtail_localize/machine_translators/libretranslate.py, always several. Both read
    `translatedText`, whose tags they need.
    """
    request = {"q": q, "source": "ko", "target": "en", "format": "html", "api_key": None}
    reply = translator.request("/translate", request)
    assert reply.status == 200
    found = reply.json["translatedText"]
    assert isinstance(found, type(q))
    (text,) = found if isinstance(found, list) else [found]
    assert re.findall("<.*?>", text) == ["<p>", "<b>", "</b>", "</p>"]
    reply = translator.request("/translate", {**request, "source": "auto", "target": "ko"})
    assert "detectedLanguage" in reply.json


def test_many_elements(translator: Server) -> None:
    """More of them than a request may have texts."""
    request = {"q": "<i>가</i>" * 2049, "source": "ko", "target": "en", "format": "html"}
    found = translator.request("/translate", request).json["translatedText"]
    assert (found.count("<i>"), found.count("</i>")) == (2049, 2049)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"target": "en"}, "source must be one of /languages, or 'auto'"),
        ({"source": "ko", "target": "de"}, "source and target must be a pair of /languages"),
        ({"source": "en"}, "source and target must be a pair of /languages"),
    ],
)
def test_other_pairs_are_refused(
    translator: Server, request_: dict[str, str], message: str
) -> None:
    reply = translator.request("/translate", {"q": TEXT, **request_})
    assert reply.status == 400
    assert message in reply.error["message"]


def test_languages_that_are_not_known_are_refused(server: Server) -> None:
    """Those of the model `reading`, which translates where no languages are requested."""
    assert server.request("/languages").json == []
    for source in ("auto", "ko"):
        reply = server.request("/translate", {"q": TEXT, "source": source, "target": "en"})
        assert reply.status == 400
        assert reply.json["error"]["code"] == "request.languages_unknown"
    assert server.request("/translate", {"q": TEXT}).status == 200


def test_lines_and_sentences_are_translated_one_by_one(
    translator: Server, expected: dict[str, str]
) -> None:
    request = {"q": f"{TEXT}\n\n{TEXT}", "source": "ko", "target": "en"}
    answer = expected["koen"]
    reply = translator.request("/translate", request).json
    assert reply["translatedText"] == f"{answer}\n\n{answer}"
    reply = translator.request("/translate", {**request, "q": ["  ", TEXT]}).json
    assert reply["translatedText"] == ["  ", answer]
    assert [[each["code"] for each in row] for row in reply["warnings"]] == [
        ["empty_text"],
        UNKNOWN,
    ]
    assert {*reply["warnings"][0][0]} == {"code", "message"}


def test_the_client_of_libretranslate(translator: Server, expected: dict[str, str]) -> None:
    client = pytest.importorskip("libretranslatepy")
    api = client.LibreTranslateAPI(f"http://127.0.0.1:{translator.port}", api_key="none")
    assert api.translate(TEXT, "ko", "en") == expected["koen"]
    assert api.detect(TEXT) == [{"confidence": 100.0, "language": "ko"}]
    assert [each["code"] for each in api.languages()] == ["de", "en", "ko"]


def test_a_form_is_translated(translator: Server, expected: dict[str, str]) -> None:
    """As libretranslatepy sends it."""
    fields = {"q": TEXT, "source": "ko", "target": "en", "api_key": "none"}
    address = f"http://127.0.0.1:{translator.port}/translate"
    sent = urllib.request.Request(address, data=urllib.parse.urlencode(fields).encode())
    with urllib.request.urlopen(sent, timeout=60) as came:
        assert json.loads(came.read())["translatedText"] == expected["koen"]
    body = urllib.parse.urlencode({**fields, "alternatives": 2}).encode()
    reply = translator.request("/translate", body, Content_Type=f"{FORM}; charset=utf-8")
    assert len(reply.json["alternatives"]) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the form must have 1 to 16 fields"),
        (b"q", "the form must have 1 to 16 fields"),
        (b"q=a&q=b", "with different names"),
        (b"q=%ff", "in UTF-8"),
        (b"q=\xea\xb0\x80", "percent-encoded"),
        (b"&".join(b"k%d=1" % n for n in range(17)), "the form must have 1 to 16 fields"),
        (b"q=a&other=1", "the keys must be among"),
        (b"q=a&alternatives=-1", "alternatives must be an integer"),
        (b"q=a&alternatives=1e3", "alternatives must be an integer"),
        (b"q=a&format=xml", "format must be one of text, html"),
        (b"q=" + b"a" * 300_000, "q must have at most 262144 bytes"),
    ],
)
def test_wrong_forms_are_refused(translator: Server, body: bytes, message: str) -> None:
    reply = translator.request("/translate", body, Content_Type=FORM)
    assert reply.status == 400
    assert message in reply.error["message"]


def test_forms_have_the_limits_of_other_bodies(translator: Server) -> None:
    assert translator.request("/translate", b"q=" + b"a" * 2**22, Content_Type=FORM).status == 413
    reply = translator.request("/translate", b"q=a", Content_Type="multipart/form-data")
    assert reply.status == 415
    assert translator.request("/v1/predict", b"texts=a", Content_Type=FORM).status == 415
    reply = translator.request("/translate", b"q=a", Content_Type=FORM, Origin="http://other")
    assert reply.status == 403

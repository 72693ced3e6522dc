"""LibreTranslate's routes with models whose languages are in their names."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.tasks.runs.load import load
from tests.serving.server_process import Server, serving

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


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"source": "auto", "target": "en"}, "source must be one of /languages; none is detected"),
        ({"target": "en"}, "source must be one of /languages"),
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
    assert reply["translatedText"] == ["", answer]
    assert [[each["code"] for each in row] for row in reply["warnings"]] == [
        ["empty_text"],
        UNKNOWN,
    ]


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
        (b"q=a&format=html", "format must be text"),
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

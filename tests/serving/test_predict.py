"""POST /v1/predict: the bytes of `jumok predict --json`, alone and in company."""

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from jumok.serving.pipeline_engine import with_precision
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.runs.load import load
from tests.serving.server_process import Reply, Server, served
from tests.tiny_runs import readings, reviews

pytestmark = pytest.mark.usefixtures("threads_of_the_server")


TEXTS = [text for text, _ in reviews(40, 7)]


def answers(reply: Reply) -> bytes:
    """The list of answers as it was sent."""
    assert reply.status == 200, reply.body
    return reply.body.partition(b'"answers": ')[2].removesuffix(b"}")


def test_answers_are_the_bytes_of_the_command(server: Server, review_run: Path) -> None:
    text = "이 영화 정말 재미있어요 ㅋㅋ"
    command = [sys.executable, "-m", "jumok", "predict", str(review_run), text, "--json"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert answers(server.predict(text)) == b"[" + printed.rstrip(b"\n") + b"]"


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
        min_size=1,
        max_size=4,
    )
)
@example([""])
@example(["", " ", "이 영화 정말 재미있어요 ㅋㅋ"])
def test_any_text_has_the_answer_of_the_pipeline(
    server: Server, review_run: Path, texts: list[str]
) -> None:
    pipeline = served(review_run)
    expected = ", ".join(to_json(pipeline(text)) for text in texts)
    assert answers(server.predict(*texts)) == f"[{expected}]".encode()


def test_the_second_model_and_its_decoding(server: Server, reading_run: Path) -> None:
    pipeline = load(reading_run).with_decoding(["beam=3", "n_best=2"])
    texts = [text for text, _ in readings(5, 3)]
    reply = server.predict(*texts, model="reading", decoding={"beam": 3, "n_best": 2})
    expected = ", ".join(to_json(pipeline(text)) for text in texts)
    assert answers(reply) == f"[{expected}]".encode()
    assert reply.json["model"] == "reading"
    assert reply.headers["x-jumok-model"] == reply.json["hash"]


def test_merged_texts_have_the_bytes_of_texts_alone(
    merging_server: Server, review_run: Path
) -> None:
    pipeline = with_precision(load(review_run), "int8")
    expected = {text: to_json(pipeline(text)) for text in TEXTS}

    def ask(number: int) -> None:
        batch = TEXTS[number % 7 :: 1 + number % 5]
        found = answers(merging_server.predict(*batch))
        assert found == f"[{', '.join(expected[text] for text in batch)}]".encode()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(60)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "texts must be a list of 1 to 2048 strings"),
        ({"texts": []}, "texts must be a list of 1 to 2048 strings"),
        ({"texts": ["a"] * 2049}, "texts must be a list of 1 to 2048 strings"),
        ({"texts": [3]}, "texts[0] must be a string"),
        ({"texts": ["가" * 100_000]}, "texts[0] must have at most 262144 bytes"),
        ({"texts": ["a"], "top": 1}, "the keys must be among decoding, model, texts, got 'top'"),
        ({"texts": ["a"], "decoding": []}, "decoding must be an object"),
        ({"texts": ["a"], "decoding": {"beam": 2}}, "decoding needs a model that generates"),
        ({"texts": ["a"], "model": "reading", "decoding": {"beam": 17}}, "decoding.beam must be"),
        ({"texts": ["a"], "model": "reading", "decoding": {"beam": True}}, "decoding.beam must"),
        ({"texts": ["a"], "model": "reading", "decoding": {"top_p": 2}}, "decoding.top_p must be"),
        ({"texts": ["a"], "model": "reading", "decoding": {"sample": 1}}, "decoding.sample must"),
        ({"texts": ["a"], "model": "reading", "decoding": {"stop": [""]}}, "decoding.stop must"),
        ({"texts": ["a"], "model": "reading", "decoding": {"stop": ["a"] * 17}}, "at most 16"),
        ({"texts": ["a"], "model": "reading", "decoding": {"prefix": "a" * 2000}}, "at most 1000"),
        ({"texts": ["a"], "model": "reading", "decoding": {"temperature": -1}}, "temperature must"),
        ({"texts": ["a"], "model": "reading", "decoding": {"kernel": "native"}}, "the keys must"),
    ],
)
def test_invalid_values_are_refused(
    server: Server, content: dict[str, object], message: str
) -> None:
    reply = server.request("/v1/predict", content)
    assert reply.status == 400
    assert message in reply.error["message"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "<b>", "a\nb", "", 3, ["run"]])
def test_unknown_models_are_404_and_never_echoed(server: Server, name: object) -> None:
    reply = server.predict("a", model=name)
    assert reply.status == 404
    assert reply.error["message"] == "model must be one of reviews, reading"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"texts": ["a"], "texts": ["b"]}',
        b'{"texts": [NaN]}',
        b'{"texts": ["\\ud800"]}',
        b'{"texts": ["\xff"]}',
        b'{"texts": ' + b"[" * 100_000,
        b'{"texts": ' + b"1" * 5_000 + b"}",
    ],
)
def test_malformed_json_is_refused(server: Server, body: bytes) -> None:
    reply = server.request("/v1/predict", body)
    assert reply.status == 400
    assert "must be a JSON object" in reply.error["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Encoding": "gzip"}, 415),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil"}, 421),
        ({"Host": "localhost"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"X_Jumok_Deadline_Ms": "soon"}, 400),
        ({"X_Jumok_Deadline_Ms": "0"}, 400),
        ({"X_Jumok_Deadline_Ms": "600001"}, 400),
    ],
)
def test_headers_are_checked(server: Server, headers: dict[str, str], status: int) -> None:
    reply = server.request("/v1/predict", {"texts": ["a"]}, **headers)
    assert (reply.status, reply.error["type"]) == (status, "invalid_request_error")
    assert "access-control-allow-origin" not in reply.headers


def test_other_addresses_and_methods(server: Server) -> None:
    assert server.request("/v1/nothing").error["message"].startswith("there is no such address")
    reply = server.request("/v1/predict")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert server.request("/health", method="HEAD").body == b""


def test_state_of_the_server(server: Server) -> None:
    assert server.request("/health").json == {"status": "ok", "not_ready": {}}
    assert server.request("/ready").status == 200
    names = [model["id"] for model in server.request("/v1/models").json["data"]]
    assert names == ["reviews", "reading"]
    assert server.request("/v1/limits").json["body_bytes"] == 2**22
    assert server.request("/ready/reading").status == 200
    assert server.request("/ready/nothing").status == 404


@pytest.mark.skipif(sys.platform != "linux", reason="reads the libraries of a process on Linux")
def test_models_are_served_by_one_process_without_pytorch(server: Server, compiled: Path) -> None:
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert "kernel-" in maps


def samples(server: Server) -> dict[tuple[str, str], float]:
    """The value of each metric of a model, by its name and the model."""
    text = server.request("/metrics").body.decode()
    assert "evil" not in text
    return {
        (sample.name, sample.labels.get("model", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("route", "/v1/predict") == "/v1/predict"
        and sample.labels.get("status", "200") == "200"
    }


def test_metrics_of_each_model(server: Server, review_run: Path, reading_run: Path) -> None:
    server.predict("a")
    before = samples(server)
    assert server.predict("좋다", "별로예요").status == 200
    reading = server.predict("일곱 시", model="reading")
    after = samples(server)
    change = {key: value - before.get(key, 0.0) for key, value in after.items()}
    vocabularies = [load(run).vocabulary for run in (review_run, reading_run)]
    tokens = [vocabularies[0].encode("좋다"), vocabularies[0].encode("별로예요")]
    assert change["jumok_requests_total", "reviews"] == 1
    assert change["jumok_request_seconds_count", "reviews"] == 1
    assert change["jumok_texts_total", "reviews"] == 2
    assert change["jumok_input_tokens_total", "reviews"] == sum(map(len, tokens))
    assert 1 <= change["jumok_batches_total", "reviews"] <= 4
    assert change["jumok_compute_seconds_total", "reviews"] > 0
    assert change["jumok_generated_tokens_total", "reviews"] == 0
    assert change["jumok_texts_total", "reading"] == 1
    written = vocabularies[1].encode(reading.json["answers"][0]["output"])
    assert change["jumok_generated_tokens_total", "reading"] >= len(written)
    assert after["jumok_ready", "reading"] == 1
    assert after["jumok_waiting_texts", "reviews"] == 0
    assert {"jumok_build_info", "process_resident_memory_bytes"} <= {name for name, _ in after}
    assert ("jumok_model_info", "reviews") in after


def test_a_request_has_an_id_in_the_log(server: Server) -> None:
    own = server.request("/v1/predict", {"texts": ["a", "b"]}, X_Request_Id="trace-7/a=b")
    assert own.headers["x-request-id"] == "trace-7/a=b"
    made = server.request("/v1/predict", {"texts": ["a"]}, X_Request_Id='evil" id')
    assert re.fullmatch("[0-9a-f]{16}", made.headers["x-request-id"])
    server.request("/ready")
    end = time.monotonic() + 60
    while made.headers["x-request-id"] not in (log := server.log.read_text(encoding="utf-8")):
        assert time.monotonic() < end
    (line,) = [line for line in log.splitlines() if 'id="trace-7/a=b"' in line]
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z reply ", line)
    assert 'model="reviews" texts=2' in line
    assert "evil" not in log
    assert 'route="/ready"' not in log  # a probe


def test_log_lines_do_not_contain_input(server: Server) -> None:
    server.request("/v1/evil%0Aline", {"texts": ["비밀"]}, method="POST")
    lines = server.log.read_text(encoding="utf-8").splitlines()
    assert not any("evil" in line or "비밀" in line for line in lines)
    assert json.loads(lines[-1].partition("route=")[2].partition(" ")[0])


def test_an_error_does_not_repeat_the_settings(server: Server) -> None:
    """A prefix that the vocabulary cannot spell; its letters come back in no message."""
    for prefix in ("漢字" * 200, "漢"):
        reply = server.request(
            "/v1/predict",
            {"texts": ["일 이 삼"], "model": "reading", "decoding": {"prefix": prefix}},
        )
        assert reply.status == 400
        assert "漢" not in reply.body.decode()
        assert "\\u6f22" not in reply.body.decode()

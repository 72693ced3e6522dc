"""Models of pairs and of prompts on the server: /predict, /rerank and /embed of TEI's clients."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from tests import hf_folders
from tests.pretrained.test_sentence_encoding import write_modules
from tests.serving.server_process import Server, serving

pytestmark = pytest.mark.slow  # four processes load a model

QUERY = "이 영화 정말 재미있어요"
TEXTS = ["별로예요", "음악이 좋았어요", "결말이 지루해요"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, pair_run: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    hf_folders.klue_roberta(folder / "nli", "ForSequenceClassification", ["same", "different"])
    hf_folders.klue_roberta(folder / "reranker", "ForSequenceClassification", ["score"])
    hf_folders.bert(folder / "vectors", head="Model")
    write_modules(folder / "vectors", {"pooling_mode": "mean"}, prompts={"query": "질문: "})
    (folder / "own").symlink_to(pair_run)
    return {name: folder / name for name in ("nli", "vectors", "reranker", "own")}


@pytest.fixture(scope="module")
def server(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), list(folders.values())) as started:
        yield started


def test_inputs_of_an_imported_model_are_texts_or_pairs(
    server: Server, folders: dict[str, Path]
) -> None:
    model = jumok.load(folders["nli"], device="cpu")
    one, pair = model([QUERY, (QUERY, TEXTS[0])])

    def scores(inputs: object) -> list[dict[str, float]]:
        reply = server.request("/predict", {"inputs": inputs}).json
        rows = reply if isinstance(reply[0], list) else [reply]
        return [{each["label"]: each["score"] for each in row} for row in rows]

    for inputs, expected in (
        (QUERY, [one]),
        ([QUERY, TEXTS[0]], [pair]),
        ([[QUERY, TEXTS[0]]], [pair]),
        ([[QUERY], [QUERY, TEXTS[0]], QUERY], [one, pair, one]),
    ):
        found = scores(inputs)
        assert found == [pytest.approx(each.probabilities, abs=1e-5) for each in expected]
    for inputs in ([["a\tb", "c"]], [["a", "b", "c"]], ["a\tb", "c"]):
        reply = server.request("/predict", {"inputs": inputs})
        assert reply.status == 400
        assert reply.error["param"].startswith("inputs")


@torch.no_grad()
def test_texts_are_ranked_by_the_sigmoid_of_the_output(
    server: Server, folders: dict[str, Path]
) -> None:
    transformers = pytest.importorskip("transformers")
    folder = folders["reranker"]
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    logits = []
    for text in TEXTS:
        inputs = tokenizer([QUERY], [text], return_tensors="pt", return_token_type_ids=False)
        logits.append(theirs(**inputs).logits.item())
    order = sorted(range(len(TEXTS)), key=lambda n: -logits[n])
    request = {"query": QUERY, "texts": TEXTS}
    found = server.request("/rerank", {**request, "return_text": True}).json
    assert [(each["index"], each["text"]) for each in found] == [(n, TEXTS[n]) for n in order]
    expected = torch.sigmoid(torch.tensor(logits))[order]
    scores = torch.tensor([each["score"] for each in found])
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=0)
    raw = server.request("/rerank", {**request, "raw_scores": True}).json
    assert [each["score"] for each in raw] == pytest.approx([logits[n] for n in order], abs=1e-5)
    same = server.request("/rerank", {**request, "truncate": False}).json  # of TEI's own example
    assert [each["score"] for each in same] == [each["score"] for each in found]
    tabs, spaces = (
        server.request("/rerank", {"query": f"a{c}b", "texts": [f"c{c}d"]}).json for c in "\t "
    )
    assert tabs == spaces
    long = {"query": QUERY, "texts": ["a", "길고 " * 60]}
    assert len(server.request("/rerank", long).json) == 2
    error = server.request("/rerank", {**long, "truncate": False}).error
    assert (error["code"], error["param"]) == ("request.pair_too_long", "texts[1]")


def test_the_text_of_an_error_is_named(server: Server) -> None:
    for texts, param in ((["a\tb", "c"], "texts[1]"), (["c"], "texts")):
        error = server.request("/v1/predict", {"texts": texts, "model": "own"}).error
        assert (error["code"], error["param"]) == ("input.not_a_pair", param)


def test_an_encoder_without_a_head_has_vectors_only(server: Server) -> None:
    error = server.request("/v1/predict", {"texts": TEXTS, "model": "vectors"}).error
    assert error["code"] == "pipeline.no_text_head"
    info = server.request("/v1/models/vectors").json
    assert (info["embeds"], info["generates"]) == (True, False)


def test_a_model_of_vectors_precedes_other_encoders(
    server: Server, folders: dict[str, Path]
) -> None:
    """Although a classifier, which has an encoder too, was named first."""
    for name, model in (("vectors", None), ("nli", "nli")):
        rows = jumok.load(folders[name], device="cpu").encode([QUERY, *TEXTS], normalize=True)
        given = {} if model is None else {"model": model}
        found = server.request("/embed", {"inputs": [QUERY, *TEXTS], **given}).json
        np.testing.assert_allclose(found, rows, atol=1e-5)
        inputs = {"source_sentence": QUERY, "sentences": TEXTS}
        scores = server.request("/similarity", {"inputs": inputs, **given}).json
        np.testing.assert_allclose(scores, rows[1:] @ rows[0], atol=1e-5)
    for path, content in (("/predict", {"inputs": QUERY}), ("/", {"inputs": QUERY})):
        reply = server.request(path, {**content, "model": "noname"})
        assert (reply.status, reply.error["code"]) == (404, "request.unknown_model")
    reply = server.request("/rerank", {"query": QUERY, "texts": TEXTS, "model": "vectors"})
    assert reply.error["code"] == "request.needs_reranker"


def test_the_prompt_of_a_name(server: Server, folders: dict[str, Path]) -> None:
    model = jumok.load(folders["vectors"], device="cpu")
    expected = model.encode(TEXTS, prompt_name="query", normalize=True)
    for given in ({"prompt_name": "query"}, {"parameters": {"prompt_name": "query"}}):
        found = server.request("/embed", {"inputs": TEXTS, **given}).json
        np.testing.assert_allclose(found, expected, atol=1e-5)
    plain = server.request("/embed", {"inputs": TEXTS}).json
    assert np.abs(np.array(plain) - expected).max() > 0.01
    error = server.request("/embed", {"inputs": "a", "prompt_name": "my secret"}).error
    assert error["code"] == "pretrained.unknown_prompt"
    assert "secret" not in error["message"]

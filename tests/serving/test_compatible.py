"""Clients of other servers: `openai` and `huggingface_hub`, unchanged."""

import base64
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jumok.tasks.runs.load import load
from tests.serving.server_process import Server, serving
from tests.serving.test_options import described

TEXTS = ["겨울은 추워요", "이 영화 정말 재미있어요"]


def test_embeddings_of_the_openai_client(server: Server, review_run: Path) -> None:
    openai = pytest.importorskip("openai")
    expected = load(review_run).encode(TEXTS)
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none") as client:
        assert [model.id for model in client.models.list()] == ["reviews", "reading"]
        assert client.models.retrieve("reading").id == "reading"
        with pytest.raises(openai.NotFoundError, match="model must be one of"):
            client.models.retrieve("other")
        for form in ("float", "base64"):
            found = client.embeddings.create(model="reviews", input=TEXTS, encoding_format=form)
            assert found.usage.prompt_tokens > 0
            vectors = [
                np.frombuffer(base64.b64decode(each.embedding), "<f4")
                if isinstance(each.embedding, str)
                else each.embedding
                for each in found.data
            ]
            np.testing.assert_allclose(vectors, expected, atol=1e-5)  # other batches
        default = client.embeddings.create(model="reviews", input=TEXTS[0])
        np.testing.assert_allclose(default.data[0].embedding, expected[0], atol=1e-5)


def test_token_ids_are_those_of_the_texts(server: Server, review_run: Path) -> None:
    """With or without the special tokens that the model reads around them."""
    pipeline = load(review_run)
    ids = pipeline.vocabulary.encode_batch(TEXTS)
    special = pipeline.vocabulary.input_template.apply_one(ids[0], None, None).ids
    assert len(special) > len(ids[0])

    def vectors(given: object) -> list[list[float]]:
        reply = server.request("/v1/embeddings", {"input": given}).json
        assert reply["usage"]["prompt_tokens"] > 0
        return [each["embedding"] for each in reply["data"]]

    np.testing.assert_allclose(vectors(ids), vectors(TEXTS), atol=1e-5)
    np.testing.assert_allclose(vectors(ids[0]), vectors(TEXTS[0]), atol=1e-6)
    assert vectors([list(special)]) == vectors(ids[0])
    n = len(pipeline.vocabulary)
    error = server.request("/v1/embeddings", {"input": [ids[0], [n]]}).error
    assert error["code"] == "pipeline.unknown_token_ids"
    assert f"below {n:,}" in error["message"]


def test_dimensions_are_the_first_ones_normalized(server: Server) -> None:
    whole = server.request("/v1/embeddings", {"input": TEXTS, "encoding_format": None}).json
    for n in (1, 4, len(whole["data"][0]["embedding"]), None):
        reply = server.request("/v1/embeddings", {"input": TEXTS, "dimensions": n}).json
        for one, other in zip(whole["data"], reply["data"], strict=True):
            first = np.asarray(one["embedding"][:n])
            expected = first / np.linalg.norm(first)
            np.testing.assert_allclose(other["embedding"], expected, atol=1e-6)
    too_many = len(whole["data"][0]["embedding"]) + 1
    error = server.request("/v1/embeddings", {"input": "a", "dimensions": too_many}).error
    assert (error["code"], error["param"]) == ("request.too_many_dimensions", "dimensions")


def test_usage_counts_the_tokens_that_are_read(server: Server, review_run: Path) -> None:
    n = load(review_run).recipe.model.max_length - 1  # [CLS] does not count
    for given in ("이 영화 " * 100, [5] * 200):
        reply = server.request("/v1/embeddings", {"input": [given]}).json
        assert reply["usage"] == {"prompt_tokens": n, "total_tokens": n}


def test_as_many_inputs_as_openai_accepts(server: Server) -> None:
    reply = server.request("/v1/embeddings", {"input": ["가" * 300] * 2048, "dimensions": 1})
    assert len(reply.json["data"]) == 2048
    reply = server.request("/v1/embeddings", {"input": [[1]] * 2049})
    assert reply.error["code"] == "request.not_a_list"


def test_the_client_of_hugging_face(
    server: Server, review_run: Path, request: pytest.FixtureRequest
) -> None:
    from huggingface_hub import InferenceClient, close_session

    request.addfinalizer(close_session)  # its clients share one, which keeps connections open
    pipeline = load(review_run)
    client = InferenceClient(f"http://127.0.0.1:{server.port}/embed")
    found = client.feature_extraction(TEXTS[0])
    np.testing.assert_allclose(np.ravel(found), pipeline.encode(TEXTS[0]), atol=1e-5)
    client = InferenceClient(f"http://127.0.0.1:{server.port}/predict")
    best: Any = client.text_classification(TEXTS[1])  # the client takes the first of TEI's list
    assert best.label == pipeline(TEXTS[1]).label
    assert math.isclose(best.score, pipeline(TEXTS[1]).probability, abs_tol=1e-5)
    client = InferenceClient(f"http://127.0.0.1:{server.port}/similarity")
    at_root = InferenceClient(f"http://127.0.0.1:{server.port}")  # the first model classifies
    assert at_root.text_classification(TEXTS[1]) == best
    assert at_root.sentence_similarity(TEXTS[0], other_sentences=[TEXTS[0]]) == [
        pytest.approx(1, abs=1e-5)
    ]
    (same, other) = client.sentence_similarity(TEXTS[0], other_sentences=[TEXTS[0], TEXTS[1]])
    assert same == pytest.approx(1, abs=1e-5)
    assert other < same


def test_the_parameters_of_hugging_face(
    server: Server, review_run: Path, request: pytest.FixtureRequest
) -> None:
    """They are obeyed or refused by name, never ignored."""
    from huggingface_hub import InferenceClient, close_session

    request.addfinalizer(close_session)
    client = InferenceClient(f"http://127.0.0.1:{server.port}/predict")
    plain = client.text_classification(TEXTS[1])
    assert client.text_classification(TEXTS[1], function_to_apply="softmax", top_k=1) == plain
    for name in ("none", "sigmoid"):
        with pytest.raises(Exception, match="function_to_apply must be that"):
            client.text_classification(TEXTS[1], function_to_apply=name)  # type: ignore[arg-type]
    both = server.request("/predict", {"inputs": TEXTS[1]}).json
    for given in ({"top_k": 1}, {"function_to_apply": "softmax", "top_k": 1, "truncate": True}):
        found = server.request("/predict", {"inputs": TEXTS[1], "parameters": given}).json
        assert found == both[:1]
    client = InferenceClient(f"http://127.0.0.1:{server.port}/embed")
    long = client.feature_extraction(TEXTS[0], normalize=False, truncate=True)
    assert np.linalg.norm(long) != pytest.approx(1, abs=1e-3)
    nested = {"inputs": TEXTS[0], "parameters": {"normalize": False}}
    np.testing.assert_allclose(server.request("/embed", nested).json, np.atleast_2d(long))


def test_the_root_embeds_where_no_model_classifies(
    reading_run: Path, embedder: Server, request: pytest.FixtureRequest
) -> None:
    from huggingface_hub import InferenceClient, close_session

    request.addfinalizer(close_session)
    client = InferenceClient(f"http://127.0.0.1:{embedder.port}")
    expected = load("ko-small-vectors").encode(TEXTS[0])
    np.testing.assert_allclose(np.ravel(client.feature_extraction(TEXTS[0])), expected, atol=1e-5)
    first = expected[:8] / np.linalg.norm(expected[:8])
    found = client.feature_extraction(TEXTS[0], dimensions=8)
    np.testing.assert_allclose(np.ravel(found), first, atol=1e-5)
    raw = embedder.request("/embed", {"inputs": "가", "dimensions": 8, "normalize": False}).json
    whole = embedder.request("/embed", {"inputs": "가", "normalize": False}).json
    assert raw[0] == whole[0][:8]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of sentence vectors."""
    with serving(tmp_path_factory.mktemp("embedder"), [Path("ko-small-vectors")]) as started:
        yield started


POSTS = {
    "/": {"inputs": "a"},
    "/detect": {"q": "a"},
    "/predict": {"inputs": "a"},
    "/embed": {"inputs": "a"},
    "/rerank": {"query": "a", "texts": ["b"]},
    "/similarity": {"inputs": {"source_sentence": "a", "sentences": ["b"]}},
    "/translate": {"q": "a", "source": "ko", "target": "en"},
    "/v1/predict": {"texts": ["a"]},
    "/v1/embeddings": {"input": "a"},
    "/v1/completions": {"prompt": "a"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}]},
    "/admin/reload": {},
}


def test_every_route_that_reads_a_body_is_listed() -> None:
    assert {path for path, methods in described()["paths"].items() if "post" in methods} == set(
        POSTS
    )


@pytest.mark.parametrize("path", POSTS)
def test_an_unknown_key_is_refused_on_every_route(server: Server, path: str) -> None:
    reply = server.request(path, {**POSTS[path], "invented": 1})
    assert reply.status == 400
    assert "the keys must be among" in reply.error["message"]


def test_batches_of_inputs(server: Server) -> None:
    single = server.request("/predict", {"inputs": TEXTS[0]}).json
    batch = server.request("/predict", {"inputs": [[TEXTS[0]], [TEXTS[1]]]}).json
    assert batch[0] == single
    assert server.request("/predict", {"inputs": TEXTS[0], "raw_scores": False}).json == single
    assert single[0]["score"] >= single[1]["score"]
    assert server.request("/info").json["model_id"] == "reviews"


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("/predict", {"inputs": 3}, "inputs must be a string or a list"),
        ("/predict", {"inputs": [["a", "b"]]}, "the number of texts of inputs[0] must be 1;"),
        ("/predict", {"inputs": "a", "raw_scores": True}, "raw_scores must be false; scores are"),
        ("/predict", {"inputs": "a", "raw_scores": 0}, "raw_scores must be false"),
        ("/embed", {"inputs": "a", "normalize": 1}, "normalize must be true or false"),
        ("/embed", {"inputs": "a", "truncate": False}, "truncate must be left out"),
        ("/embed", {"inputs": "a", "truncation_direction": "left"}, "truncation_direction must be"),
        ("/embed", {"inputs": "a", "parameters": {"truncate": False}}, "parameters.truncate must"),
        ("/embed", {"inputs": "a", "parameters": {"prompt_name": "q"}}, "prompt_name must be one"),
        ("/rerank", {"query": "a", "texts": ["b"]}, "/rerank needs a model with one score"),
        ("/predict", {"inputs": "a", "truncate": False}, "truncate must be left out"),
        ("/predict", {"inputs": "a", "parameters": {"top_k": 0}}, "parameters.top_k must be an"),
        (
            "/predict",
            {"inputs": "a", "parameters": {"function_to_apply": "none"}},
            "parameters.function_to_apply must be that of the model's scores",
        ),
        ("/predict", {"inputs": "a", "parameters": {"candidate_labels": []}}, "the keys must be"),
        ("/predict", {"inputs": "a", "parameters": 3}, "parameters must be an object"),
        (
            "/similarity",
            {
                "inputs": {"source_sentence": "a", "sentences": ["b"]},
                "parameters": {"normalize": True},
            },
            "the keys must be among",
        ),
        ("/similarity", {"inputs": "a"}, "inputs must have source_sentence"),
        ("/v1/embeddings", {"input": "a", "encoding_format": "x"}, "encoding_format must be one"),
        ("/v1/embeddings", {"input": [1, "a"]}, "input must be an integer from 0"),
        ("/v1/embeddings", {"input": [[]]}, "input[0] must be a list of 1 to 65536 token ids"),
        ("/v1/embeddings", {"input": ["a", [1]]}, "input[1] must be a string"),
        ("/v1/embeddings", {"input": "a", "dimensions": 0}, "dimensions must be an integer"),
        ("/v1/embeddings", {"input": "a", "model": "reading"}, "the model must have an encoder"),
        ("/v1/completions", {"prompt": "a", "model": "reviews"}, "the model must generate text"),
        ("/v1/completions", {"prompt": "a", "n": 0}, "n must be 1"),
        ("/translate", {"q": 3}, "q must be a list"),
        ("/translate", {"q": "a", "source": []}, "source must be a string"),
    ],
)
def test_invalid_values_are_refused(
    server: Server, path: str, content: dict[str, object], message: str
) -> None:
    reply = server.request(path, content)
    assert reply.status == 400
    assert message in reply.error["message"]

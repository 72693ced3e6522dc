"""Completions of language models with log-probabilities, and chats, by their real clients."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from jumok.tasks.pipeline.chat import Chat
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load
from jumok.text.chat import Message
from tests import hf_folders
from tests.serving.server_process import Server, serving
from tests.text.test_chat import CHATML

openai = pytest.importorskip("openai")

PROMPT = "이 영화 정말"
MESSAGES = [{"role": "system", "content": "영화"}, {"role": "user", "content": "이 영화 어때요?"}]

pytestmark = pytest.mark.usefixtures("threads_of_the_server")


@pytest.fixture(scope="module")
def folders(language_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trained language model that reads [BOS], and an imported chat model of byte-level BPE."""
    folder = tmp_path_factory.mktemp("models")
    hf_folders.llama(folder / "chatty", chat=True, max_position_embeddings=400)
    (folder / "chatty" / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    (folder / "language").symlink_to(language_run)
    return {name: folder / name for name in ("language", "chatty")}


@pytest.fixture(scope="module")
def writer(
    folders: dict[str, Path], reading_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    limits = {"max_wait": 60.0}
    runs = [*folders.values(), reading_run]
    with serving(tmp_path_factory.mktemp("writer"), runs, limits=limits) as server:
        yield server


@pytest.fixture(scope="module")
def client(writer: Server) -> Iterator[Any]:
    address = f"http://127.0.0.1:{writer.port}/v1"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as found:
        yield found


def expected_scores(pipeline: Pipeline, ids: list[int]) -> torch.Tensor:
    """log p of all tokens after each of these ids."""
    return pipeline.logits(torch.tensor([ids]))[0].log_softmax(-1)


@pytest.mark.parametrize("name", ["language", "chatty"])
def test_logprobs_and_echo_as_lm_eval_reads_them(
    client: Any, folders: dict[str, Path], name: str
) -> None:
    """One request for ids: log p of each of them, and whether it is the most probable one."""
    pipeline = load(folders[name])
    ids = pipeline.vocabulary.encode(PROMPT)
    found = client.completions.create(
        model=name, prompt=[ids, ids[:2]], temperature=0, max_tokens=1, logprobs=1, echo=True
    )
    assert [choice.index for choice in found.choices] == [0, 1]
    scores = found.choices[0].logprobs
    log_p = expected_scores(pipeline, ids)
    assert len(scores.token_logprobs) == len(ids) + 1
    assert (scores.token_logprobs[0], scores.top_logprobs[0]) == (None, None)
    for number, token in enumerate(ids[1:], 1):
        own, best = log_p[number - 1, token].item(), log_p[number - 1].max().item()
        assert scores.token_logprobs[number] == pytest.approx(own, abs=1e-4)
        assert max(scores.top_logprobs[number].values()) == pytest.approx(best, abs=1e-4)
    last = scores.top_logprobs[-1]
    assert scores.token_logprobs[-1] == max(last.values())  # greedy
    assert found.choices[0].text.startswith(pipeline.vocabulary.decode(ids))
    assert found.usage.prompt_tokens == len(ids) + 2


def test_a_prompt_that_slides_out_of_the_window_is_counted_as_far_as_it_is_read(
    client: Any, folders: dict[str, Path]
) -> None:
    for name in folders:
        window = load(folders[name]).recipe.model.max_length
        text = PROMPT * window
        ids = load(folders[name]).vocabulary.encode(text)
        for prompt in (text, ids):
            found = client.completions.create(model=name, prompt=prompt, max_tokens=1)
            assert found.usage.prompt_tokens == window // 2


def test_tokens_are_the_text(client: Any, folders: dict[str, Path]) -> None:
    for name in folders:
        found = client.completions.create(
            model=name, prompt=PROMPT, temperature=0, max_tokens=6, logprobs=3, echo=True
        )
        (choice,) = found.choices
        scores = choice.logprobs
        if not any(token.startswith("bytes:") for token in scores.tokens):
            text = "".join(token for token in scores.tokens if token != "[EOS]")
            assert text.strip() == choice.text.strip()
        assert scores.text_offset == sorted(scores.text_offset)
        for token, log_p, top in zip(
            scores.tokens[1:], scores.token_logprobs[1:], scores.top_logprobs[1:], strict=True
        ):
            assert token in top
            assert 3 <= len(top) <= 4 or any(key.startswith("bytes:") for key in top)
            assert log_p <= max(top.values()) <= 0


def test_a_text_is_scored_after_its_special_tokens(client: Any, folders: dict[str, Path]) -> None:
    pipeline = load(folders["language"])
    vocabulary = pipeline.vocabulary
    ids = vocabulary.encode(PROMPT)
    request: dict[str, Any] = {"model": "language", "temperature": 0, "max_tokens": 2}
    found = client.completions.create(prompt=PROMPT, logprobs=0, echo=True, **request)
    scores = found.choices[0].logprobs
    first = expected_scores(pipeline, [vocabulary.bos_id])[0, ids[0]].item()
    assert scores.token_logprobs[0] == pytest.approx(first, abs=1e-4)
    assert scores.text_offset[0] == 0
    after = client.completions.create(prompt=PROMPT, logprobs=0, **request).choices[0].logprobs
    assert after.token_logprobs == scores.token_logprobs[len(ids) :]
    assert after.tokens == scores.tokens[len(ids) :]
    assert all(len(top) == 1 for top in after.top_logprobs)


def test_prompts_of_ids_are_continued(client: Any, folders: dict[str, Path]) -> None:
    pipeline = load(folders["chatty"])
    ids = pipeline.vocabulary.encode(PROMPT)
    request: dict[str, Any] = {"model": "chatty", "temperature": 0, "max_tokens": 5}
    whole = client.completions.create(prompt=PROMPT, **request).choices[0].text
    assert client.completions.create(prompt=ids, **request).choices[0].text == whole
    scored = client.completions.create(prompt=ids, logprobs=2, **request).choices[0].logprobs
    parts = [
        part.choices[0]
        for part in client.completions.create(prompt=ids, stream=True, logprobs=2, **request)
    ]
    assert "".join(part.text for part in parts) == whole
    assert [part.logprobs for part in parts] == [None] * (len(parts) - 1) + [scored]
    echoed = client.completions.create(prompt=[PROMPT], echo=True, **request).choices[0].text
    assert echoed == PROMPT + whole


def test_the_seed_minus_1_is_a_random_one(writer: Server) -> None:
    """As llama.cpp has it."""
    request = {"model": "language", "prompt": PROMPT, "temperature": 1.0, "max_tokens": 4}
    replies = [writer.request("/v1/completions", {**request, "seed": -1}).json for _ in range(2)]
    first, second = (reply["choices"][0]["seed"] for reply in replies)
    assert first != second
    again = writer.request("/v1/completions", {**request, "seed": first}).json
    assert again["choices"][0]["text"] == replies[0]["choices"][0]["text"]


def test_nothing_is_generated_with_max_tokens_0(client: Any) -> None:
    found = client.completions.create(
        model="language", prompt=PROMPT, max_tokens=0, logprobs=1, echo=True
    )
    assert found.choices[0].text == PROMPT
    assert found.choices[0].finish_reason == "length"
    assert found.usage.completion_tokens == 0
    assert len(found.choices[0].logprobs.tokens) == found.usage.prompt_tokens


def test_chats_are_those_of_the_library(client: Any, folders: dict[str, Path]) -> None:
    pipeline = load(folders["chatty"]).with_decoding(["max_length=12"])
    messages = [Message(each["role"], each["content"]) for each in MESSAGES]  # type: ignore[arg-type]
    expected = Chat.of(pipeline).answer(messages)
    assert expected
    request: dict[str, Any] = {"model": "chatty", "temperature": 0, "max_completion_tokens": 12}
    found = client.chat.completions.create(messages=MESSAGES, **request)
    (choice,) = found.choices
    assert (choice.message.role, choice.message.content) == ("assistant", expected)
    assert choice.finish_reason == "length"
    assert found.usage.completion_tokens == 12
    assert found.usage.prompt_tokens == len(Chat.of(pipeline).prompt_ids(messages))
    parts = list(
        client.chat.completions.create(
            messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **request
        )
    )
    *chunks, usage = parts
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == expected
    assert chunks[-1].choices[0].finish_reason == "length"
    assert usage.usage == found.usage


def test_a_chat_without_a_limit_fits_the_model(client: Any) -> None:
    long = [{"role": "user", "content": [{"type": "text", "text": "영화 " * 70}]}]
    found = client.chat.completions.create(model="chatty", messages=long, temperature=0)
    assert found.usage.total_tokens <= 400


def test_a_sampled_chat_has_a_seed(writer: Server) -> None:
    request = {"messages": MESSAGES, "temperature": 1.5, "max_tokens": 8}
    (choice,) = writer.request("/v1/chat/completions", request).json["choices"]
    again = writer.request("/v1/chat/completions", {**request, "seed": choice["seed"]}).json
    assert again["choices"] == [choice]


@pytest.mark.parametrize(
    ("path", "content", "code"),
    [
        ("completions", {"prompt": [10**6], "model": "language"}, "pipeline.unknown_token_ids"),
        ("completions", {"prompt": [], "model": "language"}, "request.not_a_list"),
        (
            "completions",
            {"prompt": "가 " * 40, "model": "language", "logprobs": 1},
            "pipeline.scored_text_too_long",
        ),
        (
            "completions",
            {"prompt": "일 이", "model": "run", "logprobs": 1},
            "server.completion_needs_language_model",
        ),
        ("completions", {"prompt": "가", "logprobs": 6}, "request.not_an_integer"),
        ("completions", {"prompt": "가", "logit_bias": {"1": 1}}, "request.unsupported_key"),
        ("completions", {"prompt": "가", "echo": True, "stream": True}, "request.stream_several_"),
        ("completions", {"prompt": "가", "frequency_penalty": 0.5}, "request.unsupported_key"),
        ("chat/completions", {"messages": MESSAGES, "presence_penalty": 1}, "request.unsupported"),
        ("chat/completions", {"messages": MESSAGES, "model": "run"}, "request.unsuitable_model"),
        ("chat/completions", {"messages": MESSAGES[:1]}, "text.message_order"),
        ("chat/completions", {"messages": []}, "request.not_messages"),
        ("chat/completions", {"messages": [{"role": "user"}]}, "request.not_a_string"),
        ("chat/completions", {"messages": MESSAGES, "tools": [{}]}, "request.unsupported_key"),
        (
            "chat/completions",
            {"messages": MESSAGES, "max_tokens": 600},
            "pipeline.chat_too_long",
        ),
    ],
)
def test_wrong_requests(writer: Server, path: str, content: dict[str, Any], code: str) -> None:
    reply = writer.request(f"/v1/{path}", content)
    assert reply.status == 400
    assert reply.error["code"].startswith(code)
    assert "영화" not in reply.error["message"]


def test_a_model_that_chats_is_named(writer: Server) -> None:
    models = {each["id"]: each["chats"] for each in writer.request("/v1/models").json["data"]}
    assert models == {"language": False, "chatty": True, "run": False}

"""Completions of a language model in a computing process: ids, chats and log-probabilities."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jumok.decoding import TokenBytes, read_token_bytes
from jumok.models import LanguageModel
from jumok.serving.engine import n_read, no_completions
from jumok.tasks.inputs.special_tokens import check_ids
from jumok.tasks.pipeline.causal_generation import TokenScore, prompt_ids, score_ids
from jumok.tasks.pipeline.chat import Chat
from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline, as_generation
from jumok.tasks.pipeline.outputs import GeneratedText, to_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.byte_pieces import decode_with_positions
from jumok.text.chat import parse_messages
from jumok.text.tokenizer import piece_or_empty

Emit = Callable[[str], None]


@dataclass(frozen=True)
class Completions:
    """A language model that continues token ids and chats, and scores tokens."""

    pipeline: GenerationPipeline

    @classmethod
    def of(cls, pipeline: Pipeline) -> "Completions":
        """Those of a pipeline. Raises InputError for other models."""
        if not isinstance(pipeline.model, LanguageModel):
            raise no_completions(pipeline.recipe.task)
        return cls(as_generation(pipeline))

    @cached_property
    def chat(self) -> Chat:
        """The chat of the model, whose template is rendered once for this."""
        return Chat.of(self.pipeline)

    @cached_property
    def token_bytes(self) -> TokenBytes:
        """The bytes of each token."""
        return read_token_bytes(self.pipeline.vocabulary)

    def complete(
        self, message: Mapping[str, Any], pipeline: Pipeline, payload: str, emit: Emit
    ) -> tuple[dict[str, Any], bytes]:
        """The header and the JSON of an answer, by the pipeline with the request's settings.

        `message` has `prompt`: "text", "ids" or "messages" (the last two as JSON), `empty` (nothing
        is generated), `fits` (the length is limited to the model's), `logprobs` and `echo`.
        """
        end_ids: tuple[int, ...] = ()
        generation, text = as_generation(pipeline), ""
        if message["prompt"] == "messages":
            ids = self.chat.prompt_ids(parse_messages(json.loads(payload)))
            end_ids = self.chat.end_ids
            generation = _fitting(generation, len(ids)) if message.get("fits") else generation
            replace(self.chat, pipeline=generation).check_fits(ids)
        elif message["prompt"] == "ids":
            ids = json.loads(payload)
            check_ids(ids, pipeline.vocabulary)
        else:
            ids, text = prompt_ids(pipeline, payload), payload
        output = GeneratedText(text, "", 0.0, finish_reason="length")
        if not message.get("empty"):
            output = generation.continue_ids(ids, emit, text=text, end_ids=end_ids)
        n = len(pipeline.vocabulary.encode(text)) if text else len(ids)
        window = pipeline.recipe.model.max_length
        header = {
            "tokens": n if message.get("empty") else n_read(n, len(ids) - n, window),
            "new_tokens": len(output.tokens),
            "finish_reason": output.finish_reason,
        }
        more: dict[str, Any] = {}
        if message.get("echo"):
            more["prompt"] = text or pipeline.vocabulary.decode(ids)
        if message.get("logprobs") is not None:
            n_special = _n_before(pipeline, ids, text)
            first = n_special if message.get("echo") else len(ids)
            whole = [*ids, *(token.id for token in output.tokens)]
            scores = score_ids(generation, whole, message["logprobs"])
            more["logprobs"] = self._logprobs(whole, scores, first)
        return header, to_json(output, more).encode()

    def _logprobs(
        self, ids: Sequence[int], scores: Sequence[TokenScore | None], first: int
    ) -> dict[str, Any]:
        """The object `logprobs` of OpenAI's completions, for the tokens from `first` on.

        `text_offset` is the position of each token in the text of these tokens.
        """
        data = [self._bytes(token, number == 0) for number, token in enumerate(ids[first:])]
        text, positions = decode_with_positions(b"".join(data))
        ends = [*positions, len(text)]
        offsets, n = [], 0
        for each in data:
            offsets.append(ends[n])
            n += len(each)
        return {
            "tokens": [self._text(token) for token in ids[first:]],
            "token_logprobs": [each and each.log_probability for each in scores[first:]],
            "top_logprobs": [
                each and self._top(token, each)
                for token, each in zip(ids[first:], scores[first:], strict=True)
            ],
            "text_offset": offsets,
        }

    def _top(self, token: int, score: TokenScore) -> dict[str, float]:
        """The most probable tokens by their texts, and the token itself."""
        found: dict[str, float] = {}
        for other, log_probability in (*score.top, (token, score.log_probability)):
            found.setdefault(self._text(other), log_probability)
        return found

    def _bytes(self, token: int, is_first: bool) -> bytes:
        found = self.token_bytes
        return (found.initial if is_first else found.medial)[token] if token < len(found) else b""

    def _text(self, token: int) -> str:
        r"""The text of a token; "bytes:\xec" of a part of a character, the piece of [EOS]."""
        data = self._bytes(token, is_first=False)
        try:
            return data.decode() or piece_or_empty(self.pipeline.vocabulary, token)
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def can_chat(pipeline: Pipeline) -> bool:
    """Whether a language model has a chat template."""
    files = getattr(pipeline.vocabulary_or_none, "files", None)
    has_template = getattr(files, "chat_template", None) is not None
    return isinstance(pipeline.model, LanguageModel) and has_template


def _fitting(pipeline: GenerationPipeline, n_read: int) -> GenerationPipeline:
    """The pipeline with no more new tokens than the model has positions for."""
    rest = pipeline.recipe.model.max_length - n_read
    if not 1 <= rest < pipeline.recipe.decoding.max_length:
        return pipeline
    shorter = [f"max_length={rest}"]
    if pipeline.recipe.decoding.min_length > rest:
        shorter.append(f"min_length={rest}")
    return as_generation(pipeline.with_decoding(shorter))


def _n_before(pipeline: Pipeline, ids: Sequence[int], text: str) -> int:
    """The number of special tokens that the model reads before a text."""
    if not text:
        return 0
    own = pipeline.vocabulary.encode(text)
    return next(n for n in range(len(ids) + 1) if list(ids[n : n + len(own)]) == own)

"""A model in a computing process: its answers, with the kernel calls of all requests merged."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from jumok.errors import InputError
from jumok.inference import has_invariant_states, is_batch_invariant
from jumok.inference.unpadded_stack import NativeBackend
from jumok.pretrained.memory_map import copy_weights
from jumok.serving.completions import Completions, can_chat
from jumok.serving.frames import BATCH_WORK
from jumok.serving.merging import JobHub, MergedEncoder, SharedBackends
from jumok.tasks.pipeline.encoder_choice import with_packed_encoder
from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline, as_generation
from jumok.tasks.pipeline.outputs import Output, to_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.examples import examples
from jumok.tasks.runs.load import load
from jumok.tasks.task import GenerativeTask

HASH_CHARS = 12
FALLBACK_EXAMPLES = ("이 영화 정말 재미있어요 ㅋㅋ", "시간이 아깝다", "안녕하세요")
MAX_PIPELINES = 16  # with different decoding settings


@dataclass(frozen=True)
class EngineOptions:
    """What `jumok serve` sets for a model, as the same options of `jumok predict`."""

    precision: str | None = None
    decoding: tuple[str, ...] = ()
    traces: bool = False  # an option of the server only


class Engine:
    """A loaded model and the answers to single texts.

    Called inside of a job of the hub, its kernel calls are merged with those of other jobs.
    """

    def __init__(self, folder: str, options: EngineOptions, hub: JobHub) -> None:
        pipeline = load(folder)
        copy_weights(pipeline.model)  # `cp` overwrites the mapped files of a run in place
        weights = sorted(Path(folder).glob("*.safetensors"))
        self.hash = model_hash(weights or [pipeline.weights_path], description(pipeline))
        self._traced = pipeline if options.traces else None  # an optimized encoder has no weights
        pipeline = with_precision(pipeline, options.precision)
        if options.decoding:
            pipeline = pipeline.with_decoding(options.decoding)
        if pipeline.has_text_head or pipeline.recipe.model.kind != "encoder":
            pipeline.check_supported()
        self._pipeline = pipeline
        _merge_encoders(pipeline, hub)
        if isinstance(pipeline, GenerationPipeline):
            pipeline.backends = backends = SharedBackends(pipeline.recipe.decoding, hub)
            backends.prepare(pipeline.model)
        self._lengths: dict[str, int] = {}  # the tokens of the texts that were tokenized last
        self.pipeline = lru_cache(MAX_PIPELINES)(self._with_decoding)
        self.batched = {  # the kinds of requests whose answers do not depend on the batch
            kind
            for kind, invariant in (
                ("predict", pipeline.has_text_head and is_batch_invariant(pipeline.model)),
                ("embed", has_invariant_states(pipeline.model)),
            )
            if invariant
        }

    @property
    def info(self) -> dict[str, Any]:
        """What the front process has to know about the model."""
        pipeline = self._pipeline
        recipe = pipeline.recipe
        return {
            "hash": self.hash,
            "task": recipe.task,
            "labels": list(pipeline.labels),
            "paired": recipe.paired,
            "optional_pairs": pipeline.optional_pairs,
            "scores": pipeline.task.answer == "score",
            "imported": pipeline.origin is not None,
            "generates": pipeline.task.generates,
            "chats": can_chat(pipeline),
            "translates": pipeline.task.generates and pipeline.task.reads_source,
            "classifies": pipeline.has_text_head
            and pipeline.task.answer in ("label", "labels", "score"),
            "embeds": recipe.model.kind == "encoder",
            "vectors": pipeline.is_trained_for_vectors,
            "max_length": recipe.model.max_length,
            "languages": [recipe.data.language],
            "corpus": recipe.data.corpus,
        }

    @property
    def uses_kernel(self) -> bool:
        """Whether the C++ kernel computes the layers."""
        return self._pipeline.kernel.kernel == "native"

    def predict(self, text: str, decoding: str = "") -> str:
        """The line of `jumok predict --json` for this text."""
        return to_json(self.output(text, decoding))

    def output(self, text: str, decoding: str = "", *, sentences: bool = False) -> Output:
        """The output for this text; with `sentences` each of them is translated by itself."""
        pipeline = self.pipeline(decoding)
        if sentences and isinstance(pipeline, GenerationPipeline):
            return pipeline.predict([text], sentences=True)[0]
        return pipeline(text)

    def predict_batch(self, texts: Sequence[str]) -> list[str]:
        """The lines of `jumok predict --json`; those of each text alone if `batched`."""
        return [to_json(output) for output in self._pipeline.predict(texts)]

    def stream(self, text: str, decoding: str, emit: Any) -> Output:
        """The output for one text; each generated part is passed to `emit`."""
        return as_generation(self.pipeline(decoding)).stream(text, emit)

    def embed(
        self, text: str, normalize: bool = True, *, ids: bool = False, prompt_name: str = ""
    ) -> bytes:
        """The embedding of a text as float32 in little-endian order."""
        (found,) = self.embed_batch([text], normalize, ids=ids, prompt_name=prompt_name)
        return found

    def embed_batch(
        self,
        texts: Sequence[str],
        normalize: bool = True,
        *,
        ids: bool = False,
        prompt_name: str = "",
    ) -> list[bytes]:
        """The embeddings of several texts; those of each text alone if `batched`.

        With `ids` each text is the JSON of its token ids, which the default prompt precedes.
        """
        if ids:
            vectors = self._pipeline.encode_ids(list(map(json.loads, texts)), normalize=normalize)
        else:
            vectors = self._pipeline.encode(
                list(texts), normalize=normalize, prompt_name=prompt_name
            )
        return [bytes(row) for row in vectors.astype("<f4")]

    def complete(
        self, message: Mapping[str, Any], payload: str, emit: Callable[[str], None]
    ) -> tuple[dict[str, Any], bytes]:
        """The completion of token ids or a chat, or one with log-probabilities, by its message."""
        pipeline = self.pipeline(message.get("decoding", ""))
        return self.completions.complete(message, pipeline, payload, emit)

    @cached_property
    def completions(self) -> Completions:
        """The completions of a language model."""
        return Completions.of(self._pipeline)

    def trace(self, text: str) -> bytes:
        """The page of `jumok view` with the trace of a text, computed by the unoptimized model."""
        from jumok.interpret.tracing import trace
        from jumok.viewer.page import render_page

        assert self._traced is not None
        self._traced.check_texts([text])
        return render_page(trace(self._traced, text))

    def tokenize_in(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        """Tokenize long texts in a context: without the turn, so that other processes compute."""
        tokenizer = self._pipeline.vocabulary
        for name in ("encode", "encode_batch", "encode_with_offsets"):
            vars(tokenizer)[name] = _tokenizes_in(context, getattr(tokenizer, name))  # frozen
        encode_batch = tokenizer.encode_batch

        def counted(texts: Sequence[str]) -> list[list[int]]:
            found = encode_batch(texts)
            if len(found) <= BATCH_WORK:
                self._lengths = dict(zip(texts, map(len, found), strict=True))
            return found

        vars(tokenizer)["encode_batch"] = counted

    def count_tokens(self, text: str, *, ids: bool = False) -> int:
        """The number of tokens of a text without special tokens, or of ids as JSON."""
        if ids:
            return len(json.loads(text))
        known = self._lengths.get(text)
        return len(self._pipeline.vocabulary.encode(text)) if known is None else known

    def count_embedded(self, text: str, *, ids: bool = False) -> int:
        """The tokens of a text that its embedding is computed from, without special tokens."""
        pipeline = self._pipeline
        encoding = pipeline.sentence_encoding or pipeline.default_encoding
        longest = pipeline.recipe.model.max_length
        limit = min(longest, encoding.max_length or longest)
        n_special = pipeline.vocabulary.input_template.n_special()
        return min(self.count_tokens(text, ids=ids), limit - n_special)

    def output_tokens(self, line: str, decoding: str = "") -> int:
        """The number of generated tokens in an answer, counted on its text."""
        output = json.loads(line).get("output", "")
        return len(self._pipeline.target_vocabulary.encode(output))

    def generation(self, answers: Sequence[str]) -> dict[str, float] | None:
        """The hypotheses and the mean number of tokens of these answers, if the model generates."""
        if not isinstance(self._pipeline.task, GenerativeTask):
            return None
        tokens = sum(map(self.output_tokens, answers)) / max(len(answers), 1)
        return {"beam": self._pipeline.recipe.decoding.beam, "tokens": tokens}

    def examples(self) -> list[str]:
        """Texts to warm up with and to compare a new version of the model on."""
        recipe = self._pipeline.recipe
        found = examples(recipe) or list(FALLBACK_EXAMPLES)
        if recipe.paired:
            found = [text if "\t" in text else f"{text}\t{text}" for text in found]
        return found

    def example_answers(
        self, turn: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> list[str]:
        """The answers for the examples, each computed in a turn of its own."""
        answers = []
        for text in self.examples():
            with turn():
                answers.append(self.example_answer(text))
        return answers

    def example_answer(self, text: str) -> str:
        """The answer for an example; the vector of an encoder without a head, as JSON."""
        if not self._pipeline.has_text_head:
            return json.dumps(self._pipeline.encode(text).tolist())
        recipe = self._pipeline.recipe
        fixed = self._pipeline.task.generates and recipe.decoding.sample  # answers are compared
        return self.predict(text, f'{{"seed": {recipe.decoding.fixed_seed}}}' if fixed else "")

    def _with_decoding(self, decoding: str) -> Pipeline:
        """The pipeline with the settings of a request: the JSON text of an object, or ""."""
        if not decoding:
            return self._pipeline
        return self._pipeline.with_decoding(decoding_overrides(json.loads(decoding)))


def _tokenizes_in(
    context: Callable[[], AbstractContextManager[None]], encode: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """The method of a tokenizer, called in a context where its text or texts are long."""

    def call(given: str | Sequence[str]) -> Any:
        chars = len(given) if isinstance(given, str) else sum(map(len, given))
        with context() if chars > BATCH_WORK else nullcontext():
            return encode(given)

    return call


def with_precision(pipeline: Pipeline, precision: str | None) -> Pipeline:
    """The pipeline with an optimized encoder, as `jumok predict` with or without `--precision`."""
    if precision is not None and pipeline.recipe.model.kind == "decoder":
        raise InputError(
            "server.precision_needs_encoder",
            "--precision needs a model with an encoder, got a language model; use --decoding "
            "precision={precision}",
            precision=precision,
        )
    return with_packed_encoder(pipeline, precision)  # type: ignore[arg-type]  # checks it


def decoding_overrides(settings: Mapping[str, Any]) -> list[str]:
    r"""The settings of a request as overrides of [decoding].

    >>> decoding_overrides({"beam": 4, "stop": ["\n"], "sample": False})
    ['beam=4', 'stop=["\\n"]', 'sample=false']
    """
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]


def description(pipeline: Pipeline) -> list[str]:
    """What answers depend on besides the weights: settings, labels, vocabularies."""
    recipe, encoding = pipeline.recipe, pipeline.sentence_encoding
    vocabularies = [pipeline.vocabulary]
    rules = ""
    if isinstance(pipeline, GenerationPipeline):
        vocabularies.append(pipeline.target_vocabulary)
        rules = pipeline.constraints_summary
    return [
        f"{recipe.task} {recipe.paired} {pipeline.labels}",
        f"{recipe.model} {recipe.decoding}",
        f"{encoding.describe() if encoding else ''} {rules}",
        *(each.identity for each in vocabularies),
    ]


def model_hash(weights: Sequence[Path | None], description: Sequence[str]) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the weights and the description."""
    total = hashlib.sha256()
    for path in filter(None, weights):
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    for text in description:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()[:HASH_CHARS]


def agreement(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """The share of answers that are equal in all but their numbers.

    >>> agreement(['{"label": "a", "p": 0.1}'], ['{"label": "a", "p": 0.2}'])
    1.0
    """
    same = sum(
        _without_numbers(a) == _without_numbers(b) for a, b in zip(ours, theirs, strict=True)
    )
    return float(same / max(len(ours), 1))


def _without_numbers(line: str) -> Any:
    return json.loads(line, parse_float=lambda _: 0.0)


def _merge_encoders(pipeline: Pipeline, hub: JobHub) -> None:
    """Let the native encoders of a model compute the texts of several jobs together."""
    for module in pipeline.model.modules():
        if isinstance(module, NativeBackend):
            module.encoder = MergedEncoder(module.encoder, hub)  # type: ignore[assignment]

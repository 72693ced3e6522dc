"""A model in PyTorch, with the kernel calls of all requests merged."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from jumok.errors import InputError
from jumok.inference import has_invariant_states, is_batch_invariant
from jumok.inference.fast_stacks import NativeStack
from jumok.models import LanguageModel
from jumok.native.threads import set_kernel_threads
from jumok.pretrained.memory_map import copy_weights
from jumok.serving.completions import Completions, can_chat
from jumok.serving.engine import (
    Engine,
    EngineOptions,
    decoding_overrides,
    describe,
    file_checksum,
    model_hash,
    n_read,
)
from jumok.serving.jobs import JobHub
from jumok.serving.merging import MergedEncoder, SharedBackends
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.encoder_choice import with_packed_encoder
from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline, as_generation
from jumok.tasks.pipeline.outputs import GeneratedText, Output
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.examples import examples
from jumok.tasks.runs.load import load
from jumok.tasks.task import GenerativeTask
from jumok.text.tokenizer import Tokenizer

MAX_PIPELINES = 16  # with different decoding settings


class PipelineEngine(Engine):
    """A pipeline and its answers.

    Called inside of a job of the hub, its kernel calls are merged with those of other jobs.
    """

    _model: Pipeline
    jobs: JobHub

    def __init__(self, folder: str, options: EngineOptions, hub: JobHub) -> None:
        pipeline = load(folder)
        copy_weights(pipeline.model)  # `cp` overwrites the mapped files of a run in place
        own = [] if pipeline.weights_path is None else [pipeline.weights_path]
        weights = sorted(Path(folder).glob("*.safetensors")) or own
        self.hash = model_hash(map(file_checksum, weights), description(pipeline))
        self._traced = pipeline if options.traces else None  # an optimized encoder has no weights
        pipeline = with_precision(pipeline, options.precision)
        if options.decoding:
            pipeline = pipeline.with_decoding(options.decoding)
        if pipeline.has_text_head or pipeline.recipe.model.kind != "encoder":
            pipeline.check_supported()
        self._model = pipeline
        self.jobs, self.paired = hub, pipeline.recipe.paired
        encoding, longest = pipeline.sentence_encoding, pipeline.recipe.model.max_length
        self.max_embedded = min(longest, (encoding and encoding.max_length) or longest)
        _merge_encoders(pipeline, hub)
        if isinstance(pipeline, GenerationPipeline):
            pipeline.backends = backends = SharedBackends(pipeline.recipe.decoding, hub)
            backends.prepare(pipeline.model)
        self.pipeline = lru_cache(MAX_PIPELINES)(self._with_decoding)
        self.batched = {  # the kinds of requests whose answers do not depend on the batch
            kind
            for kind, invariant in (
                ("predict", pipeline.has_text_head and is_batch_invariant(pipeline.model)),
                ("embed", has_invariant_states(pipeline.model)),
            )
            if invariant
        }

    @classmethod
    def open(cls, folder: str, options: EngineOptions) -> "PipelineEngine":
        """Load a model with one thread: other models compute meanwhile."""
        torch.set_num_threads(1)
        return cls(folder, options, JobHub(torch.inference_mode))

    @property
    def info(self) -> dict[str, Any]:
        """The description of the model for the front process."""
        pipeline = self._model
        recipe = pipeline.recipe
        return {
            "hash": self.hash,
            "task": recipe.task,
            "precision": pipeline.kernel.precision,
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
            "corpus": recipe.data.corpus,
        }

    @property
    def uses_kernel(self) -> bool:
        """Whether the C++ kernel computes the layers."""
        return self._model.kernel.kernel == "native"

    def output(self, text: str, decoding: str = "", *, sentences: bool = False) -> Output:
        """The output for this text; with `sentences` each of them is translated by itself."""
        pipeline = self.pipeline(decoding)
        if sentences and isinstance(pipeline, GenerationPipeline):
            return pipeline.predict([text], sentences=True)[0]
        output: Output = pipeline(text)
        return output

    def stream(self, text: str, decoding: str, emit: Any) -> Output:
        """The output for one text; each generated part is passed to `emit`."""
        return as_generation(self.pipeline(decoding)).stream(text, emit)

    def complete(
        self, message: Mapping[str, Any], payload: str, emit: Callable[[str], None]
    ) -> tuple[dict[str, Any], bytes]:
        """The completion of token ids or a chat, or one with log-probabilities, by its message."""
        pipeline = self.pipeline(message.get("decoding", ""))
        return self.completions.complete(message, pipeline, payload, emit)

    @cached_property
    def completions(self) -> Completions:
        """The completions of a language model."""
        return Completions.of(self._model)

    def trace(self, text: str) -> bytes:
        """The page of `jumok view` with the trace of a text, computed by the unoptimized model."""
        from jumok.interpret.tracing import trace
        from jumok.viewer.page import render_page

        assert self._traced is not None
        self._traced.check_texts([text])
        return render_page(trace(self._traced, text))

    @property
    def vocabulary(self) -> Tokenizer:  # type: ignore[override]  # raises for a model without one
        """The tokenizer of the texts."""
        return self._model.vocabulary

    def corpus_examples(self) -> list[str]:
        """Texts that are not in the training data; none for a user's files."""
        pipeline = self._model
        return examples(pipeline.recipe.data.corpus, masked=pipeline.task.answer == "masks")

    def count_prompt(self, text: str, output: GeneratedText) -> int:
        """The tokens of a text that its output is generated from, without special tokens."""
        n, pipeline = super().count_prompt(text, output), self._model
        if not isinstance(pipeline.model, LanguageModel):
            return n
        return n_read(n, len(prompt_ids(pipeline, text)) - n, pipeline.recipe.model.max_length)

    def generation(self, answers: Sequence[str]) -> dict[str, float] | None:
        """The hypotheses and the mean number of tokens of these answers, if the model generates."""
        pipeline = self._model
        if not isinstance(pipeline.task, GenerativeTask):
            return None
        return self.generation_of(answers, pipeline.recipe.decoding, pipeline.target_vocabulary)

    def example_answer(self, text: str) -> str:
        """The answer for an example; the vector of an encoder without a head, as JSON."""
        if not self._model.has_text_head:
            return json.dumps(self._model.encode(text).tolist())
        recipe = self._model.recipe
        fixed = self._model.task.generates and recipe.decoding.sample  # answers are compared
        return self.predict(text, f'{{"seed": {recipe.decoding.fixed_seed}}}' if fixed else "")

    def set_threads(self, threads: int) -> None:
        """Give all threads to the kernel and one to PyTorch, if the answers stay the same.

        The sums of PyTorch may depend on its threads. Outside of the kernel all texts have the same
        few shapes, so the model's examples show whether they do.
        """
        torch.set_num_threads(threads)
        if threads == 1 or not self.uses_kernel:
            return
        before = self.example_answers()
        torch.set_num_threads(1)
        set_kernel_threads(threads)
        if self.example_answers() != before:
            torch.set_num_threads(threads)
            set_kernel_threads(None)

    def _with_decoding(self, decoding: str) -> Pipeline:
        """The pipeline with the settings of a request: the JSON text of an object, or ""."""
        if not decoding:
            return self._model
        return self._model.with_decoding(decoding_overrides(json.loads(decoding)))


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


def description(pipeline: Pipeline) -> list[str]:
    """What answers depend on besides the weights: settings, labels, vocabularies."""
    recipe, encoding = pipeline.recipe, pipeline.sentence_encoding
    tokenizers, rules = [pipeline.vocabulary], encoding.describe() if encoding else ""
    if isinstance(pipeline, GenerationPipeline):
        tokenizers.append(pipeline.target_vocabulary)
        rules += pipeline.constraints_summary
    return describe(
        *(recipe.task, recipe.paired, pipeline.labels),
        model=recipe.model,
        decoding=recipe.decoding,
        tokenizers=tokenizers,
        rules=rules,
    )


def _merge_encoders(pipeline: Pipeline, hub: JobHub) -> None:
    """Let the native encoders of a model compute the texts of several jobs together."""
    for module in pipeline.model.modules():
        if isinstance(module, NativeStack):
            module.encoder = MergedEncoder(module.encoder, hub)  # type: ignore[assignment]

"""A model in the C++ kernel, without PyTorch: of texts, or one that generates text."""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from jumok.config_io import to_dict
from jumok.decoding.config import DecodingConfig
from jumok.engine import EngineModel, find
from jumok.engine.generation import GenerationModel
from jumok.engine.model import EncoderModel
from jumok.native.threads import set_kernel_threads
from jumok.serving.engine import (
    Engine,
    EngineOptions,
    decoding_overrides,
    describe,
    model_hash,
    n_read,
)
from jumok.serving.jobs import JobHub
from jumok.tasks.pipeline.outputs import GeneratedText, Output
from jumok.tasks.runs.examples import examples
from jumok.text.tokenizer import Tokenizer

MAX_MODELS = 16  # with different decoding settings


class KernelEngine(Engine):
    """What the engines of both kinds of models have in common."""

    _model: EngineModel

    def __init__(
        self,
        model: EngineModel,
        hub: JobHub,
        decoding: DecodingConfig,
        tokenizers: Sequence[Tokenizer],
    ) -> None:
        run, self._model, self.jobs = model.run, model, hub
        names = run.task, run.paired, run.labels
        described = describe(*names, model=run.config, decoding=decoding, tokenizers=tokenizers)
        self.hash = model_hash([run.weights_sha256], described)
        self.vocabulary, self.paired = model.vocabulary, run.paired
        self.max_embedded = run.config.max_length
        model.detach()  # `cp` overwrites the mapped file of a run in place

    def corpus_examples(self) -> list[str]:
        """Texts that are not in the training data; none for a user's files."""
        return examples(self._model.run.corpus)

    def set_threads(self, threads: int) -> None:
        """Compute with so many threads, which the answers do not depend on."""
        set_kernel_threads(threads)

    def _info(self, **more: object) -> dict[str, Any]:
        """What the front process has to know, with what differs from a model of texts."""
        run = self._model.run
        return {
            "hash": self.hash,
            "task": run.task,
            "precision": self._model.kernel.precision,
            "labels": list(run.labels),
            "paired": run.paired,
            "optional_pairs": False,
            "imported": False,
            "chats": False,
            "max_length": run.config.max_length,
            "corpus": run.corpus,
            **more,
        }


class TextEngine(KernelEngine):
    """A classifier, a model of scores or of vectors."""

    _model: EncoderModel

    def __init__(self, model: EncoderModel, hub: JobHub) -> None:
        self.batched = {"predict", "embed"}  # the kernel computes each text independently
        super().__init__(model, hub, DecodingConfig(), [model.run.tokenizer])

    @property
    def info(self) -> dict[str, Any]:
        """The description of the model for the front process."""
        kind = self._model.run.kind
        return self._info(
            scores=kind.one_output,
            generates=False,
            translates=False,
            classifies=not kind.compares_vectors,
            embeds=True,
            vectors=kind.compares_vectors,
        )


class GenerationEngine(KernelEngine):
    """An encoder-decoder or a language model; the next tokens of all texts are one kernel call."""

    _model: GenerationModel

    def __init__(self, model: GenerationModel, hub: JobHub) -> None:
        run, self.batched = model.run, set()
        vocabularies = [run.tokenizer, run.target_tokenizer]
        super().__init__(model.with_search_step(hub.search_step), hub, run.decoding, vocabularies)
        # Of the model, not of this object: reference cycles are not collected in the server.
        self._with_decoding = lru_cache(MAX_MODELS)(partial(_changed, self._model))

    @property
    def info(self) -> dict[str, Any]:
        """The description of the model for the front process."""
        return self._info(
            scores=False,
            generates=True,
            translates=self._model.run.kind == "encoder_decoder",
            classifies=False,
            embeds=False,
            vectors=False,
            decoding=to_dict(self._model.decoding),
        )

    def output(self, text: str, decoding: str = "", *, sentences: bool = False) -> Output:
        """The output for this text; with `sentences` each of them is translated by itself."""
        return self._with_decoding(decoding).predict([text], sentences=sentences)[0]

    def stream(self, text: str, decoding: str, emit: Callable[[str], None]) -> Output:
        """The output for one text; each generated part is passed to `emit`."""
        return self._with_decoding(decoding).stream(text, emit)

    def count_prompt(self, text: str, output: GeneratedText) -> int:
        """The tokens of a text that its output is generated from, without special tokens."""
        n, model = super().count_prompt(text, output), self._model
        if model.run.kind == "encoder_decoder" or n < model.run.config.max_length:
            return n
        return n_read(n, len(model.prompt(text)) - n, model.run.config.max_length)

    def generation(self, answers: Sequence[str]) -> dict[str, float]:
        """The hypotheses and the mean number of tokens of these answers."""
        model = self._model
        return self.generation_of(answers, model.decoding, model.run.target_tokenizer)


def _changed(model: GenerationModel, decoding: str) -> GenerationModel:
    """The model with the settings of a request: the JSON text of an object, or ""."""
    return model.with_decoding(decoding_overrides(json.loads(decoding))) if decoding else model


def find_engine(folder: str, options: EngineOptions, hub: JobHub) -> Engine | None:
    """Load a model; None for one that a `PipelineEngine` loads, or refuses."""
    if options.traces or options.torch:
        return None
    model = find(folder, precision=options.precision, decoding=options.decoding)
    if isinstance(model, GenerationModel):
        return GenerationEngine(model, hub)
    return TextEngine(model, hub) if isinstance(model, EncoderModel) else None

"""A model of texts in the C++ kernel, without PyTorch."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from jumok.engine import find
from jumok.engine.model import EncoderModel
from jumok.native.threads import set_kernel_threads
from jumok.serving.engine import Engine, EngineOptions, Turn, model_hash
from jumok.tasks.pipeline.outputs import Output
from jumok.tasks.runs.examples import examples


class NoJobs:
    """The jobs of an engine that computes all texts in batches: each ends at once."""

    def __len__(self) -> int:
        return 0

    def start(self, key: int, function: Callable[[], None], /) -> None:
        """Run a job to its end."""
        function()

    def cancel(self, key: int, /) -> bool:
        """End a job; False, as each has ended already."""
        return False

    def step(self) -> None:
        """Compute one batch, which is none."""


class TextEngine(Engine):
    """A classifier, a model of scores or of vectors."""

    def __init__(self, model: EncoderModel) -> None:
        self._model, run = model, model.run
        self.hash = model_hash(
            [run.weights_sha256],
            [f"{run.task} {run.paired} {run.labels}", repr(run.config), run.tokenizer.identity],
        )
        self.batched = {"predict", "embed"}  # the kernel computes each text independently
        self.jobs = NoJobs()
        self.vocabulary, self.paired = model.vocabulary, run.paired
        self.max_embedded = run.config.max_length

    @classmethod
    def find(cls, folder: str, options: EngineOptions) -> "TextEngine | None":
        """Load a model; None for one that a `PipelineEngine` loads, or refuses."""
        if options.decoding or options.traces:
            return None
        model = find(folder, precision=options.precision, mapped=False)
        return cls(model) if isinstance(model, EncoderModel) else None

    @property
    def info(self) -> dict[str, Any]:
        """What the front process has to know about the model."""
        run = self._model.run
        return {
            "hash": self.hash,
            "task": run.task,
            "labels": list(run.labels),
            "paired": run.paired,
            "optional_pairs": False,
            "scores": run.kind.one_output,
            "imported": False,
            "generates": False,
            "chats": False,
            "translates": False,
            "classifies": not run.kind.compares_vectors,
            "embeds": True,
            "vectors": run.kind.compares_vectors,
            "max_length": run.config.max_length,
            "corpus": run.corpus,
        }

    def predictions(self, texts: Sequence[str]) -> Sequence[Output]:
        """The outputs of several texts."""
        return self._model.predict(texts)

    def embed_batch(
        self,
        texts: Sequence[str],
        normalize: bool = True,
        *,
        ids: bool = False,
        prompt_name: str = "",
    ) -> list[bytes]:
        """The embeddings of several texts; with `ids` each text is the JSON of its token ids."""
        if ids:
            vectors = self._model.encode_ids(list(map(json.loads, texts)), normalize=normalize)
        else:
            vectors = self._model.encode(list(texts), normalize=normalize, prompt_name=prompt_name)
        return [bytes(row) for row in vectors.astype("<f4")]

    def corpus_examples(self) -> list[str]:
        """Texts that are not in the training data; none for a user's files."""
        return examples(self._model.run.corpus)

    def set_threads(self, threads: int, turn: Turn = nullcontext) -> None:
        """Compute with so many threads, which the answers do not depend on."""
        set_kernel_threads(threads)

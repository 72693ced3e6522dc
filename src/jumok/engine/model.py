"""Outputs and vectors of a text model without torch, equal to those of `jumok.load`.

Shapes: n texts, D model width.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, Literal, cast, get_args, overload

import numpy as np

from jumok.config_io import check_choice
from jumok.decoding.config import DecodingConfig
from jumok.engine.run import EncoderRun, GeneratorRun, OpenedRun, open_run
from jumok.engine.token_vectors import TokenVectors
from jumok.errors import ConfigError, InputError, JumokError
from jumok.extras import is_installed
from jumok.models.config import SentencePooling
from jumok.models.finite_weights import check_finite_array
from jumok.native.kernel_choice import KernelChoice
from jumok.native.layout import encoder_dims
from jumok.native.measured import is_compiled_encoder, is_usable
from jumok.native.session import EncoderSession, HeadPooling
from jumok.tasks.inputs.special_tokens import check_ids, without_special_ids
from jumok.tasks.inputs.text_encoder import (
    TextEncoder,
    TextInputs,
    row_token_types,
    uses_token_types,
)
from jumok.tasks.pipeline.outputs import Output, OutputT
from jumok.tasks.pipeline.predictions import cosines
from jumok.tasks.pipeline.text_inputs import (
    Pair,
    as_lines,
    as_list,
    check_pooling,
    check_texts,
    chosen_normalization,
)
from jumok.tasks.pipeline.text_warnings import row_warnings, unread_tokens, warned
from jumok.text.prompts import find_prompt
from jumok.text.ragged import Ragged
from jumok.threads import limit_threads

EnginePrecision = Literal["float32", "int8"]
BATCH_TEXTS = 2_048  # of `encode`: their ids are not worth a file in the cache of tokens
_ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd")  # device "auto" is then that of PyTorch


class EngineModel(ABC, Generic[OutputT]):
    """A trained model in the C++ kernel; call `load` to open one.

    >>> model = load("ko-small-vectors")
    >>> model.encode(["비가 옵니다", "비가 와요"]).shape
    (2, 256)
    """

    generates = False

    def __init__(self, run: OpenedRun, kernel: KernelChoice) -> None:
        self.run = run
        self.task, self.vocabulary, self.kernel = run.task, run.tokenizer, kernel

    @overload
    def __call__(self, texts: str) -> OutputT: ...  # type: ignore[overload-overlap]  # a str is one
    @overload
    def __call__(self, texts: Sequence[str | Pair]) -> list[OutputT]: ...
    def __call__(self, texts: str | Sequence[str | Pair]) -> OutputT | list[OutputT]:
        """The output of one text, or one output per text; raises as `predict`."""
        outputs = self.predict(texts)
        return outputs[0] if isinstance(texts, str) else outputs

    @abstractmethod
    def predict(self, texts: Sequence[str | Pair]) -> list[OutputT]:
        """One output per text, in order.

        A model of pairs reads a tuple of two texts, or a line with a TAB between them. Raises
        InputError for what is not a text, or too long, and NonFiniteError for a damaged model.
        """

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        pooling: SentencePooling | None = None,
        normalize: bool | None = None,
        prompt_name: str | None = None,
        normalize_embeddings: bool | None = None,
    ) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """One vector per text, (n, D) float32, or (D,) for a single text.

        They are those of `jumok.tasks.pipeline.pipeline.Pipeline.encode`, divided by their lengths
        unless `normalize` (in sentence-transformers `normalize_embeddings`) is False. Raises
        InputError for what is not a text, or too long, for an unknown pooling, for a prompt, which
        runs do not have, and for a model that is not an encoder.
        """
        raise self._no_vectors()

    def encode_ids(
        self, rows: Sequence[Sequence[int]], *, normalize: bool | None = None
    ) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """`encode` of texts whose token ids are given, (n, D) float32.

        The ids are those of this model's tokenizer, with or without its special tokens. Raises
        InputError for ids that the tokenizer lacks, and for a model that is not an encoder.
        """
        raise self._no_vectors()

    def detach(self) -> None:
        """Forget the file of the weights, which may be overwritten then.

        What is read from it is copied. A model that generates text keeps its precision from then.
        """
        self.run.arrays.clear()
        self.run.release_pages()

    def _no_vectors(self) -> InputError:
        return InputError(
            "engine.no_vectors",
            "vectors need an encoder, got a model for {task}; use one for similarity or "
            "classification",
            task=self.task,
        )

    @cached_property
    def vector_key(self) -> str:
        """A checksum of everything that decides which vector a text gets."""
        run = self.run
        parts = (run.weights_sha256, self.vocabulary.identity, repr(run.config))
        return sha256(repr((*parts, self.task, self.kernel.precision)).encode()).hexdigest()


class EncoderModel(EngineModel[OutputT]):
    """An encoder with one output or vector per text, or pair of texts."""

    run: EncoderRun

    def __init__(self, run: EncoderRun, precision: EnginePrecision = "float32") -> None:
        alone = not run.config.n_layers  # token vectors without layers
        numpy = KernelChoice("numpy", "float32", "the encoder has no layers")
        super().__init__(run, numpy if alone else KernelChoice.of_engine(precision))
        self.labels = run.labels
        self._session = (
            TokenVectors(run.config, run.arrays, run.head) if alone else _session(run, precision)
        )
        self._encode_texts = TextEncoder(run.tokenizer, run.config.max_length)

    def predict(self, texts: Sequence[str | Pair]) -> list[OutputT]:
        """One output per text, in order; raises as `EngineModel.predict`."""
        lines = as_lines(texts, paired=self.run.paired)
        check_texts(lines, self.vocabulary.max_text_bytes)
        return self._with_warnings(cast(Sequence[OutputT], self._outputs(lines)))

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        pooling: SentencePooling | None = None,
        normalize: bool | None = None,
        prompt_name: str | None = None,
        normalize_embeddings: bool | None = None,
    ) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """One vector per text, (n, D) or (D,); raises as `EngineModel.encode`."""
        find_prompt({}, prompt_name or "")
        kind = self._own_pooling if pooling is None else check_pooling(pooling)
        listed = as_list(texts)
        check_texts(listed, self.vocabulary.max_text_bytes)
        parts = [listed[i : i + BATCH_TEXTS] for i in range(0, max(len(listed), 1), BATCH_TEXTS)]
        rows = map(self._encode_texts, parts)
        normalized = chosen_normalization(normalize, normalize_embeddings) is not False
        found: np.ndarray[Any, np.dtype[np.float32]] = np.concatenate(
            [self._session.vectors(part, kind, normalize=normalized) for part in rows]
        )
        return found[0] if isinstance(texts, str) else found

    def encode_ids(
        self, rows: Sequence[Sequence[int]], *, normalize: bool | None = None
    ) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """`encode` of ids, (n, D); raises as `EngineModel.encode_ids`."""
        for row in rows:
            check_ids(row, self.vocabulary)
        plain = Ragged.from_lists([without_special_ids(row, self.vocabulary) for row in rows])
        ids = self._encode_texts.add_special_tokens(plain)
        return self._session.vectors(ids, self._own_pooling, normalize=normalize in (None, True))

    @property
    def _own_pooling(self) -> HeadPooling:
        return self.run.config.pooling if self.run.kind.compares_vectors else "mean"

    def detach(self) -> None:
        """Forget the file of the weights; the token vectors are copied."""
        self._session.detach()
        super().detach()

    def _outputs(self, texts: Sequence[str]) -> Sequence[Output]:
        run = self.run
        if run.kind.compares_vectors:
            return run.kind.outputs(run, texts, self._similarities(texts))
        rows = self._encode_texts.encode_lines(texts, paired=run.reads_pairs)
        return run.kind.outputs(run, texts, self._session.outputs(rows, self._token_types(rows)))

    def _similarities(self, lines: Sequence[str]) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """The cosines of the texts of each line, (n,)."""
        inputs = TextInputs.from_lines(lines, paired=True)
        assert inputs.pairs is not None
        u, v = (self._session.outputs(self._encode_texts(x)) for x in (inputs.texts, inputs.pairs))
        return cosines(u, v)

    def _token_types(self, rows: Ragged) -> "np.ndarray[Any, np.dtype[np.int32]] | None":
        config = self.run.config
        if not uses_token_types(self.vocabulary, config.n_segments, config.pooling):
            return None
        return row_token_types(rows, self.vocabulary.sep_id)

    def _with_warnings(self, outputs: Sequence[OutputT]) -> list[OutputT]:
        run, tokenizer = self.run, self.vocabulary
        rows = [each.text.split("\t") if run.paired else [each.text] for each in outputs]
        unread = unread_tokens(rows, tokenizer, run.config.max_length, run.task)
        return warned(outputs, row_warnings(rows, tokenizer, unread))


def _session(run: EncoderRun, precision: EnginePrecision) -> EncoderSession:
    session = EncoderSession(encoder_dims(run.config), precision)
    with check_weights(run):
        session.add_head(run.head, run.arrays)
        session.add_encoder(run.config, run.arrays, run.release_pages)
    return session


@contextmanager
def check_weights(run: OpenedRun) -> Iterator[None]:
    """Name the weight of the file that is not finite, not that of the kernel."""
    try:
        yield
    except ConfigError:
        for name, array in run.arrays.items():
            check_finite_array(name, array, "the weights")
        raise


def load(
    folder: str | Path,
    precision: EnginePrecision | None = "float32",
    *,
    decoding: Sequence[str] = (),
) -> EngineModel:
    """Open a finished run, or a model that ships with jumok; "int8" is that of its layers.

    With None it is "int8" where its loss was measured to be small, as in the commands. A model that
    generates text decodes as its recipe specifies, with "float32" in the precision of the recipe;
    `decoding` are `key=value` overrides. Raises UnsupportedError (an InputError) for what the
    engine does not compute, such as constraints, and KernelError where there is no kernel; use
    `jumok.load` then. Raises InputError for another precision, an unknown key, and for the folders
    that `jumok.load` refuses. The file of the weights must not be overwritten in place while the
    model is used, unless it is detached.

    >>> load("ko-small-vectors").task
    'similarity'
    """
    check_choice("precision", precision, EnginePrecision | None)
    limit_threads()
    run = open_run(folder)
    if isinstance(run, EncoderRun):
        if decoding:
            raise InputError(
                "engine.decoding_of_encoder",
                "decoding settings need a task that generates text, got {task}; leave them out",
                task=run.task,
            )
        return EncoderModel(run, precision or run.precision)
    if precision == "int8":
        decoding = ["precision=int8", *decoding]
    return _generation_model(run, run.decoding.overridden(decoding))


def find(
    folder: str | Path,
    device: str = "auto",
    precision: str | None = None,
    decoding: Sequence[str] | None = None,
) -> EngineModel | None:
    """The same; None for what is left to `jumok.load`: models, devices, files with a fault.

    A kernel that is not compiled, or not known to be faster than PyTorch, is not used. `precision`
    is that of the encoder, an option of the commands, by default as measured; `decoding` are
    overrides of the settings of a model that generates text, None where it must not. Where PyTorch
    is not installed nothing is left to `jumok.load`: raises what `load` raises, and
    MissingDependencyError for what needs PyTorch.
    """
    if not is_installed("torch"):
        from jumok.engine import without_torch

        return without_torch.find(folder, device, precision, decoding)
    on_cpu = device == "cpu" or (device == "auto" and not has_accelerator())
    if not on_cpu or precision not in (None, *get_args(EnginePrecision)):
        return None
    try:
        limit_threads()
        run = open_run(folder)
        if isinstance(run, EncoderRun):
            known: Any = precision or run.precision
            usable = not decoding and (not run.config.n_layers or is_compiled_encoder(known))
            return EncoderModel(run, known) if usable else None
        if decoding is None or precision is not None:
            return None
        settings = run.decoding.overridden(decoding)
        usable = is_usable(settings.precision, requested=settings.kernel == "native")
        return _generation_model(run, settings) if usable else None
    except (JumokError, OSError):  # jumok.load raises it, or opens the model
        return None


def _generation_model(run: GeneratorRun, decoding: DecodingConfig) -> EngineModel:
    from jumok.engine.generation import GenerationModel  # a classifier needs none of it

    return GenerationModel(run, decoding)


def has_accelerator() -> bool:
    """Whether PyTorch may find a device that "auto" prefers to the CPU."""
    return sys.platform == "darwin" or any(Path(name).exists() for name in _ACCELERATORS)

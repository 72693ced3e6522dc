"""A model in a computing process: the answers to texts, and what the front process has to know.

A `TextEngine` computes without PyTorch what `jumok.engine` computes, a `PipelineEngine` the rest.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jumok.extras import naming_extras
from jumok.serving.frames import BATCH_WORK
from jumok.tasks.pipeline.outputs import Output, to_json
from jumok.text.tokenizer import Tokenizer

HASH_CHARS = 12
FALLBACK_EXAMPLES = ("이 영화 정말 재미있어요 ㅋㅋ", "시간이 아깝다", "안녕하세요")

Turn = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class EngineOptions:
    """What `jumok serve` sets for a model, as the same options of `jumok predict`."""

    precision: str | None = None
    decoding: tuple[str, ...] = ()
    traces: bool = False  # an option of the server only


class Jobs(Protocol):
    """What runs requests that are not computed in batches; see `jumok.serving.merging`."""

    def __len__(self) -> int: ...

    def start(self, key: int, function: Callable[[], None], /) -> None:
        """Run a job, perhaps up to its first kernel call."""

    def cancel(self, key: int, /) -> bool:
        """End a job; False if it has ended already."""

    def step(self) -> None:
        """Compute one batch."""


class Engine(ABC):
    """A loaded model and the answers to single texts, and to those of one batch."""

    hash: str  # of the weights, and of all else that answers depend on
    batched: set[str]  # the kinds of requests whose answers do not depend on the batch
    jobs: Jobs
    vocabulary: Tokenizer
    paired: bool  # whether a row holds two texts
    max_embedded: int  # the tokens of a text that its embedding is computed from, with special ones

    @property
    @abstractmethod
    def info(self) -> dict[str, Any]:
        """What the front process has to know about the model."""

    @abstractmethod
    def predictions(self, texts: Sequence[str]) -> Sequence[Output]:
        """The outputs of several texts."""

    @abstractmethod
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

    @abstractmethod
    def corpus_examples(self) -> list[str]:
        """Texts that are not in the training data; none for a user's files."""

    @abstractmethod
    def set_threads(self, threads: int, turn: Turn = nullcontext) -> None:
        """Compute with so many threads."""

    def output(self, text: str, decoding: str = "", *, sentences: bool = False) -> Output:
        """The output for a text; `decoding` and `sentences` are those of models that generate."""
        assert not decoding, "the front process refuses it"
        return self.predictions([text])[0]

    def stream(self, text: str, decoding: str, emit: Callable[[str], None]) -> Output:
        """The output for one text; each generated part is passed to `emit`."""
        raise NotImplementedError  # the front process sends this to models that generate

    def complete(
        self, message: Mapping[str, Any], payload: str, emit: Callable[[str], None]
    ) -> tuple[dict[str, Any], bytes]:
        """The completion of token ids or a chat, or one with log-probabilities, by its message."""
        raise NotImplementedError

    def trace(self, text: str) -> bytes:
        """The page of `jumok view` with the trace of a text."""
        raise NotImplementedError

    def predict(self, text: str, decoding: str = "") -> str:
        """The line of `jumok predict --json` for this text."""
        return to_json(self.output(text, decoding))

    def predict_batch(self, texts: Sequence[str]) -> list[str]:
        """The lines of `jumok predict --json`; those of each text alone if `batched`."""
        return [to_json(output) for output in self.predictions(texts)]

    def embed(
        self, text: str, normalize: bool = True, *, ids: bool = False, prompt_name: str = ""
    ) -> bytes:
        """The embedding of a text as float32 in little-endian order."""
        (found,) = self.embed_batch([text], normalize, ids=ids, prompt_name=prompt_name)
        return found

    def tokenize_in(self, context: Turn) -> None:
        """Tokenize long texts in a context: without the turn, so that other processes compute."""
        tokenizer = self.vocabulary
        for name in ("encode", "encode_batch", "encode_with_offsets"):
            vars(tokenizer)[name] = _tokenizes_in(context, getattr(tokenizer, name))  # frozen
        encode_batch = tokenizer.encode_batch

        def counted(texts: Sequence[str]) -> list[list[int]]:
            found = encode_batch(texts)
            if len(found) <= BATCH_WORK:
                self._lengths = dict(zip(texts, map(len, found), strict=True))
            return found

        vars(tokenizer)["encode_batch"] = counted

    _lengths: Mapping[str, int] = {}

    def count_tokens(self, text: str, *, ids: bool = False) -> int:
        """The number of tokens of a text without special tokens, or of ids as JSON."""
        if ids:
            return len(json.loads(text))
        known = self._lengths.get(text)
        return len(self.vocabulary.encode(text)) if known is None else known

    def count_embedded(self, text: str, *, ids: bool = False) -> int:
        """The tokens of a text that its embedding is computed from, without special tokens."""
        n_special = self.vocabulary.input_template.n_special()
        return min(self.count_tokens(text, ids=ids), self.max_embedded - n_special)

    def generation(self, answers: Sequence[str]) -> dict[str, float] | None:
        """The hypotheses and the mean number of tokens of these answers, if the model generates."""
        return None

    def examples(self) -> list[str]:
        """Texts to warm up with and to compare a new version of the model on."""
        found = self.corpus_examples() or list(FALLBACK_EXAMPLES)
        if self.paired:
            found = [text if "\t" in text else f"{text}\t{text}" for text in found]
        return found

    def example_answers(self, turn: Turn = nullcontext) -> list[str]:
        """The answers for the examples, each computed in a turn of its own."""
        answers = []
        for text in self.examples():
            with turn():
                answers.append(self.example_answer(text))
        return answers

    def example_answer(self, text: str) -> str:
        """The answer for an example."""
        return self.predict(text)


def open_engine(folder: str, options: EngineOptions) -> Engine:
    """Load a model; PyTorch is imported only for one that needs it.

    Raises what `jumok.load` raises, and InputError for options that do not fit the model.
    """
    from jumok.serving.text_engine import TextEngine

    engine = TextEngine.find(folder, options)
    if engine is not None:
        return engine
    with naming_extras("jumok serve"):
        from jumok.serving.pipeline_engine import PipelineEngine

    return PipelineEngine.open(folder, options)


def model_hash(weights: Iterable[str], description: Iterable[str]) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of checksums of weights and a description."""
    total = hashlib.sha256()
    for checksum in weights:
        total.update(bytes.fromhex(checksum))
    for text in description:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()[:HASH_CHARS]


def file_checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def _tokenizes_in(context: Turn, encode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The method of a tokenizer, called in a context where its text or texts are long."""

    def call(given: str | Sequence[str]) -> Any:
        chars = len(given) if isinstance(given, str) else sum(map(len, given))
        with context() if chars > BATCH_WORK else nullcontext():
            return encode(given)

    return call

"""A model in a computing process: the answers to texts, and what the front process has to know.

The engines of `jumok.serving.text_engine` compute without PyTorch what `jumok.engine` computes, a
`PipelineEngine` the rest.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumok.decoding.config import DecodingConfig
from jumok.errors import InputError
from jumok.extras import naming_extras
from jumok.serving.frames import BATCH_WORK
from jumok.serving.jobs import JobHub
from jumok.tasks.pipeline.outputs import GeneratedText, Output, to_json
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from jumok.engine import EngineModel
    from jumok.tasks.pipeline.pipeline import Pipeline

HASH_CHARS = 12
FALLBACK_EXAMPLES = ("이 영화 정말 재미있어요 ㅋㅋ", "시간이 아깝다", "안녕하세요")


@dataclass(frozen=True)
class EngineOptions:
    """What `jumok serve` sets for a model, as the same options of `jumok predict`."""

    precision: str | None = None
    decoding: tuple[str, ...] = ()
    traces: bool = False  # an option of the server only
    torch: bool = False  # compute with PyTorch whatever the model is


class Engine(ABC):
    """A loaded model and the answers to single texts, and to those of one batch."""

    _model: "EngineModel | Pipeline"
    hash: str  # of the weights, and of all else that answers depend on
    batched: set[str]  # the kinds of requests whose answers do not depend on the batch
    jobs: JobHub  # what runs requests that are not computed in batches
    vocabulary: Tokenizer
    paired: bool  # whether a row holds two texts
    max_embedded: int  # the tokens of a text that its embedding is computed from, with special ones

    @property
    @abstractmethod
    def info(self) -> dict[str, Any]:
        """The description of the model for the front process."""

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
        """The embeddings of several texts; those of each text alone if `batched`.

        With `ids` each text is the JSON of its token ids, which the default prompt precedes.
        """
        if ids:
            vectors = self._model.encode_ids(list(map(json.loads, texts)), normalize=normalize)
        else:
            vectors = self._model.encode(list(texts), normalize=normalize, prompt_name=prompt_name)
        return [bytes(row) for row in vectors.astype("<f4")]

    @abstractmethod
    def corpus_examples(self) -> list[str]:
        """Texts that are not in the training data; none for a user's files."""

    @abstractmethod
    def set_threads(self, threads: int) -> None:
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
        """The completion of token ids or a chat, or one with log-probabilities, by its message.

        Raises InputError for a model that is not a language model.
        """
        raise no_completions(str(self.info["task"]))

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

    @contextmanager
    def counting_tokens(self) -> Iterator[None]:
        """Keep the numbers of tokens of each batch, so that no text is tokenized twice."""
        tokenizer = self.vocabulary
        encode_batch = tokenizer.encode_batch

        def counted(texts: Sequence[str]) -> list[list[int]]:
            found = encode_batch(texts)
            if len(found) <= BATCH_WORK:
                self._lengths = dict(zip(texts, map(len, found), strict=True))
            return found

        vars(tokenizer)["encode_batch"] = counted  # frozen
        try:
            yield
        finally:
            del vars(tokenizer)["encode_batch"]

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

    def count_prompt(self, text: str, output: GeneratedText) -> int:
        """The tokens of a text that its output is generated from, without special tokens."""
        return self.count_tokens(text) - sum(each.n_unread for each in output.warnings)

    def generation(self, answers: Sequence[str]) -> dict[str, float] | None:
        """The hypotheses and the mean number of tokens of these answers, if the model generates."""
        return None

    def generation_of(
        self, answers: Sequence[str], decoding: DecodingConfig, tokenizer: Tokenizer
    ) -> dict[str, float]:
        """The same for the settings and the tokenizer of the outputs, counted on their texts."""
        outputs = [json.loads(line).get("output", "") for line in answers]
        tokens = sum(len(tokenizer.encode(output)) for output in outputs)
        return {"beam": decoding.beam, "tokens": tokens / max(len(answers), 1)}

    def examples(self) -> list[str]:
        """Texts to warm up with and to compare a new version of the model on."""
        found = self.corpus_examples() or list(FALLBACK_EXAMPLES)
        if self.paired:
            found = [text if "\t" in text else f"{text}\t{text}" for text in found]
        return found

    def example_answers(self) -> list[str]:
        """The answers for the examples."""
        return list(map(self.example_answer, self.examples()))

    def example_answer(self, text: str) -> str:
        """The answer for an example."""
        return self.predict(text)


def open_engine(folder: str, options: EngineOptions) -> Engine:
    """Load a model; PyTorch is imported only for one that needs it.

    Raises what `jumok.load` raises, and InputError for options that do not fit the model.
    """
    from jumok.serving.text_engine import find_engine

    engine = find_engine(folder, options, JobHub())
    if engine is not None:
        return engine
    with naming_extras("jumok serve"):
        from jumok.serving.pipeline_engine import PipelineEngine

    return PipelineEngine.open(folder, options)


def n_read(n: int, n_special: int, window: int) -> int:
    """The tokens of a prompt of n and some special ones that a language model begins with.

    Its window slides at once where they are too many: the newest half of it is read.

    >>> n_read(7, 1, window=8), n_read(8, 1, window=8)
    (7, 4)
    """
    return n if n + n_special <= window else max(window // 2, 1)


def no_completions(task: str) -> InputError:
    """The error of a model that does not continue token ids."""
    return InputError(
        "server.completion_needs_language_model",
        "token ids, logprobs and max_tokens = 0 need a language model, got task {task}; "
        "leave them out",
        task=task,
    )


def decoding_overrides(settings: Mapping[str, Any]) -> list[str]:
    r"""The settings of a request as overrides of [decoding].

    >>> decoding_overrides({"beam": 4, "stop": ["\n"], "sample": False})
    ['beam=4', 'stop=["\\n"]', 'sample=false']
    """
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]


def describe(
    *names: object,
    model: ModelConfig,
    decoding: DecodingConfig,
    tokenizers: Iterable[Tokenizer],
    rules: str = "",
) -> list[str]:
    """What answers depend on besides the weights: names such as labels, settings, vocabularies."""
    identities = [each.identity for each in tokenizers]
    return [" ".join(map(str, names)), f"{model} {decoding}", rules, *identities]


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

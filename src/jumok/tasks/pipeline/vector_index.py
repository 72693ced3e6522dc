"""Exact search by cosine: the vectors of all lines of a file in one memory-mapped matrix.

Shapes: n lines, D model width, k results.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jumok.atomic_io import write_atomically
from jumok.data.arrow_cache import cache_folder
from jumok.data.files.lines import read_lines
from jumok.data.matrix_cache import cached_matrix
from jumok.errors import InputError, Message
from jumok.text_files import Fault, advice_on, decode_line

if TYPE_CHECKING:  # the index of an `EngineModel` is built without torch
    from jumok.tasks.pipeline.pipeline import Pipeline

Vectors = NDArray[np.float32]
Progress = Callable[[int, int], None]

TIE_DECIMALS = 6  # of cosines that are considered as equal
BATCH_LINES = 2_048  # encoded between two writes: what an interruption loses at most


@dataclass(frozen=True)
class Match:
    """A line of the corpus and its score: the cosine with the query, -1 to 1, or another."""

    line: int  # from 1
    score: float
    text: str


@dataclass(frozen=True)
class VectorIndex:
    """The normalized vectors (n, D) float32 of the lines of a file.

    The matrix is kept in the user's cache under a checksum of the model and of the file. An
    interrupted `build` continues where it stopped, and a second process waits for the first.
    """

    texts: Sequence[str]
    vectors: Vectors

    @classmethod
    def build(
        cls,
        pipeline: "Pipeline",
        path: Path,
        progress: Progress | None = None,
        *,
        encoder: "Pipeline | None" = None,
    ) -> "VectorIndex":
        """The index of a text file with one text per line, read from the cache where it is there.

        `progress` receives the lines that are encoded and all lines. `encoder` is a copy of the
        pipeline with an optimized encoder, which then computes the vectors. Raises InputError for a
        file without lines, or with a line that is not text.
        """
        texts = _read_texts(path)
        prompt = _prompt(pipeline, "passage", "document")
        vectors = cached_vectors(pipeline, encoder or pipeline, texts, prompt, progress)
        return cls(texts, vectors)

    @classmethod
    def build_with(
        cls,
        encode: Callable[[Sequence[str]], Vectors],
        key: str,
        path: Path,
        progress: Progress | None = None,
    ) -> "VectorIndex":
        """The same of vectors that `encode` computes; `key` is a checksum of what decides them."""
        texts = _read_texts(path)
        return cls(texts, _cached(_checksum(key, texts), texts, encode, progress))

    def search(self, query: Vectors, k: int = 10) -> list[Match]:
        """The k lines whose vectors have the largest cosine with `query`, (D,), best first.

        Lines of equal cosine (to 6 decimals) come in the order of the file, and blank ones never.

        >>> index = VectorIndex(["동", "서"], np.array([[1, 0], [-1, 0]], np.float32))
        >>> index.search(np.array([0.6, 0.8], np.float32), k=1)
        [Match(line=1, score=0.6, text='동')]
        """
        return best_matches(self.texts, self.scores(query), k)

    def scores(self, query: Vectors) -> Vectors:
        """The cosine of each line with a query, (n,); equal to 6 decimals for equal lines.

        A product of many rows differs in its last bits.
        """
        found: Vectors = np.round(self.vectors @ query, TIE_DECIMALS)
        return found


def best_matches(texts: Sequence[str], scores: "NDArray[np.floating[Any]]", k: int) -> list[Match]:
    """The k lines with the highest scores, (n,), in file order where they are equal.

    Blank lines, and those whose score is -inf, are never among them.
    """
    keys = -scores
    keys[[i for i, text in enumerate(texts) if not text.strip()]] = np.inf
    k = min(k, int(np.isfinite(keys).sum()))
    if k == 0:
        return []
    near = np.flatnonzero(keys <= np.partition(keys, k - 1)[k - 1])  # with all ties
    best = near[np.argsort(keys[near], kind="stable")][:k]
    return [Match(int(i) + 1, round(float(scores[i]), 4), texts[i]) for i in best]


def cached_vectors(
    pipeline: "Pipeline",
    encoder: "Pipeline",
    texts: Sequence[str],
    prompt: str,
    progress: Progress | None = None,
) -> Vectors:
    """The normalized vectors (n, D) float32 of texts, mapped from a file in the user's cache.

    `encoder` computes them: `pipeline`, or its copy with an optimized encoder. An interrupted
    computation continues where it stopped.
    """
    from jumok.tasks.pipeline.encoder_choice import encoder_choice
    from jumok.tasks.pipeline.vector_key import vector_key

    precision = None if encoder is pipeline else encoder_choice(encoder.model).precision
    name = _checksum(vector_key(pipeline, prompt, precision), texts)
    return _cached(
        name,
        texts,
        lambda part: encoder.encode(part, normalize=True, prompt_name=prompt),
        progress,
    )


def _cached(
    name: str,
    texts: Sequence[str],
    encode: Callable[[Sequence[str]], Vectors],
    progress: Progress | None,
) -> Vectors:
    width = encode(texts[:1]).shape[1]

    def next_vectors(start: int) -> Vectors:
        return encode(texts[start : start + BATCH_LINES])

    return cached_matrix(cache_folder("vectors"), name, (len(texts), width), next_vectors, progress)


def _checksum(key: str, texts: Sequence[str]) -> str:
    digest = hashlib.sha256(key.encode())
    for text in texts:
        content = text.encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def encode_query(pipeline: "Pipeline", text: str) -> Vectors:
    """The normalized vector (D,) of a text to look for, with the model's prompt for queries."""
    return pipeline.encode(text, normalize=True, prompt_name=query_prompt(pipeline))


def query_prompt(pipeline: "Pipeline") -> str:
    """The name of the model's prompt for queries, "" without one."""
    return _prompt(pipeline, "query")


def save_vectors(vectors: Vectors, path: Path) -> None:
    """Write vectors (n, D) as a .npy file, atomically."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, vectors, allow_pickle=False)
    write_atomically(path, stream.getvalue())


def _prompt(pipeline: "Pipeline", *names: str) -> str:
    """The first of these names that the model has a prompt of; "" without one."""
    encoding = pipeline.sentence_encoding
    known = {} if encoding is None else encoding.prompts
    return next((name for name in names if name in known), "")


def _read_texts(path: Path) -> list[str]:
    """The lines of a file. Raises InputError if there is none, or one that is not text."""
    texts = [_text(path, line.number, line.content, line.fault) for line in read_lines(path)]
    if not texts:
        raise InputError(
            "pipeline.no_lines", "{path} must have at least one line, got none", path=path
        )
    return texts


def _text(path: Path, number: int, content: bytes, fault: Fault) -> str:
    text, wrong = decode_line(content)
    if fault or wrong:
        raise InputError(
            "pipeline.bad_line",
            "{path}:{number}: {fault}; {advice}",
            path=path,
            number=number,
            fault=fault or wrong,
            advice=advice_on(wrong, Message("file.correct_line", "correct the line")),
        )
    return text

"""A cache of token ids, keyed by the texts and the tokenizer and memory-mapped.

A file has the ids of all rows (int32), zeros up to a multiple of 8 bytes, the offsets of the rows
(int64) and their number. It is written while the texts are encoded: in memory are one batch, and 4
bytes for each text.
"""

import hashlib
import json
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from jumok.data.arrow_cache import cache_folder, mapped_file, write_file
from jumok.data.checked_file import HashingFile
from jumok.language import translate
from jumok.terminal import counted
from jumok.text.ragged import Ragged

MIN_CACHED_TEXTS = 4_096  # fewer texts are encoded faster than the cache is read

_VERSION = 2  # to be increased when the format of the cache changes
_BATCH = 8_192  # texts encoded at a time, unless they are long
_BATCH_CHARS = 2**21  # after which a batch of long texts ends: a list takes 36 bytes for each id
_OFFSETS = 2**20  # that are computed at a time


class Encoder(Protocol):
    """The part of a tokenizer that is used here."""

    @property
    def identity(self) -> str:
        """A checksum of everything that decides which ids a text gets."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""


def encode_cached(
    texts: Sequence[str],
    tokenizer: Encoder,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
) -> Ragged:
    """The ids of each text, from the cache if the same texts have been encoded before.

    Each row is `before`, the ids of its text, and `after`: [BOS] and [EOS] of a document. The key
    is a checksum of all texts, of the tokenizer and of these. Cached ids are read-only. If the
    cache cannot be written, the ids stay in memory.
    """
    if len(texts) < MIN_CACHED_TEXTS:
        return Ragged.from_lists(_rows(list(texts), tokenizer, before, after))
    path = cache_folder("tokens") / f"{_key(texts, tokenizer, before, after)}.ids"
    cached = _read(path)
    if cached is not None:
        return cached

    def encoded() -> Iterator[list[list[int]]]:
        shown = translate("tokenized {n:,} of {total:,} texts")
        for batch in counted(_batches(texts), shown, len(texts), len):
            yield _rows(batch, tokenizer, before, after)

    if write_file(path, lambda file: _write(file, encoded())) and (cached := _read(path)):
        return cached
    return _in_memory(encoded())


def _rows(
    texts: list[str], tokenizer: Encoder, before: Sequence[int], after: Sequence[int]
) -> list[list[int]]:
    rows = tokenizer.encode_batch(texts)
    return [[*before, *row, *after] for row in rows] if before or after else rows


def _write(file: HashingFile, batches: Iterator[list[list[int]]]) -> None:
    lengths = array("i")
    for rows in batches:
        lengths.extend(map(len, rows))
        file.write(np.fromiter(chain.from_iterable(rows), np.int32).tobytes())
    file.write(bytes(-file.tell() % 8))
    file.write(bytes(8))  # the first offset
    end = 0
    for start in range(0, len(lengths), _OFFSETS):
        offsets = end + np.cumsum(lengths[start : start + _OFFSETS], dtype=np.int64)
        file.write(offsets.tobytes())
        end = int(offsets[-1])
    file.write(np.int64(len(lengths)).tobytes())


def _read(path: Path) -> Ragged | None:
    found = mapped_file(path)
    if found is None:
        return None
    mapping, size = found
    (n,) = np.frombuffer(mapping, np.int64, 1, size - 8).tolist()
    offsets = np.frombuffer(mapping, np.int64, n + 1, size - 8 * (n + 2))
    return Ragged(np.frombuffer(mapping, np.int32, int(offsets[-1])), offsets)


def _in_memory(batches: Iterator[list[list[int]]]) -> Ragged:
    """The ids of all texts, in arrays that grow: no list is longer than a batch."""
    ids, lengths = array("i"), array("q")
    for rows in batches:
        lengths.extend(map(len, rows))
        for row in rows:
            ids.fromlist(row)
    return Ragged.from_lengths(np.asarray(ids), np.asarray(lengths))


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    chars = 0
    for text in texts:
        batch.append(text)
        chars += len(text)
        if len(batch) == _BATCH or chars >= _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _key(
    texts: Sequence[str], tokenizer: Encoder, before: Sequence[int], after: Sequence[int]
) -> str:
    parts = [_VERSION, tokenizer.identity, list(before), list(after)]
    digest = hashlib.sha256(json.dumps(parts).encode())
    for text in texts:
        content = text.encode(errors="surrogatepass")  # a lone surrogate: the tokenizer rejects it
        digest.update(len(content).to_bytes(8, "little"))  # marks the end of the text
        digest.update(content)
    return digest.hexdigest()

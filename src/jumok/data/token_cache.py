"""Texts into ids once: the ids are kept under a key made of the content, and mapped afterwards."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from jumok.data.arrow_cache import cache_folder, cached_table, write_table
from jumok.text.ragged import Ragged

MIN_CACHED_TEXTS = 4_096  # texts; fewer are encoded again in less time than it takes to look

_VERSION = 1  # to be raised when the same texts would be kept differently
_BATCH = 8_192  # texts encoded at a time
_SCHEMA = pa.schema([("ids", pa.large_list(pa.int32()))])


class Encoder(Protocol):
    """What is asked of a vocabulary here."""

    @property
    def identity(self) -> str:
        """A checksum of everything that decides which ids a text gets."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""


def encode_cached(texts: Sequence[str], vocabulary: Encoder) -> Ragged:
    """The ids of each text, from the cache when the same texts were encoded before.

    The key is a checksum of all texts and of the vocabulary. Mapped ids are read-only. Without a
    cache that can be written, the ids stay in memory.
    """
    if len(texts) < MIN_CACHED_TEXTS:
        return Ragged.from_lists(vocabulary.encode_batch(list(texts)))
    path = cache_folder("tokens") / f"{_key(texts, vocabulary)}.arrow"
    kept = _mapped(path)
    if kept is not None:
        return kept
    encoded = _encoded(texts, vocabulary)
    ids = pa.LargeListArray.from_arrays(pa.array(encoded.offsets), pa.array(encoded.ids))
    write_table(path, _SCHEMA, [pa.RecordBatch.from_arrays([ids], schema=_SCHEMA)])
    return _mapped(path) or encoded


def _mapped(path: Path) -> Ragged | None:
    kept = cached_table(path)
    if kept is None:
        return None
    rows = kept[0].column("ids").chunk(0)
    return Ragged(rows.values.to_numpy(), rows.offsets.to_numpy())


def _encoded(texts: Sequence[str], vocabulary: Encoder) -> Ragged:
    parts = [
        Ragged.from_lists(vocabulary.encode_batch(list(texts[start : start + _BATCH])))
        for start in range(0, len(texts), _BATCH)
    ]
    lengths = np.concatenate([part.lengths for part in parts])
    return Ragged.from_lengths(np.concatenate([part.ids for part in parts]), lengths)


def _key(texts: Sequence[str], vocabulary: Encoder) -> str:
    digest = hashlib.sha256(f"{_VERSION} {vocabulary.identity}".encode())
    for text in texts:
        content = text.encode(errors="surrogatepass")  # half a character: the vocabulary says so
        digest.update(len(content).to_bytes(8, "little"))  # where one text ends
        digest.update(content)
    return digest.hexdigest()

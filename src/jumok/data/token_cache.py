"""A cache of token ids, keyed by the texts and the tokenizer and memory-mapped."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from jumok.data.arrow_cache import cache_folder, cached_table, write_table
from jumok.text.ragged import Ragged

MIN_CACHED_TEXTS = 4_096  # fewer texts are encoded faster than the cache is read

_VERSION = 1  # to be increased when the format of the cache changes
_BATCH = 8_192  # texts encoded at a time


class Encoder(Protocol):
    """The part of a tokenizer that is used here."""

    @property
    def identity(self) -> str:
        """A checksum of everything that decides which ids a text gets."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""


def encode_cached(texts: Sequence[str], tokenizer: Encoder) -> Ragged:
    """The ids of each text, from the cache if the same texts have been encoded before.

    The key is a checksum of all texts and of the tokenizer. Cached ids are read-only. If the cache
    cannot be written, the ids stay in memory.
    """
    if len(texts) < MIN_CACHED_TEXTS:
        return Ragged.from_lists(tokenizer.encode_batch(list(texts)))
    path = cache_folder("tokens") / f"{_key(texts, tokenizer)}.arrow"
    cached = _read(path)
    if cached is not None:
        return cached
    encoded = _encode(texts, tokenizer)
    _write(path, encoded)
    return _read(path) or encoded


def _write(path: Path, encoded: Ragged) -> None:
    import pyarrow as pa  # a prediction for a few texts does not need it

    schema = pa.schema([("ids", pa.large_list(pa.int32()))])
    ids = pa.LargeListArray.from_arrays(pa.array(encoded.offsets), pa.array(encoded.ids))
    write_table(path, schema, [pa.RecordBatch.from_arrays([ids], schema=schema)])


def _read(path: Path) -> Ragged | None:
    cached = cached_table(path)
    if cached is None:
        return None
    rows = cached[0].column("ids").chunk(0)
    return Ragged(rows.values.to_numpy(), rows.offsets.to_numpy())


def _encode(texts: Sequence[str], tokenizer: Encoder) -> Ragged:
    parts = [
        Ragged.from_lists(tokenizer.encode_batch(list(texts[start : start + _BATCH])))
        for start in range(0, len(texts), _BATCH)
    ]
    lengths = np.concatenate([part.lengths for part in parts])
    return Ragged.from_lengths(np.concatenate([part.ids for part in parts]), lengths)


def _key(texts: Sequence[str], tokenizer: Encoder) -> str:
    digest = hashlib.sha256(f"{_VERSION} {tokenizer.identity}".encode())
    for text in texts:
        content = text.encode(errors="surrogatepass")  # a lone surrogate: the tokenizer rejects it
        digest.update(len(content).to_bytes(8, "little"))  # marks the end of the text
        digest.update(content)
    return digest.hexdigest()

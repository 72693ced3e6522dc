"""A cache of token ids, keyed by the texts and the tokenizer and memory-mapped."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np

from jumok.data.arrow_cache import cache_folder, cached_table, write_table
from jumok.language import translate
from jumok.terminal import counted
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
    shown = translate("tokenized {n:,} of {total:,} texts")
    encoded = _encode(counted(_batches(texts), shown, len(texts), len), tokenizer)
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


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _encode(batches: Iterable[list[str]], tokenizer: Encoder) -> Ragged:
    """The ids of all texts, in arrays that grow: no list is longer than a batch."""
    ids, lengths = array("i"), array("q")
    for batch in batches:
        rows = tokenizer.encode_batch(batch)
        lengths.extend(map(len, rows))
        for row in rows:
            ids.fromlist(row)
    return Ragged.from_lengths(np.asarray(ids), np.asarray(lengths))


def _key(texts: Sequence[str], tokenizer: Encoder) -> str:
    digest = hashlib.sha256(f"{_VERSION} {tokenizer.identity}".encode())
    for text in texts:
        content = text.encode(errors="surrogatepass")  # a lone surrogate: the tokenizer rejects it
        digest.update(len(content).to_bytes(8, "little"))  # marks the end of the text
        digest.update(content)
    return digest.hexdigest()

"""Assemble plain text from several sources: NFC, without duplicates and held-out sentences."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jumok.unicode_forms import normalize

MIN_SENTENCE_LETTERS = 10  # a shorter sentence, such as "정말 좋다.", is in many texts
SAMPLED_CHARACTERS = range(8, 121)  # the length of a sentence that is sampled

_NOT_LETTERS = re.compile(r"[\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?…。])\s+|\n+")


class HeldOut:
    """The texts and sentences of dev and test sets, by their letters and digits.

    A text repeats one of them when all of it is equal, or when one of its sentences is equal to a
    held-out text or sentence of at least `MIN_SENTENCE_LETTERS`. Case, white space and
    punctuation do not count.

    >>> held_out = HeldOut(["이 영화는 정말 재미있었어요! 굿"])
    >>> held_out.repeated_in("어제 봤다. 이 영화는 정말 재미있었어요...")
    '이영화는정말재미있었어요'
    >>> held_out.repeated_in("배우도 굿. 다음에 또 봐야지.")
    ''
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.keys: set[str] = set()
        for text in texts:
            self.keys.add(_key(text))
            self.keys.update(map(_key, _sentences(text)))
        self.keys.discard("")

    def __len__(self) -> int:
        return len(self.keys)

    def repeated_in(self, text: str) -> str:
        """The letters of the held-out sentence that a text repeats; "" if there is none."""
        whole = _key(text)
        if whole in self.keys:
            return whole
        for sentence in _sentences(text):
            key = _key(sentence)
            if len(key) >= MIN_SENTENCE_LETTERS and key in self.keys:
                return key
        return ""


@dataclass
class SourceCounts:
    """The number of lines of a source: read, removed and kept."""

    read: int = 0
    empty: int = 0
    duplicates: int = 0
    held_out: int = 0
    kept: int = 0
    bytes: int = 0  # of the kept lines, in UTF-8


@dataclass
class Assembly:
    """The lines of all sources that are kept, and the counts of each source."""

    held_out: HeldOut
    counts: dict[str, SourceCounts] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)  # checksums of the kept lines

    def keep(self, source: str, texts: Iterable[str]) -> Iterator[str]:
        """The texts of a source that are new and repeat nothing, one line each, in NFC.

        >>> assembly = Assembly(HeldOut(["비가 온다."]))
        >>> list(assembly.keep("news", ["눈이  온다", "비가 온다", "눈이 온다", " "]))
        ['눈이 온다']
        >>> assembly.counts["news"]
        SourceCounts(read=4, empty=1, duplicates=1, held_out=1, kept=1, bytes=13)
        """
        counts = self.counts.setdefault(source, SourceCounts())
        for text in texts:
            counts.read += 1
            line = " ".join(normalize("NFC", text).split())
            if not line:
                counts.empty += 1
            elif (checksum := _checksum(line)) in self.seen:
                counts.duplicates += 1
            elif self.held_out.repeated_in(line):
                counts.held_out += 1
            else:
                self.seen.add(checksum)
                counts.kept += 1
                counts.bytes += len(line.encode())
                yield line


def sample_sentences(texts: Iterable[str], limit: int, held_out: HeldOut) -> dict[bytes, str]:
    """At most `limit` distinct sentences by their checksums: a sample that has no order.

    The checksum of a sentence decides whether it is taken, so the sample is the same whatever the
    order of the texts. Sentences have 8 to 120 characters and are no held-out text.

    >>> found = sample_sentences(["비가 온다. 내일도 비가 온다."] * 2, 5, HeldOut([]))
    >>> list(found.values())
    ['내일도 비가 온다.']
    """
    found = {
        _checksum(sentence): sentence
        for text in texts
        for sentence in _sentences(text)
        if len(sentence) in SAMPLED_CHARACTERS
    }
    chosen: dict[bytes, str] = {}
    for key in sorted(found):
        if len(chosen) == limit:
            break
        if not held_out.repeated_in(found[key]):
            chosen[key] = found[key]
    return chosen


def _checksum(line: str) -> bytes:
    return hashlib.blake2b(line.encode(), digest_size=16).digest()


def _key(text: str) -> str:
    """The letters and digits of a text, in lower case."""
    return _NOT_LETTERS.sub("", normalize("NFC", text).lower())


def _sentences(text: str) -> list[str]:
    return _SENTENCE_END.split(text)

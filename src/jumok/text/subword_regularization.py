"""Subword regularization: random segmentations of the same words in every epoch.

Unigram vocabularies draw a segmentation with probability proportional to P(segmentation)^alpha
(Kudo 2018, "Subword Regularization", equation 9 with l = infinity); BPE vocabularies drop each
possible merge with probability alpha at every step (Provilkov et al. 2020, "BPE-Dropout",
algorithm 1). SentencePiece can do both, but cannot be seeded, so that a resumed training would
differ. Here one numpy generator has the caller's seed, and all words of a batch are segmented at
once.

W: word occurrences (in order), n: characters or symbols of all words, E: edges of the lattice.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.text.sentencepiece_proto import ModelFile, PieceType

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SPACE = "▁"
_MAX_ALPHA = 100
_UNKNOWN_PENALTY = 10.0  # an unknown character scores this much under the worst piece, as there
_FIRST_STAND_IN, _STAND_INS = 0xD800, 2048  # no checked text holds a lone surrogate


@dataclass(frozen=True)
class _Words:
    """Concatenated words: `codes` (n,) their characters, `lengths` (W,) their numbers."""

    codes: Ints
    lengths: Ints

    @property
    def starts(self) -> Ints:
        return np.cumsum(self.lengths) - self.lengths


@dataclass(frozen=True)
class _Cut:
    """The concatenated pieces of words: `ids` in order, `counts` (W,) their numbers.

    An unknown character is -1 minus its code point.
    """

    ids: Ints
    counts: Ints


class SubwordSampler:
    """Samples segmentations of texts with the pieces of one SentencePiece model."""

    def __init__(self, model: ModelFile) -> None:
        if model.kind not in ("unigram", "bpe"):
            raise InputError(
                f"a {model.kind} vocabulary has one segmentation of every text; encode without "
                "sampling, or train a unigram or bpe vocabulary"
            )
        self._model = model
        spelled = {
            piece: i
            for i, (piece, type_) in enumerate(zip(model.pieces, model.types, strict=True))
            if type_ is PieceType.NORMAL
        }
        whole = sorted(_of_type(model, PieceType.USER_DEFINED), key=len, reverse=True)
        if len(whole) > _STAND_INS:
            raise InputError(
                f"the vocabulary has {len(whole)} user-defined pieces; sampling supports at most "
                f"{_STAND_INS}, encode without it"
            )
        # A user-defined piece is never split: here it is represented by one character.
        self._stand_in = {piece: chr(_FIRST_STAND_IN + i) for i, piece in enumerate(whole)}
        self._whole = re.compile("|".join(map(re.escape, whole))) if whole else None
        spelled |= {stand: model.pieces.index(piece) for piece, stand in self._stand_in.items()}
        # If no piece contains an inner space, words are segmented independently.
        reaching = any(_SPACE in piece[1:] for piece in spelled)
        self._word = re.compile(r".+" if reaching else rf"{_SPACE}[^{_SPACE}]*|[^{_SPACE}]+", re.S)
        self._unknown = next(iter(_of_type(model, PieceType.UNKNOWN).values()), -1)
        self._bytes = [i for _, i in sorted(_of_type(model, PieceType.BYTE).items())]
        cutter = _BytePairs if model.kind == "bpe" else _Unigram
        self._cutter: _BytePairs | _Unigram = cutter(model, spelled)

    def sample(self, normalized: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Random ids of texts that SentencePiece has normalized (spaces are ▁)."""
        self._cutter.check(alpha)
        if seed < 0:
            raise InputError(f"seed must be an integer of at least 0, got {seed}")
        words: dict[str, int] = {}
        occurring: list[int] = []
        per_text: list[int] = []
        for text in normalized:
            found = self._word.findall(self._protected(text))
            occurring.extend(words.setdefault(word, len(words)) for word in found)
            per_text.append(len(found))
        if not occurring:
            return [[] for _ in normalized]
        generator = np.random.Generator(np.random.PCG64(seed))
        cut = self._cutter.cut(_flat(words), np.array(occurring), alpha, generator)
        ends = np.cumsum(np.concatenate(([0], cut.counts)))[np.cumsum([0, *per_text])].tolist()
        ids = cut.ids.tolist()
        texts = [ids[start:end] for start, end in itertools.pairwise(ends)]
        return [self._spelled_out(text) if min(text, default=0) < 0 else text for text in texts]

    def _protected(self, text: str) -> str:
        if self._whole is None:
            return text
        return self._whole.sub(lambda match: self._stand_in[match[0]], text)

    def _spelled_out(self, ids: Iterable[int]) -> list[int]:
        """Unknown characters as bytes, or a run of them as one [UNK], as in SentencePiece."""
        result: list[int] = []
        after_unknown = False
        for piece in ids:
            if piece >= 0:
                result.append(piece)
            elif self._model.byte_fallback:
                result.extend(self._bytes[byte] for byte in chr(-1 - piece).encode())
            elif not after_unknown:
                result.append(self._unknown)
            after_unknown = piece < 0
        return result


class _Unigram:
    """Samples from all segmentations of a word by their probability to the power alpha."""

    def __init__(self, model: ModelFile, spelled: dict[str, int]) -> None:
        self._trie = _Trie(spelled)
        self._scores = np.array(model.scores)  # (V,) log-probabilities
        self._scores[[i for piece, i in spelled.items() if _is_stand_in(piece)]] = 0.0
        normal = [
            s for s, t in zip(model.scores, model.types, strict=True) if t == PieceType.NORMAL
        ]
        self._unknown_score = min(normal, default=0.0) - _UNKNOWN_PENALTY

    def check(self, alpha: float) -> None:
        if not 0 <= alpha <= _MAX_ALPHA:
            raise InputError(
                f"alpha must be from 0 (uniform) to {_MAX_ALPHA} (the best segmentation) for a "
                f"unigram vocabulary, got {alpha}; 0.1 is usual"
            )

    def cut(
        self, words: _Words, occurring: Ints, alpha: float, generator: np.random.Generator
    ) -> _Cut:
        """Forward over the distinct words, then backward once for each occurrence."""
        # The nodes of a word of n characters are its n + 1 gaps.
        first_node = words.starts + np.arange(len(words.lengths))  # (W,)
        start, end, level, ids = self._edges(words)  # (E,) each, by level of the end, then end
        score = np.where(ids < 0, self._unknown_score, self._scores[np.maximum(ids, 0)]) * alpha
        groups = np.flatnonzero(np.diff(end, prepend=-1))  # where the edges of an end begin
        forward = np.full(len(words.codes) + len(words.lengths), -np.inf)
        forward[first_node] = 0.0
        rows = np.searchsorted(level[groups], np.arange(1, level[-1] + 2))
        for low, high in itertools.pairwise(rows):
            a, b = groups[low], groups[high] if high < len(groups) else len(end)
            value = forward[start[a:b]] + score[a:b]
            forward[end[groups[low:high]]] = np.logaddexp.reduceat(value, groups[low:high] - a)

        # The edges into group g share the interval from g to g + 1 by their probabilities.
        group_of = np.repeat(np.arange(len(groups)), np.diff(groups, append=len(end)))
        share = np.cumsum(np.exp(forward[start] + score - forward[end]))
        below = np.concatenate(([0.0], share))[groups]
        last = np.append(groups[1:], len(end)) - 1
        ladder = group_of + (share - below[group_of]) / (share[last] - below)[group_of]
        node_group = np.zeros(len(forward), dtype=np.int64)
        node_group[end[groups]] = np.arange(len(groups))

        who = np.arange(len(occurring))
        at = (first_node + words.lengths)[occurring]
        steps: list[tuple[Ints, Ints]] = []
        while len(who):
            group = node_group[at]
            edge = np.searchsorted(ladder, group + generator.random(len(group)), side="right")
            edge = np.clip(edge, groups[group], last[group])  # rounding may reach a neighbour
            steps.append((who, ids[edge]))
            going = start[edge] != first_node[occurring[who]]
            who, at = who[going], start[edge][going]
        return _from_the_back(steps, len(occurring))

    def _edges(self, words: _Words) -> tuple[Ints, Ints, Ints, Ints]:
        """Every piece at every position: start node, end node, level of the end, id."""
        word = np.repeat(np.arange(len(words.lengths)), words.lengths)  # (n,)
        place = np.arange(len(words.codes)) - words.starts[word]
        position, length, ids = self._trie.matches(words.codes, words.lengths[word] - place)
        alone = np.ones(len(words.codes), dtype=bool)  # no piece for this one character
        alone[position[length == 1]] = False
        (lost,) = alone.nonzero()
        position = np.concatenate((position, lost))
        length = np.concatenate((length, np.ones_like(lost)))
        ids = np.concatenate((ids, -1 - words.codes[lost]))
        level = place[position] + length
        start = position + word[position]
        order = np.argsort(level * (len(word) + len(words.lengths)) + start + length)
        return start[order], (start + length)[order], level[order], ids[order]


class _BytePairs:
    """Merges the best pair of neighbours repeatedly and drops some merges at every step."""

    def __init__(self, model: ModelFile, spelled: dict[str, int]) -> None:
        self._size = len(model.pieces)
        merges = {
            spelled[piece[:cut]] * self._size + spelled[piece[cut:]]: merged
            for piece, merged in spelled.items()
            for cut in range(1, len(piece))
            if piece[:cut] in spelled and piece[cut:] in spelled
        }
        self._pairs = np.array(sorted(merges), dtype=np.int64)
        self._merged = np.array([merges[pair] for pair in sorted(merges)], dtype=np.int64)
        self._scores = np.array(model.scores)  # (V,) minus the rank of the merge
        self._trie = _Trie({piece: i for piece, i in spelled.items() if len(piece) == 1})

    def check(self, alpha: float) -> None:
        if not 0 <= alpha <= 1:
            raise InputError(
                f"alpha must be from 0 (every merge) to 1 (characters) for a BPE vocabulary, got "
                f"{alpha}; 0.1 is usual"
            )

    def cut(
        self, words: _Words, occurring: Ints, alpha: float, generator: np.random.Generator
    ) -> _Cut:
        """All words in parallel, one merge in each at every step, until no merge is left."""
        lengths = words.lengths[occurring]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        symbols = self._characters(words)[np.repeat(words.starts[occurring], lengths) + within]
        word = np.repeat(np.arange(len(occurring)), lengths)
        merged = self._merge(symbols, word)  # (n,) what a symbol and the next one make, or -1
        done: list[tuple[Ints, Ints]] = []
        while len(word):
            kept = np.flatnonzero((merged >= 0) & (generator.random(len(word)) >= alpha))
            chosen = self._best(kept, word, merged)
            busy = np.zeros(word[-1] + 1, dtype=bool)
            busy[word[chosen]] = True
            done.append((word[~busy[word]], symbols[~busy[word]]))

            symbols[chosen] = merged[chosen]
            alive = busy[word]
            alive[chosen + 1] = False
            changed = np.zeros(len(word), dtype=bool)
            changed[chosen] = True
            changed[chosen[chosen > 0] - 1] = True
            symbols, word, merged, changed = (x[alive] for x in (symbols, word, merged, changed))
            (look,) = changed.nonzero()
            merged[look] = self._merge(symbols, word, look)
        owner = np.concatenate([owners for owners, _ in done])
        ids = np.concatenate([ids for _, ids in done])
        return _Cut(ids[np.argsort(owner, kind="stable")], np.bincount(owner))

    def _characters(self, words: _Words) -> Ints:
        """The piece of every character (n,), unknown ones as -1 minus the code point."""
        symbols = -1 - words.codes
        position, _, ids = self._trie.matches(words.codes, np.ones_like(words.codes))
        symbols[position] = ids
        return symbols

    def _merge(self, symbols: Ints, word: Ints, look: Ints | None = None) -> Ints:
        """The piece that each symbol makes with its right neighbour in the same word, or -1."""
        left = np.arange(len(symbols)) if look is None else look
        right = np.minimum(left + 1, len(symbols) - 1)
        able = (left != right) & (word[left] == word[right])
        able &= (symbols[left] >= 0) & (symbols[right] >= 0)
        if not len(self._pairs):
            return np.full(len(left), -1)
        pair = symbols[left] * self._size + symbols[right]
        found = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        able &= self._pairs[found] == pair
        return np.where(able, self._merged[found], np.int64(-1))

    def _best(self, kept: Ints, word: Ints, merged: Ints) -> Ints:
        """The position of the best merge of each word that has one; the leftmost of equals."""
        if not len(kept):
            return kept
        score, owner = self._scores[merged[kept]], word[kept]
        begins = np.flatnonzero(np.diff(owner, prepend=-1))
        best = np.repeat(np.maximum.reduceat(score, begins), np.diff(begins, append=len(owner)))
        equal: Ints = kept[score == best]
        leftmost: Ints = equal[np.diff(word[equal], prepend=-1) != 0]
        return leftmost


class _Trie:
    """Pieces by their characters, searched from many positions of a text at once."""

    def __init__(self, pieces: dict[str, int]) -> None:
        characters = sorted({ord(character) for piece in pieces for character in piece})
        self._class = np.zeros(0x110000, dtype=np.int64)  # 0: in no piece
        self._class[characters] = np.arange(1, len(characters) + 1)
        self._width = len(characters) + 1
        self._depth = max(map(len, pieces), default=0)
        children: dict[int, int] = {}
        ids = [-1]
        for piece, piece_id in pieces.items():
            node = 0
            for character in piece:
                key = node * self._width + int(self._class[ord(character)])
                node = children.setdefault(key, len(ids))
                if node == len(ids):
                    ids.append(-1)
            ids[node] = piece_id
        self._keys = np.array(sorted(children), dtype=np.int64)
        self._children = np.array([children[key] for key in sorted(children)], dtype=np.int64)
        self._ids = np.array(ids)

    def matches(self, codes: Ints, room: Ints) -> tuple[Ints, Ints, Ints]:
        """Position, length and id of every piece found, `room` (n,) characters at most."""
        classes = self._class[codes]
        position, node = np.arange(len(codes)), np.zeros(len(codes), dtype=np.int64)
        found: list[tuple[Ints, Ints, Ints]] = []
        for depth in range(self._depth):
            inside = room[position] > depth
            position, node = position[inside], node[inside]
            key = node * self._width + classes[position + depth]
            place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
            there = self._keys[place] == key
            position, node = position[there], self._children[place[there]]
            (hit,) = (self._ids[node] >= 0).nonzero()
            found.append((position[hit], np.full(len(hit), depth + 1), self._ids[node[hit]]))
        if not found:
            return position[:0], position[:0], position[:0]
        a, b, c = zip(*found, strict=True)
        return np.concatenate(a), np.concatenate(b), np.concatenate(c)


def _of_type(model: ModelFile, wanted: PieceType) -> dict[str, int]:
    rows = enumerate(zip(model.pieces, model.types, strict=True))
    return {piece: i for i, (piece, type_) in rows if type_ is wanted}


def _is_stand_in(piece: str) -> bool:
    return len(piece) == 1 and 0 <= ord(piece) - _FIRST_STAND_IN < _STAND_INS


def _flat(words: Iterable[str]) -> _Words:
    rows = list(words)
    text = "".join(rows).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(text, dtype="<u4").astype(np.int64)
    return _Words(codes, np.array([len(row) for row in rows], dtype=np.int64))


def _from_the_back(steps: Sequence[tuple[Ints, Ints]], n: int) -> _Cut:
    """Pieces that were sampled from the last to the first, in order."""
    counts = np.zeros(n, dtype=np.int64)
    for who, _ in steps:
        counts[who] += 1
    ends = np.cumsum(counts)
    ids = np.empty(counts.sum(), dtype=np.int64)
    for step, (who, drawn) in enumerate(steps):
        ids[ends[who] - 1 - step] = drawn
    return _Cut(ids, counts)

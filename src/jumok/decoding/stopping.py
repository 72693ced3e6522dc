"""Stopping criteria: the end token, the maximum length, or a stop string.

A stop string may start in one token and end in another, so it is searched for in the decoded text;
a streamer holds back text that could be the start of one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from jumok.errors import DecodingError
from jumok.text.streaming import StreamingDecoder, common_prefix_length
from jumok.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class StopStrings:
    """Tests whether the decoded tokens contain a stop string.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> tokenizer = SentencePieceTokenizer.train(["가 나 다 가"], VocabularyConfig(size=20))
    >>> stops = StopStrings(tokenizer, ("나 다",))
    >>> stops(tokenizer.encode("가 나")), stops(tokenizer.encode("가 나 다"))
    (False, True)

    Raises InputError for an empty stop string.
    """

    tokenizer: Tokenizer
    strings: tuple[str, ...]

    def __post_init__(self) -> None:
        if not all(self.strings):
            raise DecodingError(
                "decoding.empty_stop",
                "a stop string must have at least one character, got an empty one; leave it out",
            )

    @cached_property
    def _tail_length(self) -> int:
        """A number of newest tokens that contains every stop string that the last one completes."""
        return 2 * max(len(stop.encode()) for stop in self.strings) + 8

    def __call__(self, ids: Sequence[int], before: Sequence[int] = ()) -> bool:
        """Whether the newest of `ids` completes a stop string; they continue the prompt `before`.

        The space before a word is decoded after a prompt, but not at the start of a text.
        """
        if len(ids) > self._tail_length:  # avoids decoding all tokens at every step
            tail = self.tokenizer.decode(ids[-self._tail_length :])
            if not any(stop in tail for stop in self.strings):
                return False
        prompt, whole = self.tokenizer.decode_batch([list(before), [*before, *ids]])
        return any(stop in whole[common_prefix_length(prompt, whole) :] for stop in self.strings)


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """The text before its first stop string.

    >>> truncate_at_stop("하나 끝 둘", ["끝", "셋"])
    '하나 '
    """
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]


@dataclass(frozen=True)
class StoppingCriteria:
    """When generation of a text stops. Limits count generated tokens, the end token included.

    >>> stopping = StoppingCriteria(end_id=3, limits=[5])
    >>> stopping.finished(0, [7, 8, 3]), stopping.reached_limit(0, [7, 8, 3])
    (True, False)
    """

    end_id: int
    limits: Sequence[int]  # of each text
    stop_strings: StopStrings | None = None
    prompts: Sequence[Sequence[int]] = ()  # of each text; empty: no prompts
    more_end_ids: tuple[int, ...] = ()  # further tokens that end a text, as chat models have

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Every token that ends a text."""
        return (self.end_id, *self.more_end_ids)

    def end_of(self, ids: Sequence[int]) -> int:
        """The end token that `ids` end with; `end_id` if they end with none."""
        return ids[-1] if ids and ids[-1] in self.more_end_ids else self.end_id

    def finished(self, text: int, ids: Sequence[int]) -> bool:
        """Whether the newest of `ids` ends this text."""
        if ids[-1] == self.end_id or ids[-1] in self.more_end_ids:
            return True
        before = self.prompts[text] if self.prompts else ()
        return self.stop_strings is not None and self.stop_strings(ids, before)

    def reached_limit(self, text: int, ids: Sequence[int]) -> bool:
        """Whether this text has as many tokens as its limit."""
        return len(ids) >= self.limits[text]


class TextStreamer:
    """Decode the tokens of a request to text while they are generated.

    `on_text(row, piece)` is called with each new piece as soon as no later token can change it. The
    pieces of a row concatenated are its text, truncated at the first stop string. Use `push` as
    `on_token` of a request, then call `finish`.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> tokenizer = SentencePieceTokenizer.train(["가 나 다 가"], VocabularyConfig(size=20))
    >>> streamer = TextStreamer(tokenizer, lambda row, text: print(row, repr(text)), ["나 다"])
    >>> for id in tokenizer.encode("가 나 가 나 다 가"):
    ...     streamer.push(0, id)
    0 '가'
    0 ' '
    0 '나 가'
    0 ' '
    >>> streamer.finish()
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        on_text: Callable[[int, str], None],
        stops: Sequence[str] = (),
    ) -> None:
        self._tokenizer, self._on_text, self._stops = tokenizer, on_text, tuple(stops)
        self._decoders: dict[int, StreamingDecoder] = {}
        self._held: dict[int, str] = {}  # may be the start of a stop string
        self._stopped: set[int] = set()

    def set_prompt(self, row: int, ids: Iterable[int]) -> None:
        """Set the prompt of a row, so that a space before the first new word is decoded."""
        self._decoders.setdefault(row, StreamingDecoder(self._tokenizer)).set_prompt(ids)

    def push(self, row: int, id: int) -> None:  # noqa: A002  the field's word
        """Add the next token of a row."""
        decoder = self._decoders.setdefault(row, StreamingDecoder(self._tokenizer))
        self._emit(row, decoder.push(id))

    def finish(self) -> None:
        """Emit the text that was held back, after the last token."""
        for row, decoder in self._decoders.items():
            self._emit(row, decoder.finish())
            rest = self._held.pop(row, "")
            if rest and row not in self._stopped:
                self._on_text(row, rest)
        self._decoders.clear()
        self._stopped.clear()

    def _emit(self, row: int, piece: str) -> None:
        if row in self._stopped:
            return
        text = self._held.get(row, "") + piece
        before = truncate_at_stop(text, self._stops)
        if before != text:
            self._stopped.add(row)
        certain = (
            before
            if before != text
            else text[: len(text) - _partial_stop_length(text, self._stops)]
        )
        self._held[row] = text[len(certain) :]
        if certain:
            self._on_text(row, certain)


def _partial_stop_length(text: str, stops: Sequence[str]) -> int:
    """The number of characters at the end of `text` that could be the start of a stop string."""
    longest = max(map(len, stops), default=1) - 1
    for n in range(min(longest, len(text)), 0, -1):
        if any(stop.startswith(text[-n:]) for stop in stops):
            return n
    return 0

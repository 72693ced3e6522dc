"""Stop: at the end token, at the maximum length, or at a text that the user named.

A stop text may begin in one token and end in another, so it is looked for in the text, not among
the tokens; what is streamed holds back whatever could still become one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from jumok.errors import InputError
from jumok.text.streaming import StreamingDecoder, common_prefix_length
from jumok.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class StopStrings:
    """Whether tokens spell one of the stop texts."""

    vocabulary: Tokenizer
    strings: tuple[str, ...]

    def __post_init__(self) -> None:
        if not all(self.strings):
            raise InputError("an empty stop text would stop everything; leave it out")

    @cached_property
    def _enough(self) -> int:
        """Tokens at the end of a text that hold every stop text the newest of them may complete."""
        return 2 * max(len(stop.encode()) for stop in self.strings) + 8

    def __call__(self, ids: Sequence[int], before: Sequence[int] = ()) -> bool:
        """Whether the newest of `ids` completes a stop text; they go on behind those `before`.

        Behind a text the space before a word is written, at the beginning of one it is not.
        """
        if len(ids) > self._enough:  # to decode all of them each time would take ever longer
            end = self.vocabulary.decode(ids[-self._enough :])
            if not any(stop in end for stop in self.strings):
                return False
        given, whole = self.vocabulary.decode_batch([list(before), [*before, *ids]])
        return any(stop in whole[common_prefix_length(given, whole) :] for stop in self.strings)


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop text in it.

    >>> cut("하나 끝 둘", ["끝", "셋"])
    '하나 '
    """
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]


@dataclass(frozen=True)
class StoppingCriteria:
    """When a text is over. Lengths are tokens written, the end token among them."""

    end_id: int
    limits: Sequence[int]  # of each text
    stop_strings: StopStrings | None = None
    prompts: Sequence[Sequence[int]] = ()  # what each text goes on from; empty: from nothing

    def finished(self, text: int, ids: Sequence[int]) -> bool:
        """Whether the newest of `ids` ended this text."""
        if ids[-1] == self.end_id:
            return True
        before = self.prompts[text] if self.prompts else ()
        return self.stop_strings is not None and self.stop_strings(ids, before)

    def reached_limit(self, text: int, ids: Sequence[int]) -> bool:
        """Whether this text may hold no more tokens."""
        return len(ids) >= self.limits[text]


class TextStreamer:
    """Give out the texts of a request while their tokens come: as early as certain, no earlier.

    `on_text(row, piece)` is called with each new piece. All pieces of a row together are its text,
    cut before the first stop text. Give `push` to `generate` as `on_token`, then call `finish`.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> vocabulary = SentencePieceTokenizer.train(["가 나 다 가"], VocabularyConfig(size=20))
    >>> streams = TextStreamer(vocabulary, lambda row, text: print(row, repr(text)), ["나 다"])
    >>> for id in vocabulary.encode("가 나 가 나 다 가"):
    ...     streams.push(0, id)
    0 '가'
    0 ' '
    0 '나 가'
    0 ' '
    >>> streams.finish()
    """

    def __init__(
        self,
        vocabulary: Tokenizer,
        on_text: Callable[[int, str], None],
        stops: Sequence[str] = (),
    ) -> None:
        self._vocabulary, self._on_text, self._stops = vocabulary, on_text, tuple(stops)
        self._decoders: dict[int, StreamingDecoder] = {}
        self._held: dict[int, str] = {}  # what may be the beginning of a stop text
        self._stopped: set[int] = set()

    def set_prompt(self, row: int, ids: Iterable[int]) -> None:
        """The text of a row goes on behind these tokens: a space before its first word is shown."""
        self._decoders.setdefault(row, StreamingDecoder(self._vocabulary)).set_prompt(ids)

    def push(self, row: int, id: int) -> None:  # noqa: A002  the field's word
        """The next token of a row."""
        decoder = self._decoders.setdefault(row, StreamingDecoder(self._vocabulary))
        self._show(row, decoder.push(id))

    def finish(self) -> None:
        """No more tokens come: give out what was held back."""
        for row, decoder in self._decoders.items():
            self._show(row, decoder.finish())
            rest = self._held.pop(row, "")
            if rest and row not in self._stopped:
                self._on_text(row, rest)
        self._decoders.clear()
        self._stopped.clear()

    def _show(self, row: int, piece: str) -> None:
        if row in self._stopped:
            return
        text = self._held.get(row, "") + piece
        before = truncate_at_stop(text, self._stops)
        if before != text:
            self._stopped.add(row)
        certain = before if before != text else text[: len(text) - _begun(text, self._stops)]
        self._held[row] = text[len(certain) :]
        if certain:
            self._on_text(row, certain)


def _begun(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of `text` could be the beginning of a stop text."""
    longest = max(map(len, stops), default=1) - 1
    for n in range(min(longest, len(text)), 0, -1):
        if any(stop.startswith(text[-n:]) for stop in stops):
            return n
    return 0

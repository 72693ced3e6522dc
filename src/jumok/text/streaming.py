"""Ids that come one by one, turned into text as early as it is certain and never earlier."""

from collections.abc import Iterable

from jumok.text.byte_pieces import byte_piece_value
from jumok.text.tokenizer import Tokenizer, piece_or_empty

_REPLACEMENT = "\ufffd"


def common_prefix_length(before: str, whole: str) -> int:
    """How many characters at the beginning of a text are those of what stood there before.

    All of them, but where a tokeniser takes back spaces before what is added.

    >>> shared("it", "it is"), shared("it '", "it's")
    (2, 2)
    """
    pairs = zip(before, whole, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(before), len(whole)))


class StreamingDecoder:
    """Text from ids that are still coming.

    A syllable spelled as three byte pieces appears when the third has come, and a word two words
    later where the tokeniser takes spaces back from punctuation, the bytes of one that joins all of
    them or none when something else comes; nothing that was given out is ever
    taken back, and all of it together is what `decode` makes of all ids.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> config = VocabularyConfig(size=275, byte_fallback=True)
    >>> vocabulary = SentencePieceTokenizer.train(["가 나 가"], config)
    >>> stream = StreamingDecoder(vocabulary)
    >>> [stream.push(id) for id in vocabulary.encode("가 뷁")]
    ['가', ' ', '', '', '뷁']
    >>> stream.finish()
    ''
    """

    def __init__(self, vocabulary: Tokenizer) -> None:
        self._vocabulary = vocabulary
        self._cleans = bool(getattr(vocabulary, "clean_up", False))  # of imported tokenisers
        self._together = bool(getattr(vocabulary, "bytes_together", False))  # likewise
        self._in_bytes = False  # whether the newest ids are byte pieces
        self._ids: list[int] = []  # a few whose text is settled, then those that are new
        self._settled = 0  # how many ids are settled
        self._given = 0  # how many characters of the text of these ids were given out
        self._before = ""  # the text of what they stand behind, until something is given out

    def set_prompt(self, ids: Iterable[int]) -> None:
        """The text goes on behind that of these ids, which is known and not given out."""
        self._ids = list(ids)
        self._before = self._vocabulary.decode(self._ids)

    def push(self, id: int) -> str:  # noqa: A002  the field's word
        """Take the next id; the text that is certain now, often "" inside a syllable."""
        self._ids.append(id)
        if self._together:
            byte = byte_piece_value(piece_or_empty(self._vocabulary, id)) is not None
            self._in_bytes = byte or (self._in_bytes and self._shows_nothing(id))
            if self._in_bytes:
                return ""  # the next byte may spoil the letters before it
        text = self._vocabulary.decode(self._ids)
        certain = text.rstrip(_REPLACEMENT)  # what ends in � may be half a syllable
        if self._cleans:  # of "do n '" both spaces go when t follows: "don't"
            before, *held = certain.rsplit(" ", 2)
            certain = before if len(held) == 2 else ""
        self._pass_by(text)
        new = certain[self._given :]
        self._given = max(self._given, len(certain))
        if new:
            self._before = ""
        if certain == text:
            self._forget()
        return new

    def finish(self) -> str:
        """What was held back (� where bytes never became a character); ready for another text."""
        text = self._vocabulary.decode(self._ids)
        self._pass_by(text)
        rest = text[self._given :]
        self._ids, self._settled, self._given, self._in_bytes = [], 0, 0, False
        self._before = ""
        return rest

    def _pass_by(self, text: str) -> None:
        """What was there before counts as given out, as far as it is still so."""
        if self._before:
            self._given = common_prefix_length(self._before, text)

    def _shows_nothing(self, id: int) -> bool:  # noqa: A002  as above
        return not self._vocabulary.decode([id])  # a special piece parts no bytes

    def _forget(self) -> None:
        """Drop the settled ids once the new ones show something: these keep the next space alive.

        A text never begins with a space of its own, so something must stand before the next id.
        """
        new = self._ids[self._settled :]
        text = self._vocabulary.decode(new)
        if text.strip():
            self._ids, self._settled, self._given = new, len(new), len(text)

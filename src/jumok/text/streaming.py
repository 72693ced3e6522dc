"""Incremental decoding: text is returned as soon as it is final and never changed afterwards."""

from collections.abc import Iterable

from jumok.text.byte_pieces import byte_piece_value
from jumok.text.tokenizer import Tokenizer, piece_or_empty

_REPLACEMENT = "\ufffd"


def common_prefix_length(first: str, second: str) -> int:
    """The number of characters at the beginning of two texts that are equal.

    >>> common_prefix_length("it", "it is"), common_prefix_length("it '", "it's")
    (2, 2)
    """
    pairs = zip(first, second, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


class StreamingDecoder:
    """Decodes ids one by one; the returned texts concatenated are `decode` of all ids.

    A syllable of three byte pieces is returned with the third one. If the tokenizer removes spaces
    before punctuation, a word is returned two words later; if it decodes consecutive byte pieces
    together, their text is returned with the next other piece.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> config = VocabularyConfig(size=275, byte_fallback=True)
    >>> tokenizer = SentencePieceTokenizer.train(["가 나 가"], config)
    >>> stream = StreamingDecoder(tokenizer)
    >>> [stream.push(id) for id in tokenizer.encode("가 뷁")]
    ['가', ' ', '', '', '뷁']
    >>> stream.finish()
    ''
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._in_bytes = False  # whether the newest ids are byte pieces
        self._ids: list[int] = []  # some ids whose text is final, then the new ones
        self._n_final = 0
        self._n_returned = 0  # characters of the text of these ids that have been returned
        self._prompt = ""  # the text before the ids, until something is returned

    def set_prompt(self, ids: Iterable[int]) -> None:
        """The ids that precede the stream; their text is not returned."""
        self._ids = list(ids)
        self._prompt = self._tokenizer.decode(self._ids)

    def push(self, id: int) -> str:  # noqa: A002  the field's word
        """Add the next id; returns the text that is final now, often "" within a syllable."""
        self._ids.append(id)
        if self._tokenizer.groups_bytes:
            is_byte = byte_piece_value(piece_or_empty(self._tokenizer, id)) is not None
            self._in_bytes = is_byte or (self._in_bytes and self._is_invisible(id))
            if self._in_bytes:
                return ""  # the next byte may invalidate the characters before it
        text = self._tokenizer.decode(self._ids)
        final = text.rstrip(_REPLACEMENT)  # a trailing � may be an incomplete character
        if self._tokenizer.clean_up:  # "do n '" loses both spaces when t follows: "don't"
            before, *held = final.rsplit(" ", 2)
            final = before if len(held) == 2 else ""
        self._skip_prompt(text)
        new = final[self._n_returned :]
        self._n_returned = max(self._n_returned, len(final))
        if new:
            self._prompt = ""
        if final == text:
            self._drop_final_ids()
        return new

    def finish(self) -> str:
        """The remaining text (� for bytes that are not a character); resets the stream."""
        text = self._tokenizer.decode(self._ids)
        self._skip_prompt(text)
        rest = text[self._n_returned :]
        self._ids, self._n_final, self._n_returned, self._in_bytes = [], 0, 0, False
        self._prompt = ""
        return rest

    def _skip_prompt(self, text: str) -> None:
        """Count the prompt, as far as it is unchanged in the text, as returned."""
        if self._prompt:
            self._n_returned = common_prefix_length(self._prompt, text)

    def _is_invisible(self, id: int) -> bool:  # noqa: A002  as above
        return not self._tokenizer.decode([id])  # a special piece does not separate bytes

    def _drop_final_ids(self) -> None:
        """Remove the final ids once the new ones have text, which preserves the next space.

        The decoded text of ids never begins with a space, so one visible id has to remain.
        """
        new = self._ids[self._n_final :]
        text = self._tokenizer.decode(new)
        if text.strip():
            self._ids, self._n_final, self._n_returned = new, len(new), len(text)

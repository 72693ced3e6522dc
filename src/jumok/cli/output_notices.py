"""Lines on stderr about outputs of `jumok predict` that a reader should not rely on."""

from typing import TYPE_CHECKING

from jumok.errors import Message
from jumok.terminal import print_message, print_notice

if TYPE_CHECKING:
    from jumok.tasks.pipeline.outputs import Output
    from jumok.text.tokenizer import Tokenizer

MAX_NOTICES = 5  # of one command; the others are counted
MANY_UNKNOWN = 0.1  # of the characters of a text


class OutputNotices:
    """Prints the warnings of outputs; of unknown characters those that are more than a tenth.

    A text that is too long is reported where it is truncated.
    """

    def __init__(self, tokenizer: "Tokenizer | None") -> None:
        self._tokenizer = tokenizer
        self._n_found = 0

    def report(self, output: "Output") -> None:
        """Print what the output does not show, one line per text."""
        found = self._notice(output)
        if found is not None:
            self._n_found += 1
            if self._n_found <= MAX_NOTICES:
                print_notice(found)

    def finish(self) -> None:
        """Print the number of texts whose warnings were not printed."""
        if self._n_found > MAX_NOTICES:
            print_message(
                "cli.more_warnings",
                "jumok: {n:,} more with warnings; --json prints them",
                n=self._n_found - MAX_NOTICES,
            )

    def _notice(self, output: "Output") -> Message | None:
        codes = {warning.code for warning in output.warnings}
        text = output.text[:40]
        if "empty_text" in codes:
            return Message("cli.empty_text", "jumok: a text is empty: there is nothing to predict")
        if "unknown_characters" in codes and self._is_mostly_unknown(output.text):
            return Message(
                "cli.unknown_characters",
                "jumok: more than a tenth of the characters of {text!r} are not in the vocabulary: "
                "the model did not read them",
                text=text,
            )
        if "no_mask" in codes:
            return Message(
                "cli.no_mask",
                "jumok: {text!r} has no [MASK], so nothing is predicted; put [MASK] in place of a "
                "word, or train a recipe from this model to predict labels",
                text=text,
            )
        if "repetition" in codes:
            loop = getattr(output, "loop", None)
            return Message(
                "cli.output_repeats",
                "jumok: the output for {text!r} repeats: {loop}",
                text=text,
                loop=loop,
            )
        return None

    def _is_mostly_unknown(self, text: str) -> bool:
        from jumok.tasks.pipeline.text_warnings import unknown_characters

        assert self._tokenizer is not None  # it found them
        n_characters = len("".join(text.split()))
        return unknown_characters([text], self._tokenizer)[0] > MANY_UNKNOWN * n_characters

"""Texts of several lines or sentences, for models that read one sentence at a time.

Lines are translated one by one, so the output has as many lines as the text, and blank ones stay
blank. Sentences are found by sentencex, the splitter of Wikimedia's translation service: they end
with a mark such as "." or "?", not with a Korean ending alone.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from jumok.tasks.pipeline.outputs import Candidate, GeneratedText, OutputWarning
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.text_warnings import EMPTY_TEXT

_LINE_END = re.compile("(\r\n|[\n\r\u2028\u2029])")
TRANSLATORS = ("Marian", "MBart", "M2M100", "NllbMoe")  # the start of their names in transformers


def translates(pipeline: Pipeline) -> bool:
    """Whether a model is known to translate single sentences.

    It was trained on a known corpus of sequence_to_sequence or with `data.target_language`, or is
    an imported translator. A model for documents, a summarizer, reads all lines together.
    """
    if not pipeline.task.reads_source:
        return False
    if pipeline.origin is not None:
        return pipeline.origin.architecture.startswith(TRANSLATORS)
    return bool(pipeline.recipe.data.corpus or pipeline.recipe.data.target_language)


def split_sentences(line: str, language: str = "ko") -> list[str]:
    """The sentences of a line, each with the spaces that follow it.

    >>> split_sentences("3.5점입니다. Dr. Kim도 왔어요! 네")
    ['3.5점입니다. ', 'Dr. Kim도 왔어요! ', '네']
    """
    import sentencex

    found = [str(sentence) for sentence in sentencex.segment(language, line)]
    return found if "".join(found) == line else [line]


def split_lines(text: str) -> list[str]:
    r"""The lines of a text without their ends.

    >>> split_lines("가\r\n\n나")
    ['가', '', '나']
    """
    return _LINE_END.split(text)[::2]


def split_text(text: str, split_line: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, str]]:
    r"""What is translated, and the white space that follows it and is kept.

    >>> list(split_text("가.  나.\n\n다", split_sentences))
    [('가.', '  '), ('나.', '\n'), ('', '\n'), ('다', '')]
    """
    parts = _LINE_END.split(text)
    for line, end in zip(parts[::2], [*parts[1::2], ""], strict=True):
        sentences = split_line(line) if line.strip() else [""]
        for number, sentence in enumerate(sentences, 1):
            kept = sentence.rstrip() if number < len(sentences) else sentence
            gap = sentence[len(kept) :] if number < len(sentences) else end
            yield kept, gap


def join_outputs(
    text: str, parts: Sequence[tuple[GeneratedText | None, str]], n_best: int
) -> GeneratedText:
    """The output for a text from those of its parts; None for a blank one.

    Scores are summed. The warnings of the parts are those of the text, each code once.
    """
    outputs = [output for output, _ in parts if output is not None]
    if not outputs:
        blank = tuple(Candidate("", 0.0, 0.0) for _ in range(n_best))
        return GeneratedText(
            text, "", 0.0, n_best=blank if n_best > 1 else None, warnings=(EMPTY_TEXT,)
        )
    if len(parts) == 1:
        return outputs[0]  # its part is the text
    warnings: dict[str, OutputWarning] = {}
    for number, output in enumerate(outputs, 1):
        for each in output.warnings:
            described = OutputWarning(each.code, f"part {number:,}: {each.message}")
            warnings.setdefault(each.code, described)
    candidates = None
    if n_best > 1:
        n = min(len(output.n_best or ()) for output in outputs)
        candidates = tuple(_joined_candidate(parts, rank) for rank in range(n))
    return GeneratedText(
        text,
        "".join((output.output if output else "") + gap for output, gap in parts),
        sum(output.score for output in outputs),
        n_best=candidates,
        loop=next((output.loop for output in outputs if output.loop), None),
        tokens=tuple(token for output in outputs for token in output.tokens),
        seed=outputs[0].seed,
        finish_reason="length" if any(o.finish_reason == "length" for o in outputs) else "stop",
        warnings=tuple(warnings.values()),
    )


def _joined_candidate(parts: Sequence[tuple[GeneratedText | None, str]], number: int) -> Candidate:
    found = [(output.n_best[number] if output and output.n_best else None, gap)
             for output, gap in parts]  # fmt: skip
    chosen = [each for each, _ in found if each is not None]
    return Candidate(
        "".join((each.output if each else "") + gap for each, gap in found),
        sum(each.score for each in chosen),
        sum(each.rank for each in chosen),
    )

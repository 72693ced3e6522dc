"""Texts of several lines or sentences, for models that read one sentence at a time.

Lines are translated one by one, so the output has as many lines as the text, and blank ones stay
blank. Sentences are found by sentencex, the splitter of Wikimedia's translation service: they end
with a mark such as "." or "?", not with a Korean ending alone.
"""

import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from jumok.tasks.pipeline.outputs import Candidate, GeneratedText, Link, OutputWarning
from jumok.tasks.pipeline.text_warnings import EMPTY_TEXT

_LINE_END = re.compile("(\r\n|[\n\r\u2028\u2029])")

_LATIN = tuple(f"{string.ascii_letters}{string.digits}{string.punctuation}")

Split = Callable[[str], Iterator[tuple[str, str]]]  # a text into what is read, and what follows it


def split_sentences(line: str) -> list[str]:
    """The sentences of a line, each with the spaces that follow it.

    >>> split_sentences("3.5점입니다. Dr. Kim도 왔어요! 네")
    ['3.5점입니다. ', 'Dr. Kim도 왔어요! ', '네']
    """
    import sentencex

    found = [str(sentence) for sentence in sentencex.segment("ko", line)]
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


def splitter(
    texts: Sequence[str],
    *,
    translates: bool,
    sentences: bool,
    n_unread: Callable[[list[str]], list[int]],
) -> Split:
    """How these texts are split.

    A model that `translates` reads each line, and the sentences of a line of which it would leave
    out `n_unread` tokens; with `sentences` all of them. Another model reads a text as it is.
    """
    if sentences:
        return lambda text: _read_parts(split_text(text, split_sentences))
    if not translates:
        return lambda text: iter([(text if text.strip() else "", "")])
    lines = list({line: None for text in texts for line in split_lines(text)})
    too_long = {line for line, n in zip(lines, n_unread(lines), strict=True) if n}

    def split_line(line: str) -> Sequence[str]:
        return split_sentences(line) if line in too_long else [line]

    return lambda text: _read_parts(split_text(text, split_line))


def _read_parts(parts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    r"""The parts, with one without letters kept behind the one before it in its line.

    >>> list(_read_parts([("가.", " "), ("🙂", "\n"), ("!!!", "")]))
    [('가.', ' 🙂\n'), ('!!!', '')]
    """
    found: list[tuple[str, str]] = []
    for part, gap in parts:
        before, between = found[-1] if found else ("", "\n")
        if part and not any(map(str.isalpha, part)) and not _LINE_END.search(between):
            found[-1] = (before, between + part + gap)
            continue
        found.append((part, gap))
    yield from found


def predict_parts(
    texts: Sequence[str],
    split: Split,
    predict: Callable[[list[str]], Sequence[GeneratedText]],
    n_best: int,
) -> list[GeneratedText]:
    """The output of each text from those of its parts, each of which is predicted once."""
    parts = [list(split(text)) for text in texts]
    sources = list(dict.fromkeys(part for row in parts for part, _ in row if part))
    found = dict(zip(sources, predict(sources), strict=True))
    return [
        join_outputs(text, with_spaces([(found.get(part), gap) for part, gap in row]), n_best)
        for text, row in zip(texts, parts, strict=True)
    ]


def with_spaces(
    parts: Sequence[tuple[GeneratedText | None, str]],
) -> list[tuple[GeneratedText | None, str]]:
    """The parts, with a space after a Latin letter or sign where a sentence follows at once.

    Sentences of Chinese and Japanese have none between them, and some Korean ones.
    """
    *inner, last = parts
    return [
        (output, gap or (" " if output and output.output[-1:] in _LATIN else ""))
        for output, gap in inner
    ] + [last]


def stream_parts(
    text: str,
    split: Split,
    stream: Callable[[str], GeneratedText],
    on_text: Callable[[str], None],
    n_best: int,
) -> GeneratedText:
    """The same for one text, whose parts are streamed in turn."""
    parts: list[tuple[GeneratedText | None, str]] = []
    for part, gap in split(text):
        parts.append((stream(part) if part else None, gap))
        if gap:
            on_text(gap)
    return join_outputs(text, parts, n_best)


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
    if len(parts) == 1 and not parts[0][1]:
        return outputs[0]  # its part is the text
    warnings: dict[str, OutputWarning] = {}
    for number, output in enumerate(outputs, 1):
        for each in output.warnings:
            described = OutputWarning(each.code, f"part {number:,}: {each.message}")
            first = warnings.setdefault(each.code, described)
            n_unread = first.n_unread + each.n_unread
            warnings[each.code] = replace(first, n_unread=n_unread)
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
        links=_joined_links(text, parts),
        tokens=tuple(token for output in outputs for token in output.tokens),
        seed=outputs[0].seed,
        finish_reason="length" if any(o.finish_reason == "length" for o in outputs) else "stop",
        warnings=tuple(warnings.values()),
    )


def _joined_links(
    text: str, parts: Sequence[tuple[GeneratedText | None, str]]
) -> tuple[Link, ...] | None:
    """The links of all parts, at their places in the whole texts; None if no part has any."""
    found: list[Link] = []
    at, read = 0, 0  # in the output and in the text
    for output, gap in parts:
        if output is not None:
            read = max(text.find(output.text, read), read)
            found += [
                (at + t, at + t_end, read + s, read + s_end, weight)
                for t, t_end, s, s_end, weight in output.links or ()
            ]
            read += len(output.text)
            at += len(output.output)
        at += len(gap)
    return tuple(found) if any(output and output.links is not None for output, _ in parts) else None


def _joined_candidate(parts: Sequence[tuple[GeneratedText | None, str]], number: int) -> Candidate:
    found = [(output.n_best[number] if output and output.n_best else None, gap)
             for output, gap in parts]  # fmt: skip
    chosen = [each for each, _ in found if each is not None]
    return Candidate(
        "".join((each.output if each else "") + gap for each, gap in found),
        sum(each.score for each in chosen),
        sum(each.rank for each in chosen),
    )

"""Documents in, documents out: the sentences of a document, translated by a model.

    model = jumok.load("runs/koen")
    translate_document(model, "<p>겨울은 <b>추워요</b>.</p>", format="html").text

A sentence is translated once, whatever the number of its occurrences, and not at all if a
translation memory has it. Only sentences with markup within need an alignment.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from jumok.data.config import find_corpus
from jumok.documents import Document
from jumok.documents.atoms import ATOM
from jumok.documents.block import Block, has_words
from jumok.documents.glossary import Glossary
from jumok.documents.memory import Memory
from jumok.documents.numerals import different_numbers
from jumok.documents.placement import MIN_LINK
from jumok.errors import InputError
from jumok.tasks.pipeline.outputs import GeneratedText, Output, OutputWarning
from jumok.tasks.pipeline.segments import join_outputs, split_sentences, split_text, with_spaces
from jumok.text.token_spans import token_spans
from jumok.text.tokenizer import Tokenizer, unk_id

TASK = "sequence_to_sequence"
CHUNK = 64  # sentences that are computed together, and then added to the memory
MAX_SENTENCE = 1_000  # characters; a longer one is divided at a space
LOW_PROBABILITY = 0.65  # the mean of the tokens of a sentence, geometric
LOW_WORD = 0.3  # of a word, which is named

NOT_TRANSLATED = OutputWarning("not_translated", "the model wrote no words for it, so it stays")

_LETTER = re.compile(r"[^\W\d_]")
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
_OTHERS = r"\x00-\x7f\u0080-\u024f\u1100-\u11ff\u2000-\u206f\u3000-\u3002\u3130-\u318f\uac00-\ud7a3"
_OTHER_SCRIPT = re.compile(rf"[^\W\d{_OTHERS}][^\s{_OTHERS}]*")  # a letter, then marks too

Progress = Callable[[int, int], None]  # sentences that are done, and all


class TextModel(Protocol):
    """What `jumok.load` and `jumok.engine.load` return for a model that translates."""

    def predict(self, texts: Sequence[Any]) -> Sequence[Output]:
        """The output of each text."""

    def with_decoding(self, overrides: Sequence[str]) -> "TextModel":
        """The same model with other settings."""


@dataclass(frozen=True)
class TextWarning:
    """What to look at in a translated document, with the line of the source file."""

    line: int
    code: str
    message: str


@dataclass(frozen=True)
class TranslatedDocument:
    """A document in another language; `computed` of its `sentences` were not in the memory.

    `sentences` counts equal ones once. The codes of the warnings are those of
    `jumok.tasks.pipeline.outputs.OutputWarning`, and "low_probability", "not_translated" and
    "numbers_differ".
    """

    text: str
    warnings: tuple[TextWarning, ...]
    sentences: int
    computed: int


def translate_document(
    model: TextModel,
    source: str,
    *,
    format: str = "text",  # noqa: A002  the word of the other interfaces
    glossary: Glossary | None = None,
    memory: Memory | None = None,
    progress: Progress = lambda done, total: None,
) -> TranslatedDocument:
    r"""Translate the characters of a file, which keeps its format: see `jumok.documents`.

    Raises InputError for an unknown format and for a model that does not generate text.

    >>> from jumok.engine import load
    >>> found = translate_document(load("note"), "- 겨울은 추워요.\n\n- 겨울은 추워요.\n")
    >>> found.text, found.sentences
    ('- Winter is cold.\n\n- Winter is cold.\n', 1)
    """
    _check_translates(model)
    document = Document.read(source, format)
    if glossary is not None:
        document = document.with_terms(glossary.find)
    document = document.with_terms(_UnknownWords(_tokenizers(model)).find)
    blocks = document.blocks
    linked: dict[str, bool] = {}  # whether a sentence needs links, by sentence
    for block in blocks:
        for sentence, _ in _sentences(block.text):
            linked[sentence] = linked.get(sentence, False) or block.needs_links
    memory = Memory() if memory is None else memory
    found, computed = _translate(model, linked, memory, progress)
    outputs = [_output(block, found) for block in blocks]
    written = [
        block.write(output.output, output.links)
        for block, output in zip(blocks, outputs, strict=True)
    ]
    return TranslatedDocument(
        document.join(written),
        tuple(
            TextWarning(line, warning.code, warning.message)
            for line, block, output, text in zip(
                document.lines, blocks, outputs, written, strict=True
            )
            for warning in _warnings(block, output, text)
        ),
        len(linked),
        computed,
    )


class _UnknownWords:
    """The words in other scripts than Latin and Hangul that a tokenizer lacks, which are kept."""

    def __init__(self, tokenizers: Sequence[Tokenizer]) -> None:
        self._tokenizers = tokenizers
        self._lacks: dict[str, bool] = {}  # by character

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        for match in _OTHER_SCRIPT.finditer(text):
            for character in set(match[0]).difference(self._lacks):
                found = any(_lacks(each, character) for each in self._tokenizers)
                self._lacks[character] = found
            if any(map(self._lacks.__getitem__, match[0])):
                yield *match.span(), ""


def _lacks(tokenizer: Tokenizer, character: str) -> bool:
    """Whether it has no token for a character, or those of its bytes."""
    ids = tokenizer.encode(character)
    return unk_id(tokenizer) in ids or any(tokenizer.piece(id_).startswith("<0x") for id_ in ids)


def _tokenizers(model: TextModel) -> list[Tokenizer]:
    """That of the sources, and if they are Korean or English that of the outputs.

    Of these, words in a third script are often written as they are; of Japanese sources, say, the
    letters that the outputs lack are the text.
    """
    run = getattr(model, "run", None)  # of the engine
    found = [getattr(model, "vocabulary", None)]
    if _source_language(model) in ("ko", "en"):
        found.append(getattr(run, "target_tokenizer", getattr(model, "target_vocabulary", None)))
    return [each for each in found if each is not None]


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """The sentences of a block, each with the white space that follows it."""
    for sentence, gap in split_text(text, split_sentences):
        while len(sentence) > MAX_SENTENCE:
            end = sentence.rfind(" ", 1, MAX_SENTENCE)
            end = MAX_SENTENCE if end < 0 else end
            rest = sentence[end:].lstrip(" ")
            yield sentence[:end], sentence[end : len(sentence) - len(rest)]
            sentence = rest
        yield sentence, gap


def _translate(
    model: TextModel, linked: dict[str, bool], memory: Memory, progress: Progress
) -> tuple[dict[str, GeneratedText], int]:
    """The outputs of the sentences, those `linked` with links, and how many were computed."""
    found = {}
    language = _source_language(model)
    for sentence in linked:
        if not _is_in(language, sentence):  # an emoji, a number, English: nothing to translate
            found[sentence] = _kept(sentence)
        elif sentence in memory.found:
            translation, links = memory.found[sentence]
            found[sentence] = GeneratedText(sentence, translation, 0.0, links=links)
    missing = [
        sentence
        for sentence, needs_links in linked.items()
        if sentence not in found or (needs_links and found[sentence].links is None)
    ]
    done = len(linked) - len(missing)
    progress(done, len(linked))
    for needs_links in (False, True):
        rows = [sentence for sentence in missing if linked[sentence] == needs_links]
        if not rows:
            continue
        chosen = model.with_decoding([f"alignment={MIN_LINK}"]) if needs_links else model
        for first in range(0, len(rows), CHUNK):
            new: list[GeneratedText] = []
            for output in chosen.predict(rows[first : first + CHUNK]):
                assert isinstance(output, GeneratedText)  # by the task
                known = found.get(output.text)  # in the memory, perhaps corrected by hand
                same = known is None or known.output == output.output
                new.append(output if known is None or same else known)
            memory.add((each.text, each.output, each.links) for each in new)
            found |= {each.text: each for each in new}
            done += len(new)
            progress(done, len(linked))
    return found, len(missing)


def _source_language(model: TextModel) -> str:
    """The source language of the corpus of the model, "" if unknown."""
    if hasattr(model, "recipe"):  # of a pipeline; the engine has a run
        name = str(model.recipe.data.corpus)
    else:
        name = str(getattr(getattr(model, "run", None), "corpus", ""))
    return find_corpus(name).source_language if name else ""


def _is_in(language: str, sentence: str) -> bool:
    """Whether a sentence has letters of a language: Korean ones, or English and no Korean ones.

    >>> _is_in("ko", "안녕 Bob"), _is_in("en", "안녕 Bob"), _is_in("en", "Hi Bob"), _is_in("", "12")
    (True, False, True, False)
    """
    if language == "ko":
        return _HANGUL.search(sentence) is not None
    return _LETTER.search(sentence) is not None and not (
        language == "en" and _HANGUL.search(sentence)
    )


def _check_translates(model: TextModel) -> None:
    task = getattr(getattr(model, "recipe", model), "task", TASK)  # of a pipeline, of the engine
    if task != TASK:
        raise InputError(
            "documents.no_translator",
            "a document needs a model that translates, got one for {task}; name a run of "
            "sequence_to_sequence",
            task=task,
        )


def _output(block: Block, found: dict[str, GeneratedText]) -> GeneratedText:
    """The output of a block, with the links and warnings of its sentences."""
    parts: list[tuple[GeneratedText | None, str]] = []
    for sentence, gap in _sentences(block.text):
        output = _with_quality(found[sentence])
        if has_words(sentence) and not re.search(r"\w", ATOM.sub("", output.output)):
            output = replace(_kept(sentence), warnings=(*output.warnings, NOT_TRANSLATED))
        parts.append((output, gap))
    return join_outputs(block.text, with_spaces(parts), 1)


def _kept(sentence: str) -> GeneratedText:
    """A sentence as its own translation."""
    return GeneratedText(
        sentence, sentence, 0.0, links=((0, len(sentence), 0, len(sentence), 1.0),)
    )


def _warnings(block: Block, output: GeneratedText, written: str) -> Iterator[OutputWarning]:
    """The warnings of a block: those of its sentences, and what is not the same in the file."""
    yield from output.warnings
    codes = [each.code for each in output.warnings]
    if written == block.raw and output.output != block.text and NOT_TRANSLATED.code not in codes:
        yield NOT_TRANSLATED
    missing, added = different_numbers(block.raw, written)
    parts = [f"the translation lacks {', '.join(missing[:5])}"] if missing else []
    parts += [f"it has {', '.join(added[:5])} in addition"] if added else []
    if parts:
        yield OutputWarning("numbers_differ", "; ".join(parts))


def _with_quality(output: GeneratedText) -> GeneratedText:
    """The output with a warning if it, or a word of it, is improbable for the model."""
    if not output.tokens:
        return output
    mean = math.exp(sum(token.log_probability for token in output.tokens) / len(output.tokens))
    words = improbable_words(output)
    if mean >= LOW_PROBABILITY and not words:
        return output
    named = f": {', '.join(words[:5])}" if words else ""
    warning = OutputWarning(
        "low_probability", f"the tokens have a mean probability of {mean:.2f}{named}"
    )
    return replace(output, warnings=(*output.warnings, warning))


def improbable_words(output: GeneratedText) -> list[str]:
    """The words of a translation with a probability below `LOW_WORD`, in order.

    >>> from jumok.tasks.pipeline.outputs import GeneratedToken
    >>> tokens = [("▁a", -0.1), ("▁ve", -1.0), ("ry", -1.5), (".", -0.1)]
    >>> improbable_words(GeneratedText("", "a very.", -2.7, tokens=tuple(
    ...     GeneratedToken(piece, 0, p) for piece, p in tokens)))
    ['very.']
    """
    spans = token_spans(output.output, [token.piece for token in output.tokens])
    found = []
    position = 0
    for word in output.output.split():
        start = output.output.index(word, position)
        position = start + len(word)
        log_p = sum(
            token.log_probability
            for token, (first, last) in zip(output.tokens, spans, strict=True)
            if start <= first < last <= position
        )
        if log_p < math.log(LOW_WORD):
            found.append(word)
    return found

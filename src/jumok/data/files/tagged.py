"""Entities as other tools write them, as one tag for each character of a text.

    CoNLL, BIO       a word and its tag per line, other columns between them, blank lines between
                     sentences; also the "CoNLL2003" of Label Studio
    doccano          {"text": ..., "label": [[0, 2, "PS"]]}, or "entities" with start_offset ...
    Label Studio     JSON and JSON-MIN: "annotations" with "result", or "label" with "labels"
    Hugging Face     {"tokens": [...], "ner_tags": [...]}

Tags are O, B-TYPE and I-TYPE; TYPE-B and TYPE_B (Naver NER) and those of BIOES and BILOU are the
same tags.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard

from jumok.data.files.lines import Line
from jumok.data.files.rows import Row, column_indices, line_text, reject_lists
from jumok.errors import DataError, Message
from jumok.text_files import Fault, quote

Span = tuple[int, int, str]  # start, stop, type

OUTSIDE = "O"
BIO_TAG = re.compile(r"O|[BI]-\S+")

_PREFIXED = re.compile(r"([BIESLU])[-_](\S+)")
_SUFFIXED = re.compile(r"(\S+)[-_]([BI])")
_POSITIONS = {"S": "B", "U": "B", "E": "I", "L": "I"}  # one word alone, the last word
_SPANS = ("entities", "spans", "label", "labels")  # keys with lists of spans
_START, _STOP = ("start", "start_offset"), ("end", "end_offset", "stop")
_COLUMNS = ("text", "tags")


class TagError(DataError):
    """Entities that cannot be tags of characters; the message is the fault of the row."""


@lru_cache(maxsize=4_096)
def bio_tag(tag: str) -> str:
    """A tag as O, B-TYPE or I-TYPE; other texts are unchanged.

    >>> [bio_tag(tag) for tag in ("B-PS", "PS-B", "PER_I", "S-LC", "-", "O", "PS")]
    ['B-PS', 'B-PS', 'I-PER', 'B-LC', 'O', 'O', 'PS']
    """
    if match := _PREFIXED.fullmatch(tag):
        return f"{_POSITIONS.get(match[1], match[1])}-{match[2]}"
    if match := _SUFFIXED.fullmatch(tag):
        return f"{match[2]}-{match[1]}"
    return OUTSIDE if tag == "-" else tag


def character_tags(text: str, tags: Sequence[str]) -> list[str]:
    """The tags of the characters of a text, from those of its characters or of its words.

    The space between two words of an entity belongs to it. Raises TagError for another number.

    >>> character_tags("서울 역 앞", ["B-LC", "I-LC", "O"])
    ['B-LC', 'I-LC', 'I-LC', 'I-LC', 'O', 'O']
    """
    if len(tags) == len(text):
        return list(tags)
    words = [match.span() for match in re.finditer(r"\S+", text)]
    if len(words) != len(tags):
        raise TagError(
            "file.tag_count",
            "{n_tags} tags for {n_characters} characters (got {tags})",
            n_tags=len(tags),
            n_characters=len(text),
            tags=quote(" ".join(tags)),
        )
    return _spread(text, words, tags)


def _spread(text: str, words: Sequence[tuple[int, int]], tags: Sequence[str]) -> list[str]:
    """The tags of characters from those of words."""
    found, kind, end = [OUTSIDE] * len(text), "", 0  # of the entity of the word before
    for (start, stop), tag in zip(words, tags, strict=True):
        if tag == OUTSIDE:
            kind = ""
            continue
        if tag.startswith("I-") and kind == tag[2:]:
            start = end  # with the space before it
        else:  # I- begins an entity in IOB1
            found[start], start = f"B-{tag[2:]}", start + 1
        found[start:stop] = [f"I-{tag[2:]}"] * (stop - start)
        kind, end = tag[2:], stop
    return found


def span_tags(text: str, spans: Sequence[Span]) -> list[str]:
    """The tags of the characters of a text, from entities. Raises TagError for wrong ones.

    >>> span_tags("서울 가자", [(0, 2, "LC")])
    ['B-LC', 'I-LC', 'O', 'O', 'O']
    """
    found, end = [OUTSIDE] * len(text), 0
    for start, stop, kind in sorted(spans):
        if not 0 <= start < stop <= len(text):
            raise TagError(
                "file.entity_outside",
                "an entity from {start} to {stop} in {n_characters} characters (got {text})",
                start=start,
                stop=stop,
                n_characters=len(text),
                text=quote(text),
            )
        if start < end:
            raise TagError(
                "file.entities_overlap",
                "entities that overlap, at {start} (got {text})",
                start=start,
                text=quote(text),
            )
        if not kind or kind.split() != [kind]:
            raise TagError(
                "file.entity_type",
                "the type of an entity must be one word, got {kind}",
                kind=quote(kind),
            )
        found[start:stop] = [f"B-{kind}", *[f"I-{kind}"] * (stop - start - 1)]
        end = stop
    return found


def tagged_object(
    row: Mapping[str, Any], text: str, tags: str, known: Mapping[str, str]
) -> Mapping[str, Any]:
    """A JSON object with the keys `text` and `tags`, from what other tools write.

    Objects that have both already are unchanged, but for lists of tags, which are joined. `known`
    are the names of tags that may be numbers.
    Raises TagError for entities that cannot be tags of characters.

    >>> row = {"tokens": ["서울", "역"], "ner_tags": ["B-LC", 0]}
    >>> tagged_object(row, "text", "tags", {"0": "O"})
    {'text': '서울 역', 'tags': 'B-LC I-LC O O'}
    """
    words = next((row[key] for key in ("tokens", text) if isinstance(row.get(key), list)), None)
    listed = next((row[key] for key in (tags, "ner_tags") if isinstance(row.get(key), list)), None)
    if listed is not None:
        names = [known.get(str(tag)) or bio_tag(str(tag)) for tag in listed]
        if words is None:
            return {**row, tags: " ".join(names)}
        return _of_words([str(word) for word in words], names, text, tags)
    if isinstance(row.get(tags), str):
        return row
    value, spans = _studio(row, text) or (row.get(text), _spans(row))
    if spans is None or not isinstance(value, str):
        return row
    return {text: value, tags: " ".join(span_tags(value, spans))}


def _of_words(words: list[str], names: list[str], text: str, tags: str) -> Mapping[str, Any]:
    """The text of words, with one space between two, and its tags."""
    if len(words) != len(names):
        raise TagError(
            "file.token_tag_count",
            "{n_tags} tags for {n_tokens} tokens",
            n_tags=len(names),
            n_tokens=len(words),
        )
    if number := next((name for name in names if name.isdecimal()), ""):
        raise TagError(
            "file.tag_is_a_number",
            "the tag {number}, a number; name the tags in order in data.labels",
            number=number,
        )
    if not all(word.strip() for word in words):
        raise TagError("file.empty_token", "a token that is empty")
    spans, joined = [], " ".join(words)
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return {text: joined, tags: " ".join(_spread(joined, spans, names))}


def _spans(row: Mapping[str, Any]) -> list[Span] | None:
    """The entities of an object; None if no key has a list of any."""
    for key in _SPANS:
        listed = row.get(key)
        if isinstance(listed, list) and all(isinstance(each, list | dict) for each in listed):
            return [_span(each) for each in listed]
    return None


def _span(entity: Any) -> Span:
    """[0, 2, "PS"], or an object with start, end and label."""
    if isinstance(entity, dict):
        start = next((entity[key] for key in _START if key in entity), None)
        stop = next((entity[key] for key in _STOP if key in entity), None)
        kind = entity.get("label", entity.get("labels", entity.get("type")))
        if isinstance(kind, list) and len(kind) == 1:
            kind = kind[0]
    else:
        start, stop, kind = [*entity, None, None, None][:3]
    if type(start) is int and type(stop) is int and isinstance(kind, str):
        return start, stop, kind
    raise TagError(
        "file.not_an_entity",
        'an entity must be [start, end, "TYPE"] or have start, end and one label, got {entity}',
        entity=quote(str(entity)),
    )


def _studio(row: Mapping[str, Any], text: str) -> tuple[Any, list[Span]] | None:
    """The text and the entities of a task of Label Studio; None for another object."""
    annotations, data = row.get("annotations"), row.get("data")
    if not isinstance(annotations, list) or not isinstance(data, dict):
        named = row.get("label")
        if isinstance(named, list) and named and all(_is_region(each) for each in named):
            return row.get(text), [_region(each, row.get(text)) for each in named]
        return None
    done = [a for a in annotations if isinstance(a, dict) and not a.get("was_cancelled")]
    if len(done) != 1:
        raise TagError(
            "file.annotation_count",
            "a task of Label Studio must have one annotation, got {n}",
            n=len(done),
        )
    value = data.get(text)
    regions = [each.get("value") for each in done[0].get("result", ()) if isinstance(each, dict)]
    return value, [_region(each, value) for each in regions if _is_region(each)]


def _is_region(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and isinstance(value.get("labels"), list) and "start" in value


def _region(value: dict[str, Any], text: Any) -> Span:
    """A region of Label Studio, whose positions may count UTF-16 units as JavaScript does."""
    start, stop, kind = _span(value)
    marked = value.get("text")
    if not isinstance(text, str) or not isinstance(marked, str) or text[start:stop] == marked:
        return start, stop, kind
    units = text.encode("utf-16-le")
    start, stop = (len(units[: 2 * at].decode("utf-16-le", "ignore")) for at in (start, stop))
    if text[start:stop] != marked:
        raise TagError(
            "file.region_text",
            "the text of a region must be at its place, got {text}",
            text=quote(marked),
        )
    return start, stop, kind


def conll_rows(
    path: Path, lines: Iterator[Line], columns: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Sentences of a file with a word and its tag per line, separated by TAB or spaces.

    The first column is the word, or the second where the first has numbers from 1; the last one is
    the tag. A blank line ends a sentence; comments (`#`) and `-DOCSTART-` are skipped. The words
    have one space between them, and the columns are `text` and `tags`, one tag for each character.
    """
    reject_lists(path, lists)
    column_indices(path, _COLUMNS, columns)
    for sentence in _sentences(lines):
        rows: list[tuple[str, ...]] = []
        fault: Fault = ""
        number = sentence[0].number
        for line in sentence:
            text, fault = line_text(line)
            cells = (text.split("\t") if "\t" in text else text.split()) if not fault else []
            tag = bio_tag(cells[-1].strip()) if cells else ""
            if not fault and (len(cells) < 2 or not cells[0].strip() or not BIO_TAG.fullmatch(tag)):
                if text.startswith("#"):
                    continue
                fault = Message(
                    "file.not_a_tagged_word",
                    "not a word with a tag O, B-X or I-X (got {text})",
                    text=quote(text),
                )
            if fault:
                number = line.number
                break
            rows.append((*cells[:-1], tag))
        if fault:
            yield Row(number, fault=fault)
        elif rows:
            at = 1 if _is_numbered(rows) else 0
            words, names = [row[at].strip() for row in rows], [row[-1] for row in rows]
            read = _of_words(words, names, *_COLUMNS)
            yield Row(number, tuple(read[name] for name in columns))


def _is_numbered(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first column of a sentence has the numbers of its words."""
    return all(len(row) > 2 and row[0].strip() == str(n) for n, row in enumerate(rows, start=1))


def _sentences(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """The groups of lines between blank lines and lines that begin a document."""
    sentence: list[Line] = []
    for line in chain(lines, [Line(0, b"")]):
        if (line.content.strip() and not line.content.startswith(b"-DOCSTART-")) or line.fault:
            sentence.append(line)
        elif sentence:
            yield sentence
            sentence = []


def is_conll_line(text: str) -> bool:
    r"""Whether a line has a word and a tag, or begins a document.

    >>> is_conll_line("서울 B-LC"), is_conll_line("text\ttags"), is_conll_line("1\t서울\tLC_B")
    (True, False, True)
    """
    cells = text.split()
    if text.startswith("-DOCSTART-"):
        return True
    return len(cells) > 1 and BIO_TAG.fullmatch(bio_tag(cells[-1])) is not None

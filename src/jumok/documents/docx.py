"""Word documents (.docx): their paragraphs as HTML, and the document with translated ones.

    html, write = read(data)
    write(translate_document(model, html, format="html").text)

Text in the formatting of most characters of a paragraph has no tag; other formatting and links are
<b>, tabs, pictures, notes and fields <img>, and line breaks, which end a text, <br>. Text boxes,
comments and tracked changes are not translated; the rest of the file stays as it is.
"""

import html
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from typing import Any

from lxml import etree

from jumok.errors import InputError

MAX_BYTES = 2**30  # of all parts, decompressed
# RuntimeError: a password, or a method of compression that Python lacks.
DAMAGED = (ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile)

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_PART = re.compile(r"word/(document|(header|footer)\d*|footnotes|endnotes)\.xml")
_MARKUP = re.compile(r'<b id="(\d+)">(.*?)</b>|<(?:img|br) id="(\d+)">|$', re.DOTALL)
_UNSEEN = {_W + name for name in ("pPr", "rPr", "proofErr", "lastRenderedPageBreak")}
_LANGUAGE = re.compile(rb"<w:lang [^>]*>|<w:rFonts w:hint=[^>]*>| xmlns:\w+=\"[^\"]*\"")

Node = Any  # an element of lxml
Piece = tuple[Node, bytes, str]  # a run or a link, its formatting, its text; b"": it stays


def read(data: bytes) -> tuple[str, Callable[[str], bytes]]:
    """The paragraphs of a file as HTML, and the function from translated ones to a file.

    Raises InputError for another file, and for a damaged one.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        parts = [part for part in archive.infolist() if _PART.fullmatch(part.filename)]
        size = sum(part.file_size for part in archive.infolist())
        if not parts or size > MAX_BYTES or archive.testzip() is not None:
            raise ValueError
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        trees = {part.filename: etree.fromstring(archive.read(part), parser) for part in parts}
    except (*DAMAGED, etree.XMLSyntaxError):
        raise InputError(
            "documents.not_docx",
            "a .docx file must be a zip file with word/document.xml, its parts at most {most:,} "
            "bytes, got another or a damaged file; save the document again as .docx",
            most=MAX_BYTES,
        ) from None
    nodes = [node for tree in trees.values() for node in tree.iter(_W + "p")]
    outer = [node for node in nodes if next(node.iterancestors(_W + "p"), None) is None]
    read_ones = [(node, _merged(node)) for node in outer]
    found = [(node, pieces) for node, pieces in read_ones if any(p[2].strip() for p in pieces)]

    def write(translated: str) -> bytes:
        for (node, pieces), line in zip(found, translated.split("</p>\n")[:-1], strict=True):
            _replace(node, pieces, line.removeprefix("<p>"))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
            for part in archive.infolist():
                tree = trees.get(part.filename)
                content = archive.read(part) if tree is None else etree.tostring(
                    tree, xml_declaration=True, encoding="UTF-8", standalone=True
                )  # fmt: skip
                out.writestr(copy(part), content, zipfile.ZIP_DEFLATED)  # it sets the offset
        return buffer.getvalue()

    return "".join(f"<p>{_to_html(pieces)}</p>\n" for _, pieces in found), write


def _merged(paragraph: Node) -> list[Piece]:
    """The pieces of a paragraph, one for text that is formatted equally."""
    merged: list[Piece] = []
    for node, key, text in (piece for child in paragraph for piece in _pieces(child)):
        if key and merged and merged[-1][1] == key:
            text = merged.pop()[2] + text
        merged.append((node, key, text))
    return merged


def _pieces(node: Node) -> Iterator[Piece]:
    """The pieces of a child of a paragraph: of a run one for each text, tab or picture."""
    if node.tag == _W + "hyperlink":
        yield node, etree.tostring(node), "".join(t.text or "" for t in node.iter(_W + "t"))
    elif node.tag == _W + "r":
        key = b"r" + b"".join(etree.tostring(c) for c in node.iterfind(f"{_W}rPr/*"))
        for child in (child for child in node if child.tag not in _UNSEEN):
            run = _emptied(node)
            if child.tag == _W + "t":
                yield run, _LANGUAGE.sub(b"", key), child.text or ""
            else:
                run.append(deepcopy(child))
                yield run, b"", ""
    elif node.tag not in _UNSEEN:
        yield node, b"", ""


def _emptied(node: Node) -> Node:
    """A run, or a link with its first run, without content."""
    emptied = deepcopy(node)
    first, *others = emptied.iter(_W + "r")
    for child in [*others, *(child for child in first if child.tag != _W + "rPr")]:
        child.getparent().remove(child)
    return emptied


def _usual(pieces: list[Piece]) -> Piece:
    """A piece with the formatting of most characters."""
    lengths = Counter[bytes]()
    for _, key, text in pieces:
        lengths[key] += len(text)
    return next(piece for piece in pieces if piece[1] == lengths.most_common(1)[0][0])


def _to_html(pieces: list[Piece]) -> str:
    usual, parts = _usual(pieces)[1], []
    for i, (node, key, text) in enumerate(pieces):
        words = html.escape(text, quote=False)
        name = "br" if any(node.find(_W + tag) is not None for tag in ("br", "cr")) else "img"
        marked = f'<b id="{i}">{words}</b>' if key else f'<{name} id="{i}">'
        parts.append(words if key == usual else marked)
    return "".join(parts)


def _replace(paragraph: Node, pieces: list[Piece], translated: str) -> None:
    """Write the pieces of a translated paragraph in place of its own."""
    usual, position, children = _usual(pieces)[0], 0, []
    for match in _MARKUP.finditer(translated):
        runs = [(usual, translated[position : match.start()])]
        if match[1]:
            runs.append((pieces[int(match[1])][0], match[2]))
        for shape, text in ((shape, text) for shape, text in runs if text):
            children.append(_emptied(shape))
            run = next(children[-1].iter(_W + "r"))
            etree.SubElement(run, _W + "t", {_SPACE: "preserve"}).text = html.unescape(text)
        children += [pieces[int(match[3])][0]] if match[3] else []
        position = match.end()
    paragraph[:] = [*paragraph.iterfind(_W + "pPr"), *children]

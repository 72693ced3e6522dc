"""Lines: a translated block is broken into as many lines as the block of the file has."""

from collections.abc import Callable, Sequence

from jumok.documents.placement import Piece


def fill(
    pieces: Sequence[Piece],
    separators: Sequence[str],
    may_start: Callable[[str], bool],
    *,
    within_words: bool = True,
) -> str | None:
    r"""The pieces as one text, with each of the separators between two of its lines.

    Lines end at spaces before words that `may_start` a line, and are about equally long. Where
    there are fewer spaces, lines end `within_words`, or there are fewer lines; None if there are
    fewer characters.

    >>> pieces = [Piece("one", "word"), Piece(" ", "space"), Piece("two", "word")]
    >>> fill(pieces, ["\n  "], bool)
    'one\n  two'
    >>> fill(pieces, [], bool)
    'one two'
    """
    if not separators:
        return "".join(piece.text for piece in pieces)
    groups = _groups(pieces, may_start)
    if not within_words:
        separators = separators[: len(groups) - 1]
    while len(groups) <= len(separators):
        longest = max(range(len(groups)), key=lambda i: _breakable(groups[i]))
        halves = _halves(groups[longest], may_start)
        if halves is None:
            return None
        groups[longest : longest + 1] = halves
    return _joined(groups, separators)


Group = tuple[str, list[Piece]]  # what precedes it within a line, and what is not broken


def _groups(pieces: Sequence[Piece], may_start: Callable[[str], bool]) -> list[Group]:
    """The parts between the spaces where a line may end."""
    groups: list[Group] = [("", [])]
    for number, piece in enumerate(pieces):
        following = "".join(each.text for each in pieces[number + 1 : number + 4])
        if piece.kind == "space" and groups[-1][1] and following and may_start(following):
            groups.append((piece.text, []))
        else:
            groups[-1][1].append(piece)
    return groups


def _breakable(group: Group) -> int:
    """The characters of the longest word of a group."""
    return max((len(each.text) for each in group[1] if _is_plain(each)), default=0)


def _is_plain(piece: Piece) -> bool:
    """Whether it is a word without an escape."""
    return piece.kind == "word" and piece.text.isalnum()


def _halves(group: Group, may_start: Callable[[str], bool]) -> list[Group] | None:
    """A group broken within its longest word; None if that has one character."""
    length = _breakable(group)
    before, pieces = group
    if length < 2:
        return None
    at = next(n for n, each in enumerate(pieces) if _is_plain(each) and len(each.text) == length)
    text, middle = pieces[at].text, length // 2
    if not may_start(text[middle:]):
        return None
    first, second = Piece(text[:middle], "word"), Piece(text[middle:], "word")
    return [(before, [*pieces[:at], first]), ("", [second, *pieces[at + 1 :]])]


def _joined(groups: Sequence[Group], separators: Sequence[str]) -> str:
    """The groups on lines of about equal length."""
    texts = ["".join(piece.text for piece in pieces) for _, pieces in groups]
    total, n_lines = sum(map(len, texts)), len(separators) + 1
    written, length, line = [texts[0]], len(texts[0]), 1
    for number in range(1, len(texts)):
        needed = len(texts) - number == n_lines - line  # every group left begins a line
        if line < n_lines and (needed or length >= total * line / n_lines):
            written.append(separators[line - 1])
            line += 1
        else:
            written.append(groups[number][0])
        written.append(texts[number])
        length += len(texts[number])
    return "".join(written)

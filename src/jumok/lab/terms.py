"""Names and terms with their English, read from the parentheses of Korean articles."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from jumok.data.numbers.number_words import josa

# Up to five Korean words, then Latin letters in parentheses.
_GLOSS = re.compile(
    r"((?:[가-힣0-9·]+ ){0,4}[가-힣·]+) ?\(([A-Za-z][A-Za-z '&-]{1,48}[A-Za-z])[,)]"
)
# A word with such an end before the term belongs to the sentence: particles, endings of verbs.
_LEADING = re.compile(
    r"(은|는|이|가|을|를|의|에|에서|에게|으로|로|와|과|도|만|까지|부터|처럼|보다|인|한|된|운|던|할|될|받은"
    r"|적인|하는|되는|있는|없는|같은|위한|따른|다른|모든|여러|했던|라는|란|하며|이며|으며|하고|이고|되고"
    r"|되어|하여|해|이자|및|또는|등|어떤|그|각|즉|때|중|당시|다|서|면|며|고|지만|라고|뿐|나|년|월|일|세기"
    r"|씨)$"
)
_ENDING = re.compile(r"..+(는|을|를|다|에서|으로|하여|한|된)$")
_FUNCTION_WORD = re.compile("of|the|and|in|for|on|to|an?|at|by|with")
_NOT_ENGLISH = re.compile(
    "der|die|das|de[nmsil]|von|und|zur?|im|am|du|dell[ae]|les?|el|los|las?|y|et|d[aio]|dos|a[bd]|ex|"
    "il|une?|en|aux|e|o|n[aio]|wa|ga|van|het|een|og|av|per"
)
_ABBREVIATION = re.compile(r"[A-Z& -]+")
_MAX_WORDS = 5

# Sentences around a name: the particle that follows it, the rest in Korean, the English sentence.
_TEMPLATES = (
    ("에", " 대해 알려 주세요.", "Tell me about {}."),
    ("에", " 관한 책을 읽었어요.", "I read a book about {}."),
    ("은(는)", " 이 글에서 처음 나와요.", "{} appears in this text for the first time."),
    ("의", " 역사", "The history of {}"),
    ("을(를)", " 들어 본 적이 있나요?", "Have you ever heard of {}?"),
    ("이(가)", " 어디에 있는지 몰라요.", "I don't know where {} is."),
)


def read_terms(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The terms of lines with the most frequent English of each, sorted.

    As many Korean words belong to a term as its English has words without articles and
    prepositions, less those that end like a verb or with a particle: a rule that is wrong for
    about one in eight.

    >>> list(read_terms(["그는 조지 워싱턴(George Washington)과 전기장(electric field)을 말했다."]))
    [('전기장', 'electric field'), ('조지 워싱턴', 'George Washington')]
    """
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        for korean, english in _GLOSS.findall(line):
            term = _term(korean.split(), english.split())
            if term:
                counts[term, " ".join(english.split())] += 1
    best: dict[str, tuple[int, str]] = {}
    for (term, english), count in sorted(counts.items()):
        if count > best.get(term, (0, ""))[0]:
            best[term] = count, english
    for term, (_, english) in best.items():
        yield term, english


def is_name(english: str) -> bool:
    """Whether each word of a term except articles and prepositions has a capital letter.

    >>> is_name("Joan of Arc"), is_name("electric field")
    (True, False)
    """
    words = [word for word in english.split() if not _FUNCTION_WORD.fullmatch(word)]
    return all(word[0].isupper() for word in words)


def in_sentence(name: str, english: str, number: int) -> tuple[str, str]:
    """A name and its English in one of six sentences.

    >>> in_sentence("조지 워싱턴", "George Washington", 4)
    ('조지 워싱턴을 들어 본 적이 있나요?', 'Have you ever heard of George Washington?')
    """
    particle, rest, sentence = _TEMPLATES[number % len(_TEMPLATES)]
    return f"{name}{josa(name, particle)}{rest}", sentence.format(english)


def _term(korean: list[str], english: list[str]) -> str:
    """The last Korean words that the English translates; "" where that is not clear."""
    n_words = sum(not _FUNCTION_WORD.fullmatch(word.lower()) for word in english)
    foreign = any(_NOT_ENGLISH.fullmatch(word.lower()) for word in english)
    if foreign or not 0 < n_words <= _MAX_WORDS or _ABBREVIATION.fullmatch(" ".join(english)):
        return ""
    words = korean[-n_words:]
    while len(words) > 1 and (_LEADING.search(words[0]) or words[0].isdigit()):
        words = words[1:]
    inside = any(len(word) > 2 and word[-1] in "은는을를" for word in words[:-1])
    alone = len(words) == 1
    short = len(words[0]) < (4 if n_words > 2 else 2)
    if inside or (alone and (short or _ENDING.fullmatch(words[0]))):
        return ""
    return " ".join(words)

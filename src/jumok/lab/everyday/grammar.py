"""A grammar of everyday sentences: Korean in four levels of speech, and English.

Sentences are a subject, a phrase of words.toml, a time, in the tenses and moods of conversation.
The forms of Korean verbs follow from the stem, the form in -아/어 and the form before -면.
"""

import random
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

WORDS = Path(__file__).parent / "words.toml"
Pair = tuple[str, str]

_SYLLABLES, _FINALS = 0xAC00, 28  # Hangul syllables: 28 finals of each pair of the other letters
_N, _L, _B, _SS = 4, 8, 17, 20  # the finals ㄴ, ㄹ, ㅂ, ㅆ

STATES = ("know", "like", "love", "hate", "see", "hear", "forget", "lose")


class Verb(NamedTuple):
    """The forms of a Korean verb that others follow from: 먹, 먹어, 먹으."""

    stem: str
    infinitive: str
    before_myeon: str

    @classmethod
    def of(cls, stem: str, infinitive: str, before_myeon: str = "") -> "Verb":
        """The verb; only an irregular form before -면 is named.

        >>> Verb.of("먹", "먹어"), Verb.of("만들", "만들어").before_myeon
        (Verb(stem='먹', infinitive='먹어', before_myeon='먹으'), '만들')
        """
        regular = stem if final(stem) in (0, _L) else stem + "으"
        return cls(stem, infinitive, before_myeon or regular)

    @property
    def past(self) -> str:
        """The stem of the past: 먹었."""
        return with_final(self.infinitive, _SS)

    @property
    def open(self) -> str:
        """The stem without ㄹ: 만드."""
        return with_final(self.stem, 0) if final(self.stem) == _L else self.stem

    @property
    def open_myeon(self) -> str:
        """The form before -세요: 먹으, 만드."""
        return self.open if final(self.before_myeon) == _L else self.before_myeon

    @property
    def future(self) -> str:
        """The form before 거예요: 먹을."""
        return with_final(self.before_myeon, _L)

    @property
    def formal(self) -> str:
        """The formal present: 먹습니다, 갑니다."""
        closed = final(self.open)
        return self.stem + "습니다" if closed else with_final(self.open, _B) + "니다"

    @property
    def written(self) -> str:
        """The present of written Korean: 먹는다, 간다."""
        return self.stem + "는다" if final(self.open) else with_final(self.open, _N) + "다"

    @property
    def did(self) -> str:
        """The past before a noun: 먹은, 간."""
        return with_final(self.open_myeon, _N)


class Phrase(NamedTuple):
    """A verb with its object in Korean, and its forms in English."""

    object: str
    verb: Verb
    base: str
    past: str
    participle: str

    def __call__(self, form: str) -> str:
        """The object and a form of the verb."""
        return f"{self.object} {form}"

    @property
    def is_state(self) -> bool:
        """Whether its verb has no progressive in English: to know, to like."""
        return self.base.partition(" ")[0] in STATES

    @property
    def third(self) -> str:
        """The third person: eats lunch."""
        return first_word(self.base, third_person)

    @property
    def ing(self) -> str:
        """The gerund: eating lunch."""
        return first_word(self.base, gerund)


def final(word: str) -> int:
    """The final of the last syllable; 0 if it has none."""
    return (ord(word[-1]) - _SYLLABLES) % _FINALS


def with_final(word: str, number: int) -> str:
    """The word with another final in its last syllable.

    >>> with_final("가", 20), with_final("만들", 0)
    ('갔', '만드')
    """
    last = ord(word[-1])
    return word[:-1] + chr(last - (last - _SYLLABLES) % _FINALS + number)


def particle(noun: str, closed: str, open_: str) -> str:
    """The noun with a particle: 은 or 는, 이 or 가.

    >>> particle("책", "이", "가"), particle("나무", "이", "가")
    ('책이', '나무가')
    """
    return noun + (closed if final(noun) else open_)


def subject_form(noun: str) -> str:
    """The noun with 이/가, and 제가 and 내가.

    >>> subject_form("저"), subject_form("민수")
    ('제가', '민수가')
    """
    return {"저": "제가", "나": "내가"}.get(noun) or particle(noun, "이", "가")


def first_word(phrase: str, change: Callable[[str], str]) -> str:
    """The phrase with its first word changed."""
    word, space, rest = phrase.partition(" ")
    return change(word) + space + rest


def third_person(verb: str) -> str:
    """The third person of a verb.

    >>> third_person("go"), third_person("study"), third_person("play")
    ('goes', 'studies', 'plays')
    """
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s")


def past_tense(verb: str) -> str:
    """The regular past.

    >>> past_tense("like"), past_tense("clean")
    ('liked', 'cleaned')
    """
    return verb + ("d" if verb.endswith("e") else "ed")


def gerund(verb: str) -> str:
    """The form in -ing.

    >>> gerund("make"), gerund("sit"), gerund("see")
    ('making', 'sitting', 'seeing')
    """
    if verb in ("sit", "get", "run", "swim", "quit", "win", "forget"):
        return verb + verb[-1] + "ing"
    drops = verb.endswith("e") and not verb.endswith("ee")
    return (verb[:-1] if drops else verb) + "ing"


@cache
def words() -> dict[str, Any]:
    """The tables of words.toml."""
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


@cache
def phrases() -> tuple[Phrase, ...]:
    """All phrases."""
    return tuple(_phrases())


def _phrases() -> Iterator[Phrase]:
    for entry in words()["phrases"]:
        base, past, participle = entry["en"]
        past = past or first_word(base, past_tense)
        verb = Verb.of(*entry["ko"])
        for pair in entry["objects"]:
            korean, english = pair.split(":")
            forms = (form.replace("*", english) for form in (base, past, participle or past))
            yield Phrase(korean, verb, *forms)


def generate(n: int, seed: int) -> list[Pair]:
    """n distinct pairs; the same for the same seed.

    >>> len(set(generate(50, 0)))
    50
    """
    rng = random.Random(seed)
    found: dict[Pair, None] = {}
    patterns, weights = zip(*PATTERNS, strict=True)
    while len(found) < n:
        korean, english = rng.choices(patterns, weights)[0](rng)
        found[korean, english[0].upper() + english[1:]] = None
    return list(found)


# The endings of statements: polite, formal, familiar, written.
def _present(verb: Verb) -> tuple[str, ...]:
    return verb.infinitive + "요.", verb.formal + ".", verb.infinitive + ".", verb.written + "."


def _past(verb: Verb) -> tuple[str, ...]:
    return tuple(verb.past + end for end in _ENDS)


def _future(verb: Verb) -> tuple[str, ...]:
    return tuple(f"{verb.future} {end}" for end in ("거예요.", "것입니다.", "거야.", "것이다."))


def _progressive(verb: Verb) -> tuple[str, ...]:
    return tuple(f"{verb.stem}고 있{end}" for end in _ENDS)


def _state(stem: str, infinitive: str) -> tuple[str, ...]:
    """The present of an adjective, which has no 는 in written Korean."""
    formal = Verb.of(stem, infinitive).formal
    return infinitive + "요.", formal + ".", infinitive + ".", stem + "다."


_ENDS = ("어요.", "습니다.", "어.", "다.")
_NOT = ("아요.", "습니다.", "아.", "는다.")
_DO = ("해요.", "합니다.", "해.", "한다.")


def _be(person: str, *, past: bool = False) -> str:
    if past:
        return "were" if person == "p" else "was"
    return {"1": "am", "p": "are"}.get(person, "is")


def _subject(rng: random.Random, first: int = 0) -> tuple[str, str, str]:
    """Korean with 은/는, 이/가 or nothing, English, person."""
    noun, english, person = rng.choice(words()["subjects"][first:])
    if person == "1" and rng.random() < 0.5:
        return "", english, person
    topic = particle(noun, "은", "는") if rng.random() < 0.8 else subject_form(noun)
    return topic + " ", english, person


_WOMEN = ("she", "mother", "Mom", "grandmother", "sister", "woman", "girl", "Mary", "Suji",
          "Yeonghui", "Jimin", "aunt", "wife", "daughter")  # fmt: skip
_OWN = {"I": "my", "we": "our", "they": "their", "people": "their", "you": "your"}


def own(text: str, subject: str) -> str:
    """The text with the possessive of the subject instead of "my".

    >>> own("lost my bag", "she"), own("call my mother", "we")
    ('lost her bag', 'call our mother')
    """
    last = subject.split()[-1]
    his = "their" if last in ("children", "students", "friends") else "his"
    whose = _OWN.get(subject) or ("her" if last in _WOMEN else his)
    return f" {text} ".replace(" my ", f" {whose} ").strip()


def _sentence(subject: str, predicate: str) -> str:
    return f"{subject} {own(predicate, subject)}"


def _choose(rng: random.Random, *, acts: bool = False) -> Phrase:
    """A phrase; `acts`: one that has a progressive."""
    phrase = rng.choice(phrases())
    return _choose(rng, acts=True) if acts and phrase.is_state else phrase


_TIMES = {
    "present": ("매일:every day", "항상:always", "자주:often", "가끔:sometimes", "보통:usually"),
    "past": ("어제:yesterday", "지난주에:last week", "어젯밤에:last night", "방금:just",
             "이미:already", "오늘 아침에:this morning", "작년에:last year",
             "3일 전에:three days ago"),
    "future": ("내일:tomorrow", "다음 주에:next week", "오늘 밤에:tonight", "곧:soon",
               "주말에:on the weekend", "내년에:next year", "나중에:later"),
    "progressive": ("지금:now", "지금:right now"),
}  # fmt: skip
_ADVERBS = ("always", "often", "sometimes", "usually", "just", "already")
_TENSES = {"present": _present, "past": _past, "future": _future, "progressive": _progressive}


def _statement(rng: random.Random) -> Pair:
    """A subject, a time and a phrase in the present, past, future or progressive."""
    topic, english, person = _subject(rng)
    tense = rng.choice(("present", "past", "past", "future", "progressive"))
    phrase = _choose(rng, acts=tense == "progressive")
    time, when = rng.choice(_TIMES[tense]).split(":") if rng.random() < 0.5 else ("", "")
    did = {
        "present": phrase.third if person == "s" else phrase.base,
        "past": phrase.past,
        "future": f"will {phrase.base}",
        "progressive": f"{_be(person)} {phrase.ing}",
    }[tense]
    predicate = f"{when} {did}" if when in _ADVERBS else f"{did} {when}".strip()
    korean = phrase(rng.choice(_TENSES[tense](phrase.verb)))
    return f"{topic}{time} {korean}".replace("  ", " ").strip(), _sentence(english, predicate) + "."


def _negative(rng: random.Random) -> Pair:
    topic, english, person = _subject(rng)
    phrase = _choose(rng)
    verb, base = phrase.verb, phrase.base
    korean, did = rng.choice((
        (f"{verb.stem}지 않{rng.choice(_NOT)}", f"{'does' if person == 's' else 'do'}n't {base}"),
        (f"안 {rng.choice(_present(verb))}", f"{'does' if person == 's' else 'do'}n't {base}"),
        (f"{verb.stem}지 않았{rng.choice(_ENDS)}", f"didn't {base}"),
        (f"안 {rng.choice(_past(verb))}", f"didn't {base}"),
        (f"안 {rng.choice(_future(verb))}", f"won't {base}"),
        (f"{verb.stem}지 않을 거예요.", f"won't {base}"),
        (f"{verb.future} 수 없{rng.choice(_ENDS)}", f"can't {base}"),
        (f"못 {rng.choice(_present(verb))}", f"can't {base}"),
        (f"못 {rng.choice(_past(verb))}", f"couldn't {base}"),
    ))  # fmt: skip
    return topic + phrase(korean), _sentence(english, did) + "."


def _modal(rng: random.Random) -> Pair:
    """Wanting, being able, having to, planning, having done, liking to, beginning."""
    topic, english, person = _subject(rng)
    phrase = _choose(rng, acts=True)
    verb, base, third = phrase.verb, phrase.base, person == "s"
    end, do = rng.choice(_ENDS), rng.choice(_DO)
    want = f"{verb.stem}고 싶어 {do}" if third else f"{verb.stem}고 싶{end}"
    has, s = ("has", "s") if third else ("have", "")
    korean, did = rng.choice((
        (want, f"want{s} to {base}"),
        (f"{verb.stem}고 싶지 않{rng.choice(_NOT[:3])}",
         f"{'does' if third else 'do'}n't want to {base}"),
        (f"{verb.future} 수 있{end}", f"can {base}"),
        (f"{verb.infinitive}야 {do}", f"{has} to {base}"),
        (f"{verb.infinitive}야 돼요.", f"{has} to {base}"),
        (f"{verb.before_myeon}려고 {do}", f"{_be(person)} going to {base}"),
        (f"{verb.did} 적이 있{end}", f"{has} {phrase.participle} before"),
        (f"{verb.did} 적이 없{end}", f"{has} never {phrase.participle}"),
        (f"{verb.open}는 것을 좋아{do}", f"like{s} {phrase.ing}"),
        (f"{verb.stem}기 시작했{end}", f"started {phrase.ing}"),
        (f"{verb.open}는 것을 싫어{do}", f"hate{s} {phrase.ing}"),
    ))  # fmt: skip
    return topic + phrase(korean), _sentence(english, did) + "."


def _request(rng: random.Random) -> Pair:
    phrase = _choose(rng, acts=True)
    verb, base, ours = phrase.verb, own(phrase.base, "you"), own(phrase.base, "we")
    korean, english = rng.choice((
        (f"{verb.open_myeon}세요.", f"please {base}."),
        (f"{verb.infinitive} 주세요.", f"please {base}."),
        (f"{verb.infinitive} 주시겠어요?", f"could you {base}?"),
        (f"{verb.infinitive} 줄래?", f"will you {base}?"),
        (f"{verb.stem}지 마세요.", f"please don't {base}."),
        (f"{verb.stem}지 마.", f"don't {base}."),
        (f"{verb.stem}자.", f"let's {ours}."),
        (f"{verb.stem}지 말자.", f"let's not {ours}."),
        (f"{verb.future}까요?", f"shall we {ours}?"),
        (f"{verb.infinitive}도 돼요?", f"may I {phrase.base}?"),
        (f"{verb.infinitive}도 될까요?", f"may I {phrase.base}?"),
        (f"{verb.infinitive}도 돼.", f"you may {base}."),
        (f"{verb.before_myeon}면 안 돼요.", f"you must not {base}."),
        (f"{verb.infinitive} 보세요.", f"try {own(phrase.ing, 'you')}."),
        (f"{verb.infinitive}라.", f"{base}."),
    ))  # fmt: skip
    return phrase(korean), english


def _question(rng: random.Random) -> Pair:
    phrase = _choose(rng, acts=True)
    verb, base, ing = phrase.verb, own(phrase.base, "you"), own(phrase.ing, "you")
    chance = rng.random()
    if chance < 0.1:
        return f"누가 {phrase(verb.past + '어요?')}", f"who {own(phrase.past, 'he')}?"
    ask, do, tail = rng.choice((
        ("", "", ""), ("", "", ""), ("", "", ""), ("왜 ", "why ", ""), ("언제 ", "when ", ""),
        ("누구와 ", "who ", " with"), ("어떻게 ", "how ", ""),
    ))  # fmt: skip
    if chance < 0.3:
        topic, who, person = _subject(rng, first=3)
        korean, asked = rng.choice((
            (f"{verb.past}어요?", "did"),
            (f"{verb.infinitive}요?", "does" if person == "s" else "do"),
            (f"{verb.future} 거예요?", "will"),
        ))  # fmt: skip
        return f"{topic}{ask}{phrase(korean)}", f"{do}{asked} {_sentence(who, phrase.base)}{tail}?"
    done = own(phrase.participle, "you")
    korean, english = rng.choice((
        (f"{verb.infinitive}요?", f"do you {base}"),
        (f"{verb.past}어요?", f"did you {base}"),
        (f"{verb.past}어?", f"did you {base}"),
        (f"{verb.past}습니까?", f"did you {base}"),
        (f"{verb.past}니?", f"did you {base}"),
        (f"{verb.future} 거예요?", f"will you {base}"),
        (f"{verb.future} 거야?", f"are you going to {base}"),
        (f"{verb.stem}고 있어요?", f"are you {ing}"),
        (f"{verb.stem}고 있니?", f"are you {ing}"),
        (f"{verb.stem}고 싶어요?", f"do you want to {base}"),
        (f"{verb.stem}고 싶어?", f"do you want to {base}"),
        (f"{verb.future} 수 있어요?", f"can you {base}"),
        (f"{verb.future} 수 있니?", f"can you {base}"),
        (f"{verb.infinitive}야 해요?", f"do I have to {phrase.base}"),
        *(() if ask else (
            (f"{verb.did} 적이 있어요?", f"have you ever {done}"),
            (f"{verb.did} 적 있어?", f"have you ever {done}"),
            (f"{verb.future}래요?", f"would you like to {base}"),
        )),
    ))  # fmt: skip
    return ask + phrase(korean), f"{do}{english}{tail}?"


def _two(rng: random.Random) -> Pair:
    """Two phrases: and, before, after, while, but, in order to, because."""
    topic, english, person = _subject(rng)
    one, two = _choose(rng, acts=True), _choose(rng, acts=True)
    verb, past = one.verb, rng.choice(_past(two.verb))
    korean, did = rng.choice((
        (f"{one(verb.stem + '고')} {two(past)}", f"{one.past} and {two.past}"),
        (f"{one(verb.stem + '기 전에')} {two(past)}", f"{two.past} before {one.ing}"),
        (f"{one(verb.did + ' 후에')} {two(past)}", f"{two.past} after {one.ing}"),
        (f"{one(verb.before_myeon + '면서')} {two(past)}", f"{two.past} while {one.ing}"),
        (f"{one(verb.past + '지만')} {two('안 ' + past)}", f"{one.past}, but didn't {two.base}"),
        (f"{one(verb.before_myeon + '려고')} {two(past)}", f"{two.past} to {one.base}"),
        (f"{one(verb.infinitive + '야 해서')} {two('못 ' + past)}",
         f"couldn't {two.base} because {'I' if person == '1' else english} had to {one.base}"),
    ))  # fmt: skip
    return topic + korean, _sentence(english, did) + "."


def _if(rng: random.Random) -> Pair:
    """A state of things and a phrase: if, because, although, when."""
    noun, stem, infinitive, english = rng.choice(words()["thing_states"])
    state, phrase = Verb.of(stem, infinitive, _irregular(stem, infinitive)), _choose(rng, acts=True)
    present = english.replace("{", "").replace("}", "")
    past = english.replace("{is}", "was").replace("{are}", "were")
    thing, verb = subject_form(noun), phrase.verb
    korean, said = rng.choice((
        (f"{state.before_myeon}면 {phrase(rng.choice(_future(verb)))}",
         f"if {present}, I will {phrase.base}."),
        (f"{infinitive}서 {phrase(rng.choice(_past(verb)))}", f"I {phrase.past} because {past}."),
        (f"{state.past}지만 {phrase(rng.choice(_past(verb)))}", f"{past}, but I {phrase.past}."),
        (f"{stem}기 때문에 {phrase(verb.future + ' 수 없어요.')}",
         f"I can't {phrase.base} because {present}."),
        (f"{state.future} 때 {phrase(verb.open + '는 것을 좋아해요.')}",
         f"I like {phrase.ing} when {present}."),
    ))  # fmt: skip
    return f"{thing} {korean}", said


def _irregular(stem: str, infinitive: str) -> str:
    """The form before -면 of an irregular adjective, otherwise "".

    >>> _irregular("춥", "추워"), _irregular("파랗", "파래"), _irregular("좋", "좋아")
    ('추우', '파라', '')
    """
    if final(stem) == _B and infinitive[-1] in "워와":
        return with_final(stem, 0) + "우"
    return with_final(stem, 0) if stem[-1] in "랗얗갛맣" else ""


def _thing_state(rng: random.Random) -> Pair:
    noun, stem, infinitive, english = rng.choice(words()["thing_states"])
    more, very = rng.choice((("", ""), ("", ""), ("아주 ", "very "), ("정말 ", "really ")))
    if "there " in english or "far" in english:
        more = very = ""
    time, when, past = rng.choice((
        ("오늘 ", " today", False), ("어제 ", " yesterday", True), ("", "", False), ("", "", True),
    ))  # fmt: skip
    head, _, rest = english.replace("{are}", "{is}").partition("{is}")
    plural = "{are}" in english
    be = ("were" if plural else "was") if past else ("are" if plural else "is")
    verb = Verb.of(stem, infinitive)
    if rng.random() < 0.2:
        korean = verb.past + "어요?" if past else infinitive + "요?"
        return f"{time}{subject_form(noun)} {korean}", f"{be} {head}{rest.strip()}{when}?"
    korean = rng.choice(_past(verb) if past else _state(stem, infinitive))
    text = f"{head}{be} {very}{rest.strip()}{when}."
    return f"{time}{subject_form(noun)} {more}{korean}", text


def _person_state(rng: random.Random) -> Pair:
    topic, english, person = _subject(rng)
    stem, infinitive, _, adjective = rng.choice(words()["people_adjectives"])
    more, very = rng.choice(
        (("", ""), ("아주 ", "very "), ("정말 ", "really "), ("매우 ", "very "))
    )
    past = rng.random() < 0.35
    be = _be(person, past=past)
    if rng.random() < 0.25:
        ends = tuple("았" + end for end in _ENDS) if past else ("아요.", "습니다.", "아.", "다.")
        return f"{topic}{stem}지 않{rng.choice(ends)}", f"{english} {be} not {adjective}."
    ends = _past(Verb.of(stem, infinitive)) if past else _state(stem, infinitive)
    return f"{topic}{more}{rng.choice(ends)}", f"{english} {be} {very}{adjective}."


def _is_a(rng: random.Random) -> Pair:
    """What a person is, was, is not or wants to be."""
    noun, english, person = rng.choice([each for each in words()["subjects"] if each[2] != "p"])
    job, what = rng.choice(words()["jobs"])
    third, be = person == "s", _be(person)
    korean, text = rng.choice((
        (f"{particle(job, '이', '가')} 아니에요.", f"{be} not {what}"),
        (particle(job, "이었어요.", "였어요."), f"{_be(person, past=True)} {what}"),
        (f"{particle(job, '이', '가')} 되고 싶{'어 해요.' if third else '어요.'}",
         f"want{'s' if third else ''} to be {what}"),
        (particle(job, "이에요.", "예요."), f"{be} {what}"),
        (f"{job}입니다.", f"{be} {what}"),
        (particle(job, "이야.", "야."), f"{be} {what}"),
        (particle(job, "이다.", "다."), f"{be} {what}"),
    ))  # fmt: skip
    return f"{particle(noun, '은', '는')} {korean}", f"{english} {text}."


def _this_is(rng: random.Random) -> Pair:
    korean, plain, one = rng.choice(words()["nouns"])
    this, english = rng.choice((
        ("이것은", "this"), ("이건", "this"), ("그것은", "it"), ("저것은", "that"),
        ("이게", "this"),
    ))  # fmt: skip
    owner, whose = rng.choice((
        ("", ""), ("", ""), ("제 ", "my "), ("내 ", "my "), ("우리 ", "our "), ("그의 ", "his "),
        ("그녀의 ", "her "), ("네 ", "your "),
    ))  # fmt: skip
    thing = whose + plain if whose else one.removeprefix("some ")
    polite = particle(korean, "이에요", "예요")
    if rng.random() < 0.3:
        return f"{this} {owner}{polite}?", f"is {english} {thing}?"
    return f"{this} {owner}{rng.choice((korean + '입니다', polite))}.", f"{english} is {thing}."


def _there_is(rng: random.Random) -> Pair:
    korean, plain, one = rng.choice(words()["nouns"])
    noun, end = particle(korean, "이", "가"), rng.choice(_ENDS)
    topic, english, person = _subject(rng)
    have = "has" if person == "s" else "have"
    spot, where = rng.choice(words()["spots"])
    abstract = korean in ("계획", "질문", "문제", "생각")
    found: Pair = rng.choice((
        (f"{topic}{noun} 있{end}", f"{english} {have} {one}."),
        (f"{topic}{noun} 없{end}", f"{english} {'does' if person == 's' else 'do'}n't have {one}."),
        (f"{noun} 필요해요.", f"I need {one}."),
        (f"{noun} 있어요?", f"do you have {one}?"),
        *(() if abstract else (
            (f"{spot} {noun} 있{end}", f"there is {one} {where}."),
            (f"{spot} {noun} 없{end}", f"there is no {plain} {where}."),
            (f"{particle(korean, '은', '는')} {spot} 있{end}", f"the {plain} is {where}."),
            (f"{particle(korean, '은', '는')} 어디에 있어요?", f"where is the {plain}?"),
        )),
    ))  # fmt: skip
    return found


def _described(rng: random.Random) -> Pair:
    """A noun with an adjective after it or before it."""
    korean, plain, one = rng.choice(words()["nouns"])
    stem, infinitive, before, adjective = rng.choice(words()["noun_adjectives"])
    if rng.random() < 0.5:
        this, english = rng.choice((
            ("이", "this"), ("그", "that"), ("저", "that"), ("그의", "his"), ("우리", "our"),
            ("제", "my"),
        ))  # fmt: skip
        topic = f"{this} {particle(korean, '은', '는')}"
        korean, be, end = rng.choice((
            (rng.choice(_state(stem, infinitive)), "is", "."),
            (rng.choice(_past(Verb.of(stem, infinitive))), "was", "."),
            (infinitive + "요?", "", "?"),
        ))  # fmt: skip
        text = f"{english} {plain} {be} {adjective}" if be else f"is {english} {plain} {adjective}"
        return f"{topic} {korean}", text + end
    topic, english, _ = _subject(rng)
    article = "some" if one.startswith("some") else "an" if adjective[0] in "aeiou" else "a"
    verb, past = rng.choice((
        (Verb.of("사", "사"), "bought"), (Verb.of("보", "봐"), "saw"),
        (Verb.of("원하", "원해"), "wanted"), (Verb.of("찾", "찾아"), "found"),
    ))  # fmt: skip
    thing = f"{before} {particle(korean, '을', '를')}"
    text = f"{english} {past} {article} {adjective} {plain}."
    return f"{topic}{thing} {rng.choice(_past(verb))}", text


def _relative(rng: random.Random) -> Pair:
    phrase = _choose(rng, acts=True)
    who, one = rng.choice(
        (("사람", "person"), ("남자", "man"), ("여자", "woman"), ("학생", "student"))
    )
    topic = particle(who, "은", "는")
    if rng.random() < 0.5:
        noun, english, _ = rng.choice([each for each in words()["subjects"] if each[2] == "s"])
        ing = own(phrase.ing, "she" if who == "여자" else "he")
        return (
            f"{phrase(phrase.verb.stem + '고 있는')} {topic} {particle(noun, '이에요.', '예요.')}",
            f"the {one} who is {ing} is {english}.",
        )
    stem, infinitive, _, adjective = rng.choice(words()["people_adjectives"])
    past = own(phrase.past, "she" if who == "여자" else "he")
    return (
        f"{phrase(phrase.verb.did)} {topic} {rng.choice(_state(stem, infinitive))}",
        f"the {one} who {past} is {adjective}.",
    )


def _think(rng: random.Random) -> Pair:
    """What someone thinks, says or knows about another."""
    noun, english, _ = rng.choice(words()["subjects"][3:])
    phrase = _choose(rng, acts=True)
    verb = phrase.verb
    did, will = _sentence(english, phrase.past), _sentence(english, f"will {phrase.base}")
    korean, text = rng.choice((
        (verb.past + "다고 생각해요.", f"I think {did}."),
        (verb.future + " 거라고 생각해요.", f"I think {will}."),
        (verb.future + " 것 같아요.", f"I think {will}."),
        (verb.did + " 것 같아.", f"it seems that {did}."),
        (verb.past + "다고 들었어요.", f"I heard that {did}."),
        (verb.did + " 것을 알아요.", f"I know that {did}."),
        (verb.past + "는지 모르겠어요.", f"I don't know if {did}."),
        (verb.past + "는지 알아요?", f"do you know if {did}?"),
        (verb.future + "지도 몰라요.", _sentence(english, f"might {phrase.base}") + "."),
    ))  # fmt: skip
    return f"{subject_form(noun)} {phrase(korean)}", text


PATTERNS: tuple[tuple[Callable[[random.Random], Pair], float], ...] = (
    (_statement, 6), (_negative, 3), (_modal, 4), (_request, 3), (_question, 5), (_two, 3),
    (_if, 2), (_thing_state, 1), (_person_state, 2), (_is_a, 1), (_this_is, 1), (_there_is, 2),
    (_described, 2), (_relative, 1), (_think, 2),
)  # fmt: skip

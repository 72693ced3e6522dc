"""Constraints: every allowed text can be generated, nothing else, without dead ends."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from jumok.decoding import DecodingConfig, GenerationRequest, Hypothesis, generate_seq2seq
from jumok.decoding.constraints.automaton import Automaton
from jumok.decoding.constraints.constraint import Constraint, TokenAutomaton, any_text_of
from jumok.decoding.constraints.regex import compile_regex
from jumok.decoding.constraints.token_bytes import TokenBytes, read_token_bytes
from jumok.decoding.processors import NEG_INF, BannedSequences, ForcedToken, ProcessorContext
from jumok.errors import InputError
from jumok.models import EncoderDecoder, TransformerConfig
from jumok.text import SentencePieceTokenizer, VocabularyConfig
from tests.errors import raises

VOCABULARY = SentencePieceTokenizer.train(
    ["가 나 가나  다", "나 다 나다", "가나다"],
    VocabularyConfig(kind="bpe", size=19, required_characters=""),
)
BYTES = SentencePieceTokenizer.train(
    ["가 나 가나  다"], VocabularyConfig(size=275, byte_fallback=True)
)
END = VOCABULARY.eos_id
V = len(VOCABULARY)

PATTERNS = ["가나다", "(가|나)*", "나?( 다)+", ".{2}", "[^가]+ ?", "(가나){2,}|다", " 가", ""]
WORDS = ["가", "가나", "나 다", "다"]


def constraint(machine: Automaton, *limits: int) -> Constraint:
    language = TokenAutomaton(machine, read_token_bytes(VOCABULARY))
    return Constraint(language, end_id=END, limits=limits)


def allowed(constrain: Constraint, rows: Sequence[Sequence[int]], start: int = 1) -> list[set[int]]:
    """The allowed next tokens of each row; rows of one length, each of another text."""
    tokens = torch.tensor([[END + 1] * start + list(row) for row in rows])
    context = ProcessorContext(tokens, start, torch.arange(len(rows)))
    scores = constrain(torch.zeros(len(rows), V), context)
    return [set((row > NEG_INF).nonzero().flatten().tolist()) for row in scores]


def everything(constrain: Constraint, row: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All outputs that can be generated; every prefix must lead to one."""
    (tokens,) = allowed(constrain, [row])
    assert tokens
    for token in tokens:
        if token == END:
            yield row
        else:
            yield from everything(constrain, (*row, token))


def cuts(longest: int) -> dict[tuple[int, ...], str]:
    """All sequences of at most `longest` visible tokens, and their texts."""
    visible = [token for token in range(V) if VOCABULARY.decode([VOCABULARY.id("가"), token])[1:]]
    rows = [row for n in range(longest + 1) for row in product(visible, repeat=n)]
    return dict(zip(rows, VOCABULARY.decode_batch(rows), strict=True))


CUTS = cuts(3)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_all_matches_in_every_tokenization_and_nothing_else(pattern: str) -> None:
    """Against decoding every sequence of up to 3 tokens and asking Python's `re`."""
    written = list(everything(constraint(compile_regex(pattern), 4)))
    expected = {row for row, text in CUTS.items() if re.fullmatch(pattern, text)}
    assert expected
    assert len(written) == len(expected)
    assert set(written) == expected


def test_all_choices_in_every_tokenization_and_nothing_else() -> None:
    written = list(everything(constraint(any_text_of(WORDS), 4)))
    pattern = "|".join(WORDS)
    assert set(written) == {row for row, text in CUTS.items() if re.fullmatch(pattern, text)}


def test_texts_have_several_tokenizations() -> None:
    texts = [text for text in CUTS.values() if text == "가나"]
    assert len(texts) > 3  # 가 나, 가나, ▁가 나, ▁ 가나 ...


def test_finished_within_the_limit() -> None:
    machine = compile_regex("(나 ){2}가나")
    for limit in (6, 7):
        lengths = {len(row) + 1 for row in everything(constraint(machine, limit))}
        assert max(lengths) == limit
    shortest = min(lengths)
    with pytest.raises(InputError, match=f"at least {shortest} tokens, the shortest allowed text"):
        constraint(machine, shortest - 1)


def test_each_text_has_its_limit() -> None:
    constrain = constraint(compile_regex("(가 )*나"), 2, 9)
    short, long = allowed(constrain, [[], []])
    assert short < long
    assert VOCABULARY.id("나") in short
    assert VOCABULARY.id("가") in long - short


def test_the_state_follows_the_tokens_of_a_row() -> None:
    """Rows that are reordered, repeated and dropped, as beams are, and a prompt before them."""
    ga, na = VOCABULARY.id("가"), VOCABULARY.id("나")
    machine = compile_regex("가나가|나가나|가가가")
    constrain = constraint(machine, 9)
    steps = [[[ga], [na]], [[na, ga], [ga, na], [ga, ga]], [[ga, ga, ga], [na, ga, na]], [[na]]]
    for rows in steps:
        fresh = [allowed(constraint(machine, 9), [row])[0] for row in rows]
        assert allowed(constrain, rows) == fresh == allowed(constrain, rows, start=3)
    assert allowed(constrain, [[ga, na], [ga, ga]]) == [{ga}, {ga}]


def test_rejected_rows_do_not_affect_others() -> None:
    ga, na = VOCABULARY.id("가"), VOCABULARY.id("나")
    constrain = constraint(compile_regex("가나"), 5)
    tokens = torch.tensor([[ga], [na], [END]])  # three beams of one text, one of them possible
    scores = constrain(
        torch.zeros(3, V), ProcessorContext(tokens, 0, torch.zeros(3, dtype=torch.int64))
    )
    assert (scores > NEG_INF).sum(-1).tolist() == [1, 0, 0]


def test_a_model_may_have_more_rows_than_there_are_pieces() -> None:
    """As T5 has; a row without a piece is never generated."""
    constrain = constraint(compile_regex("가"), 5)
    context = ProcessorContext(torch.tensor([[2]]), 1, torch.tensor([0]))
    wide = constrain(torch.zeros(1, V + 7), context)
    assert (wide[:, V:] == NEG_INF).all()
    assert torch.equal(wide[:, :V], constrain(torch.zeros(1, V), context))


def test_texts_that_the_vocabulary_cannot_spell() -> None:
    with raises(InputError, "constraint.no_spellable_text"):
        constraint(compile_regex("뷁"), 9)
    some = list(everything(constraint(compile_regex("뷁|나뷁|가"), 3)))
    assert {VOCABULARY.decode(row) for row in some} == {"가"}  # 나 leads nowhere


def test_bytes_make_syllables() -> None:
    language = TokenAutomaton(compile_regex("뷁+"), read_token_bytes(BYTES))
    constrain = Constraint(language, end_id=BYTES.eos_id, limits=[8])
    row: list[int] = []
    counts = []
    while BYTES.eos_id not in row:
        scores = torch.zeros(1, len(BYTES))
        context = ProcessorContext(torch.tensor([[0, *row]]), 1, torch.tensor([0]))
        choices = (constrain(scores, context)[0] > NEG_INF).nonzero().flatten().tolist()
        row.append(max(choices))
        counts.append(len(choices))
    assert BYTES.decode(row) == "뷁" * 2
    assert counts == [2, 1, 1, 1, 2, 1, 1, 1]  # a space that is stripped may come first


def test_after_a_prompt_every_space_counts() -> None:
    spelling = read_token_bytes(VOCABULARY).after_text()
    language = TokenAutomaton(compile_regex(" 가"), spelling)
    constrain = Constraint(language, end_id=END, limits=[4])
    prompt = [VOCABULARY.id("나")]
    for row in everything(constrain):
        assert VOCABULARY.decode([*prompt, *row]) == "나 가"


def test_no_choices() -> None:
    for overrides in ([], [""], ["가", ""]):
        with raises(InputError, "constraint.no_choices"):
            any_text_of(overrides)


def test_the_fewest_tokens() -> None:
    """abcabc in two tokens, though the longest token leads astray."""
    spellings = (b"a", b"b", b"c", b"abc", b"abca")
    language = TokenAutomaton(any_text_of(["abcabc"]), TokenBytes(spellings, spellings))
    assert language.min_tokens[language.start] == 2
    assert language.tokens(language.start, 2).tolist() == [3]
    assert language.tokens(language.start, 3).tolist() == [3, 4]  # abca b c
    assert language.tokens(language.start, 4).tolist() == [0, 3, 4]
    assert language.min_tokens[language.state_of([0])] == 3


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocabulary_size=V, d_model=16, n_heads=2, d_ff=32, n_layers=1, max_length=32
    )
    model = EncoderDecoder(config).eval().requires_grad_(False)
    model.decoder.embedding.tokens.weight.mul_(
        3
    )  # a model with high probabilities, of banned tokens too
    return model


WAYS = {
    "greedy": DecodingConfig(max_length=9),
    "beam": DecodingConfig(beam=4, n_best=4, max_length=9),
    "exact beam": DecodingConfig(beam=3, n_best=2, early_stopping="never", max_length=7),
    "sampling": DecodingConfig(sample=True, n_best=5, temperature=1.5, top_p=0.9, max_length=9),
    "with others": DecodingConfig(beam=2, n_best=2, repetition_penalty=1.5, max_length=12),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pattern", ["(가|나 ?)+다", "(나다| ){2,3}가*", "가|나|다|가나다", "가나"])
def test_every_output_matches(model: EncoderDecoder, way: str, pattern: str) -> None:
    """Four sources at once: beams change places, finished ones leave, some hold nothing."""
    config = WAYS[way]
    source = torch.randint(4, V, (4, 5), generator=torch.Generator().manual_seed(1))

    def write(source: Tensor) -> list[list[Hypothesis]]:
        constrain = constraint(compile_regex(pattern), config.max_length)
        return generate_seq2seq(
            model,
            source,
            None,
            GenerationRequest(config, end_id=END, constraints=[constrain]),
            bos_id=2,
        )

    together = write(source)
    for number, answers in enumerate(together):
        assert answers
        for answer in answers:
            assert answer.finished
            assert re.fullmatch(pattern, VOCABULARY.decode(answer.ids))
        [alone] = write(source[number : number + 1])
        assert [answer.ids for answer in alone] == [answer.ids for answer in answers]
    texts = {VOCABULARY.decode(answer.ids) for answers in together for answer in answers}
    assert len(texts) > 1 or pattern == "가나" or way == "greedy"


def test_the_most_probable_match(model: EncoderDecoder) -> None:
    """A wide beam finds the best of all matches."""
    source, pattern, limit = torch.tensor([[7, 9, 8]]), "가나?다?|나가?", 4
    machine = compile_regex(pattern)
    rows = [[*row, END] for row in everything(constraint(machine, limit))]
    scores = []
    for row in rows:
        log_p = model(source, torch.tensor([[2, *row[:-1]]]))[0].log_softmax(-1)
        scores.append(log_p[torch.arange(len(row)), row].sum().item())
    config = DecodingConfig(beam=len(rows), length_penalty=0.0, max_length=limit)
    [[found]] = generate_seq2seq(
        model,
        source,
        None,
        GenerationRequest(config, end_id=END, constraints=[constraint(machine, limit)]),
        bos_id=2,
    )
    best = max(range(len(rows)), key=scores.__getitem__)
    assert [*found.ids, END] == rows[best]
    assert found.score == pytest.approx(scores[best], abs=1e-4)  # float32 sums


def test_a_forced_token_counts_towards_the_limit(model: EncoderDecoder) -> None:
    """Of five tokens three are left without the end; the text starts after the first."""
    config = DecodingConfig(
        sample=True, n_best=30, temperature=3.0, max_length=5, pattern="[가나다]+"
    )
    [answers] = generate_seq2seq(
        model,
        torch.tensor([[7, 9, 8]]),
        None,
        GenerationRequest(
            config, end_id=END, tokenizer=VOCABULARY, constraints=[ForcedToken(7, 0)]
        ),
        bos_id=2,
    )
    for answer in answers:
        assert answer.finished
        assert answer.ids[0] == 7
        assert re.fullmatch("[가나다]+", VOCABULARY.decode(answer.ids[1:]))
    assert max(len(answer.ids) for answer in answers) == 4


def blocked(*overrides: str) -> BannedSequences:
    """Ban these pieces, with and without the space before them."""
    return BannedSequences(
        [[VOCABULARY.id(piece)] for word in overrides for piece in (word, f"▁{word}")]
    )


SEARCHES = {
    "greedy": DecodingConfig(max_length=9),
    "beam": DecodingConfig(beam=2, max_length=9),
    "draws": DecodingConfig(sample=True, n_best=8, temperature=5.0, max_length=9),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_settings_that_ban_every_token_are_rejected(model: EncoderDecoder, search: str) -> None:
    """A sample that reaches a dead end raises, even if other samples of its text do not."""
    machine = compile_regex("가나|나가" if search == "draws" else "가나")
    processors = [blocked("나", "가나"), constraint(machine, 9)]
    source = torch.tensor([[7, 9, 8]])
    with raises(InputError, "constraint.no_token_allowed"):
        generate_seq2seq(
            model,
            source,
            None,
            GenerationRequest(SEARCHES[search], end_id=END, constraints=processors),
            bos_id=2,
        )


def test_a_beam_without_continuations_keeps_finished_hypotheses(model: EncoderDecoder) -> None:
    """가 is an output; its continuations in the second beam are banned."""
    processors = [blocked("나", "가나"), constraint(compile_regex("가( 나)?"), 9)]
    [answers] = generate_seq2seq(
        model,
        torch.tensor([[7, 9, 8]]),
        None,
        GenerationRequest(
            DecodingConfig(beam=4, n_best=4, max_length=9), end_id=END, constraints=processors
        ),
        bos_id=2,
    )
    assert {VOCABULARY.decode(answer.ids) for answer in answers} == {"가"}


@pytest.mark.parametrize("search", SEARCHES)
def test_no_output_ends_inside_an_allowed_word(model: EncoderDecoder, search: str) -> None:
    config = replace(SEARCHES[search], allowed=("가나",), forbidden=("나", "가나"))
    with raises(InputError, "constraint.no_token_allowed"):
        generate_seq2seq(
            model,
            torch.tensor([[7, 9, 8]]),
            None,
            GenerationRequest(config, end_id=END, tokenizer=VOCABULARY),
            bos_id=2,
        )


@pytest.mark.parametrize("search", SEARCHES)
def test_an_output_may_end_after_an_allowed_word(model: EncoderDecoder, search: str) -> None:
    """Though its end is forbidden, as by min_length; a strict constraint would refuse."""
    language = TokenAutomaton(compile_regex("가나?"), read_token_bytes(VOCABULARY))
    limited = Constraint(language, end_id=END, limits=[9], strict=False)
    [answers] = generate_seq2seq(
        model,
        torch.tensor([[7, 9, 8]]),
        None,
        GenerationRequest(
            SEARCHES[search],
            end_id=END,
            constraints=[blocked("나", "가나"), BannedSequences([[END]]), limited],
        ),
        bos_id=2,
    )
    assert {VOCABULARY.decode(answer.ids) for answer in answers} == {"가"}


def test_decomposed_text_settings_are_normalised() -> None:
    apart = unicodedata.normalize("NFD", "가나")
    config = DecodingConfig(choices=(apart,), forbidden=(apart,), prefix=apart)
    assert config.choices == config.forbidden == ("가나",)
    assert config.prefix == "가나"
    assert DecodingConfig(stop=(apart,)).stop == ("가나",)
    assert DecodingConfig(pattern=apart).pattern == "가나"

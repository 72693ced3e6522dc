"""Text settings: stop strings, forbidden and allowed words, prefixes, streaming."""

import dataclasses
import re
import unicodedata
from typing import Any

import pytest
import torch

from jumok.decoding import (
    DecodingConfig,
    GenerationRequest,
    TextStreamer,
    generate_lm,
    generate_seq2seq,
    truncate_at_stop,
)
from jumok.decoding.build import build_processors
from jumok.decoding.constraints.token_bytes import TokenBytes, all_spellings, read_token_bytes
from jumok.decoding.processors import ForcedToken
from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel, TransformerConfig
from jumok.text import SentencePieceTokenizer, VocabularyConfig
from tests.combinations import pairwise
from tests.errors import raises

TEXTS = ["가 나 다", "나라 다리 가나", "다 가 나라", "가 가 다리다", "라다 나가 다가나"]


@pytest.fixture(scope="module")
def vocabulary() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(TEXTS, VocabularyConfig(size=280, byte_fallback=True))


@pytest.fixture(scope="module")
def model(vocabulary: SentencePieceTokenizer) -> LanguageModel:
    """A model with Hangul tokens more probable than bytes."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocabulary_size=len(vocabulary), d_model=16, n_heads=2, d_ff=16, n_layers=1,
        max_length=64, tie_embeddings=False,
    )  # fmt: skip
    model = LanguageModel(config).eval().requires_grad_(False)
    for token in range(len(vocabulary)):
        if vocabulary.piece(token).startswith(("<0x", "[")):
            model.output.weight[token] *= 0.2
    model.output.weight *= 3
    return model


def texts_of(
    model: LanguageModel, vocabulary: SentencePieceTokenizer, config: DecodingConfig
) -> list[str]:
    """Twelve samples."""
    prompts = torch.tensor([vocabulary.encode("가")])
    [found] = generate_lm(
        model,
        prompts,
        None,
        GenerationRequest(config, end_id=vocabulary.eos_id, tokenizer=vocabulary),
    )
    return [vocabulary.decode(one.ids) for one in found]


def sampled(**settings: object) -> DecodingConfig:
    return DecodingConfig(sample=True, n_best=12, max_length=24, **settings)  # type: ignore[arg-type]


def test_forbidden_words_are_not_generated(
    model: LanguageModel, vocabulary: SentencePieceTokenizer
) -> None:
    free = texts_of(model, vocabulary, sampled())
    assert any("다" in text for text in free)
    pieces = [piece for piece in map(vocabulary.piece, range(len(vocabulary))) if "다" in piece]
    overrides = tuple({piece.strip("▁") for piece in pieces})
    assert not any("다" in t for t in texts_of(model, vocabulary, sampled(forbidden=overrides)))


def test_allowed_words(model: LanguageModel, vocabulary: SentencePieceTokenizer) -> None:
    """Whole words, whatever their pieces: with "나라" and "다" there is no single "라"."""
    found = texts_of(model, vocabulary, sampled(allowed=("나라", "다", "뷁")))
    for text in found:
        assert re.fullmatch("( ?(나라|다|뷁))+", text)
    assert any("라" in text for text in found)


def test_a_prefix_that_other_settings_do_not_allow(
    model: LanguageModel, vocabulary: SentencePieceTokenizer
) -> None:
    with raises(InputError, "decoding.prefix_forbidden"):
        texts_of(model, vocabulary, DecodingConfig(max_length=9, prefix="나라", forbidden=("라",)))
    with raises(InputError, "decoding.prefix_not_allowed"):
        texts_of(model, vocabulary, DecodingConfig(max_length=9, prefix="나라", allowed=("가",)))
    with raises(InputError, "decoding.allowed_not_in_vocabulary"):
        texts_of(model, vocabulary, DecodingConfig(max_length=9, allowed=("가", "")))


@pytest.mark.parametrize("prefix", ["나라", " 나라", "뷁 다"])
def test_a_prefix_continues_a_prompt_exactly(
    model: LanguageModel, vocabulary: SentencePieceTokenizer, prefix: str
) -> None:
    prompt = vocabulary.encode("가")
    config = DecodingConfig(max_length=12, prefix=prefix)
    [[one]] = generate_lm(
        model,
        torch.tensor([prompt]),
        None,
        GenerationRequest(config, end_id=vocabulary.eos_id, tokenizer=vocabulary),
    )
    assert vocabulary.decode([*prompt, *one.ids]).startswith(f"가{prefix}")


@pytest.mark.parametrize("beam", [1, 2])
def test_a_stop_string_that_starts_with_the_first_space(
    model: LanguageModel, vocabulary: SentencePieceTokenizer, beam: int
) -> None:
    prompts = torch.tensor([vocabulary.encode("가")] * 2)
    config = DecodingConfig(beam=beam, max_length=12, prefix=" 다리", stop=(" 다",))
    found = generate_lm(
        model,
        prompts,
        None,
        GenerationRequest(config, end_id=vocabulary.eos_id, tokenizer=vocabulary),
    )
    first = vocabulary.encode("다리")[0]
    assert [answer.ids for [answer] in found] == [[first]] * 2
    assert all(answer.finished for [answer] in found)


def test_a_decomposed_stop_string_stops(
    model: LanguageModel, vocabulary: SentencePieceTokenizer
) -> None:
    """NFD, as macOS and some keyboards store Korean; tokenizers decode to NFC."""
    stops: tuple[tuple[str, ...], ...] = ((unicodedata.normalize("NFD", " 다"),), (" 다",), ())
    apart, composed, never = (
        texts_of(model, vocabulary, DecodingConfig(max_length=12, prefix="나라 다리", stop=stop))
        for stop in stops
    )
    assert apart == composed != never


@pytest.mark.parametrize("beam", [1, 3])
def test_forced_prefixes(
    model: LanguageModel, vocabulary: SentencePieceTokenizer, beam: int
) -> None:
    config = DecodingConfig(beam=beam, n_best=beam, max_length=12, prefix="나라 다")
    for text in texts_of(model, vocabulary, config):
        assert text.startswith("나라 다")


def test_an_output_without_a_prompt_starts_a_text(
    model: LanguageModel, vocabulary: SentencePieceTokenizer
) -> None:
    """After [BOS] only, the first word has the tokens of the start of a text."""
    prompt = torch.tensor([[vocabulary.bos_id]])
    end_id = vocabulary.eos_id
    for settings in ({"prefix": "나라"}, {"choices": ("나라",)}, {"pattern": "나라"}):
        config = DecodingConfig(max_length=12, **settings)  # type: ignore[arg-type]
        [[one]] = generate_lm(
            model, prompt, None, GenerationRequest(config, end_id=end_id, tokenizer=vocabulary)
        )
        assert vocabulary.decode([vocabulary.bos_id, *one.ids]).startswith("나라")
    both = torch.tensor([[vocabulary.bos_id], vocabulary.encode("가")[:1]])
    with raises(InputError, "decoding.mixed_prompts"):
        generate_lm(
            model, both, None, GenerationRequest(config, end_id=end_id, tokenizer=vocabulary)
        )


def test_a_prefix_that_cannot_be_spelled_is_rejected() -> None:
    small = SentencePieceTokenizer.train(TEXTS, VocabularyConfig(size=24))
    with raises(InputError, "decoding.prefix_not_in_vocabulary"):
        build_processors(DecodingConfig(prefix="나는 ABC"), small.eos_id, small)


def test_a_prefix_is_generated_completely_or_rejected(
    model: LanguageModel, vocabulary: SentencePieceTokenizer
) -> None:
    config = DecodingConfig(max_length=1, prefix="나라 다 나라 다")
    with raises(InputError, "decoding.prefix_too_long"):
        texts_of(model, vocabulary, config)


def test_a_forced_end_takes_no_token_of_a_prefix(vocabulary: SentencePieceTokenizer) -> None:
    end = vocabulary.eos_id
    n = len(vocabulary.encode("나라 다"))
    for most in (n, n + 1):
        config, last = DecodingConfig(prefix="나라 다", max_length=most), ForcedToken(end, most - 1)
        if most > n:
            assert build_processors(config, end, vocabulary, [last], limits=[most])
            continue
        with pytest.raises(InputError, match=f"must take at most {n} tokens, got {n + 1}"):
            build_processors(config, end, vocabulary, [last], limits=[most])


@pytest.mark.parametrize(
    "constraint_settings",
    [{"prefix": "나라 다 나라 다"}, {"choices": ("나라 다 나라 다",)}],
    ids=str,
)
def test_a_short_source_leaves_enough_tokens_for_the_constraint(
    vocabulary: SentencePieceTokenizer, constraint_settings: dict[str, Any]
) -> None:
    """Even if max_ratio allows almost no tokens; a long source in the batch is unchanged."""
    torch.manual_seed(0)
    size = len(vocabulary)
    config = TransformerConfig(vocabulary_size=size, d_model=16, n_heads=2, d_ff=16, n_layers=1)
    model = EncoderDecoder(config).eval()
    found = generate_seq2seq(
        model,
        torch.tensor([[5] * 20, [5] + [0] * 19]),
        torch.tensor([[True] * 20, [True] + [False] * 19]),
        GenerationRequest(
            DecodingConfig(max_ratio=1.0, max_extra=0, max_length=40, **constraint_settings),
            end_id=vocabulary.eos_id,
            tokenizer=vocabulary,
        ),
        bos_id=vocabulary.bos_id,
    )
    texts = [vocabulary.decode(answer.ids) for [answer] in found]
    assert [text[:9] for text in texts] == ["나라 다 나라 다"] * 2
    assert len(found[1][0].ids) <= len(vocabulary.encode("나라 다 나라 다"))


@pytest.mark.parametrize(
    ("overrides", "search", "side"),
    pairwise(
        [
            {"prefix": "나라"},
            {"forbidden": ("다", "나라")},
            {"allowed": ("나라", "다")},
            {"stop": ("다", "리")},
            {"choices": ("나라", "다리 다", "가")},
            {"prefix": "나", "pattern": "나라( 다)*"},
        ],
        ["greedy", "beam", "sample"],
        ["left", "right"],
    ),
)
def test_a_single_prompt_equals_batched(
    model: LanguageModel,
    vocabulary: SentencePieceTokenizer,
    overrides: dict[str, str | int | tuple[str, ...]],
    search: str,
    side: str,
) -> None:
    chosen = {"greedy": {}, "beam": {"beam": 3, "n_best": 2}, "sample": {"sample": True}}[search]
    config = DecodingConfig(max_length=14, **overrides, **chosen)  # type: ignore[arg-type]
    rows = [vocabulary.encode(text) for text in ("가", "나라 다리 가나", "다 가")]
    longest = max(map(len, rows))
    gaps = [[0] * (longest - len(row)) for row in rows]
    padded = [
        gap + row if side == "left" else row + gap for row, gap in zip(rows, gaps, strict=True)
    ]
    masks = [[0] * len(gap) + [1] * len(row) for row, gap in zip(rows, gaps, strict=True)]
    real = torch.tensor([mask if side == "left" else mask[::-1] for mask in masks]).bool()
    end_id = vocabulary.eos_id
    together = generate_lm(
        model,
        torch.tensor(padded),
        real,
        GenerationRequest(config, end_id=end_id, tokenizer=vocabulary),
    )
    for row, several in zip(rows, together, strict=True):
        [alone] = generate_lm(
            model,
            torch.tensor([row]),
            None,
            GenerationRequest(config, end_id=end_id, tokenizer=vocabulary),
        )
        assert [one.ids for one in alone] == [one.ids for one in several]
        for one, other in zip(alone, several, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)  # float32 sums
            assert one.finished == other.finished


@pytest.mark.parametrize("search", ["sample", "beam"])
def test_stop_strings(
    model: LanguageModel, vocabulary: SentencePieceTokenizer, search: str
) -> None:
    stop = ("나 ", " 다")
    config = sampled(stop=stop)
    if search == "beam":
        config = DecodingConfig(beam=4, n_best=4, max_length=24)
        most_likely = texts_of(model, vocabulary, config)[0]
        stop = (most_likely[2:4],)
        config = dataclasses.replace(config, stop=stop)
    prompts = torch.tensor([vocabulary.encode("가")])
    [found] = generate_lm(
        model,
        prompts,
        None,
        GenerationRequest(config, end_id=vocabulary.eos_id, tokenizer=vocabulary),
    )
    stopped = 0
    for one in found:
        text, before = vocabulary.decode(one.ids), vocabulary.decode(one.ids[:-1])
        assert not any(word in before for word in stop)  # no token too many
        if any(word in text for word in stop):
            stopped += 1
            assert one.finished
            assert not any(word in truncate_at_stop(text, stop) for word in stop)
    assert stopped


@pytest.mark.parametrize("stop", [(), ("나 ", " 다", "가가가")])
def test_streamed_is_whole(
    model: LanguageModel, vocabulary: SentencePieceTokenizer, stop: tuple[str, ...]
) -> None:
    given: dict[int, list[str]] = {}
    streams = TextStreamer(
        vocabulary, lambda row, piece: given.setdefault(row, []).append(piece), stop
    )
    prompts = torch.tensor([vocabulary.encode("가")])
    [found] = generate_lm(
        model,
        prompts,
        None,
        GenerationRequest(
            sampled(stop=stop),
            end_id=vocabulary.eos_id,
            tokenizer=vocabulary,
            on_token=streams.push,
        ),
    )
    streams.finish()
    for row, one in enumerate(found):
        assert "".join(given.get(row, [])) == truncate_at_stop(vocabulary.decode(one.ids), stop)
        assert all(given.get(row, ["some"]))  # no empty pieces
    assert any(len(pieces) > 3 for pieces in given.values())


def test_a_possible_stop_string_is_held_back(vocabulary: SentencePieceTokenizer) -> None:
    given: list[str] = []
    streams = TextStreamer(vocabulary, lambda row, piece: given.append(piece), ["나라"])
    for token in vocabulary.encode("다 나"):
        streams.push(0, token)
    assert "나" not in "".join(given)
    streams.finish()
    assert "".join(given) == "다 나"
    given.clear()
    for token in vocabulary.encode("다 나라 가"):
        streams.push(0, token)
    streams.finish()
    assert "".join(given) == "다 "


def test_every_spelling_of_a_word(vocabulary: SentencePieceTokenizer) -> None:
    anchor = vocabulary.encode("라")
    found = all_spellings("나라", read_token_bytes(vocabulary))
    texts = {vocabulary.decode([*anchor, *way]) for way in found}
    assert texts == {"라나라", "라 나라"}
    assert len(found) > 4  # pieces, syllables, bytes
    assert len(set(found)) == len(found)


def test_a_long_word_is_rejected_quickly() -> None:
    """Not after trying every way to its last letter."""
    spelling = TokenBytes((b"a", b"aa", b"aaa"), (b"a", b"aa", b"aaa"))
    with raises(InputError, "constraint.vocabulary_cannot_spell"):
        all_spellings("a" * 60 + "b", spelling)


def test_words_that_cannot_be_spelled() -> None:
    plain = SentencePieceTokenizer.train(TEXTS, VocabularyConfig(size=24, byte_fallback=False))
    with raises(InputError, "constraint.vocabulary_cannot_spell"):
        all_spellings("뷁", read_token_bytes(plain))
    with raises(InputError, "constraint.vocabulary_cannot_spell"):
        all_spellings("", read_token_bytes(plain))
    with raises(InputError, "constraint.word_too_long"):
        all_spellings("가" * 400, read_token_bytes(plain))

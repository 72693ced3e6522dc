"""The bytes of tokens equal what the tokenizer decodes: initial, medial, single bytes."""

import io
from itertools import product

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from jumok.decoding.constraints.automaton import START
from jumok.decoding.constraints.regex import compile_regex
from jumok.decoding.constraints.token_bytes import TokenBytes, TokenTrie, read_token_bytes
from jumok.text import SentencePieceTokenizer, VocabularyConfig

TEXTS = ["가 나 가나  다", "나 다 나다", "<0x41> 가나 다"]


def other_tokenizer() -> SentencePieceTokenizer:
    """A model of another maker's usual settings: spaces are collapsed, those before a text go."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        vocab_size=20,
        model_type="bpe",
        minloglevel=2,
        user_defined_symbols=["<x>"],
    )
    return SentencePieceTokenizer(model.getvalue())


VOCABULARIES = {
    "ours": SentencePieceTokenizer.train(TEXTS, VocabularyConfig(kind="bpe", size=30)),
    "bytes": SentencePieceTokenizer.train(
        TEXTS, VocabularyConfig(size=281, byte_fallback=True, kind="bpe")
    ),
    "foreign": other_tokenizer(),
}


@pytest.mark.parametrize("name", VOCABULARIES)
@given(data=st.data())
def test_the_bytes_together_are_the_text(name: str, data: st.DataObject) -> None:
    vocabulary = VOCABULARIES[name]
    spelling = read_token_bytes(vocabulary)
    visible = [token for token in range(len(vocabulary)) if spelling.medial[token]]
    likely = [*visible[-12:], *spelling.spaces]  # not only bytes
    tokens = data.draw(st.lists(st.sampled_from(visible) | st.sampled_from(likely), max_size=6))
    written, first = b"", True
    for token in tokens:
        new = (spelling.initial if first else spelling.medial)[token]
        written, first = written + new, first and spelling.strips_space and not new
    try:
        text = written.decode()
    except UnicodeDecodeError:
        return  # half a character: no text yet
    assert vocabulary.decode(tokens) == text


def test_spaces_before_a_text() -> None:
    actual, foreign_ = (
        read_token_bytes(VOCABULARIES["ours"]),
        read_token_bytes(VOCABULARIES["foreign"]),
    )
    space = VOCABULARIES["ours"].id("▁")
    assert (actual.initial[space], actual.medial[space]) == (b"", b" ")
    assert space in actual.spaces
    assert (actual.strips_space, foreign_.strips_space) == (False, True)
    assert actual.after_text().initial == actual.medial
    assert not actual.after_text().spaces


def test_special_pieces_have_no_bytes() -> None:
    vocabulary = VOCABULARIES["bytes"]
    spelling = read_token_bytes(vocabulary)
    assert len(spelling) == len(vocabulary)
    for token in vocabulary.special_ids.values():
        assert spelling.medial[token] == spelling.initial[token] == b""
        assert token not in spelling.spaces
    assert {bytes([value]) for value in range(256)} <= set(spelling.medial)


@pytest.mark.parametrize(
    ("text", "able"), [("가나 다", True), ("", True), (" 가", True), ("가뷁", False)]
)
def test_spellable_texts(text: str, able: bool) -> None:
    assert read_token_bytes(VOCABULARIES["ours"]).can_spell(text) is able
    assert read_token_bytes(VOCABULARIES["bytes"]).can_spell(text)


def test_every_space_before_a_text_is_stripped() -> None:
    spelling = read_token_bytes(VOCABULARIES["foreign"])
    assert spelling.can_spell("가나")
    assert not spelling.can_spell(" 가나")


@pytest.mark.parametrize("pattern", ["(ab|b)*c?", "a.*", "[^a]{2,3}", "가+", "x"])
def test_a_trie_traversal_finds_every_token(pattern: str) -> None:
    """Against all tokens; two have the same bytes, one has none, some are parts of a syllable."""
    machine = compile_regex(pattern)
    spellings = [
        b"a",
        b"b",
        b"ab",
        b"abc",
        b"",
        b"b",
        b"bb",
        *("가가".encode()[:n] for n in (1, 3)),
    ]
    states = np.arange(len(machine), dtype=np.int32)[START:]
    froms, tokens, afters = TokenTrie(spellings).walk(machine, states)
    found = set(zip(states[froms].tolist(), tokens.tolist(), afters.tolist(), strict=True))
    assert len(found) == len(tokens)
    assert found == {
        (state, token, machine.run(state, spellings[token]))
        for state, token in product(states.tolist(), range(len(spellings)))
        if spellings[token] and machine.run(state, spellings[token])
    }


def test_tokens_without_text_are_rejected() -> None:
    froms, tokens, states = TokenTrie([b"", b""]).walk(
        compile_regex(".*"), np.array([START], dtype=np.int32)
    )
    assert len(froms) == len(tokens) == len(states) == 0
    assert not TokenBytes((b"",), (b"",)).can_spell("a")

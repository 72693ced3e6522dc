"""Traces from the arguments of BertViz, and back."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from jumok.errors import InputError
from jumok.interpret.bertviz import UNKNOWN_ID, from_attention, to_bertviz
from jumok.interpret.hf_trace.trace import trace_transformers
from jumok.interpret.trace import Trace
from tests.errors import raises
from tests.pretrained.hf_variants import VARIANTS


def weights(T: int, S: int, layers: int = 2, B: int = 1, *, causal: bool = False) -> list[Tensor]:
    generator = torch.Generator().manual_seed(T * 10 + S)
    scores = [torch.randn(B, 3, T, S, generator=generator) for _ in range(layers)]
    if causal:
        later = torch.ones(T, S, dtype=torch.bool).triu(1)
        scores = [each.masked_fill(later, float("-inf")) for each in scores]
    return [each.softmax(-1) for each in scores]


def encoder_decoder() -> dict[str, Any]:
    return {
        "encoder_attention": weights(4, 4),
        "decoder_attention": weights(3, 3, causal=True),
        "cross_attention": weights(3, 4),
        "encoder_tokens": ["▁겨울", "은", "▁춥다", "</s>"],
        "decoder_tokens": ["<pad>", "▁Winter", "▁is"],
    }


def same(trace: Trace, block: str, given: list[Tensor]) -> bool:
    rows = range(len(given[0]))
    return all(
        np.array_equal(trace.weights(block, layer, row), each[row].numpy())
        for layer, each in enumerate(given)
        for row in rows
    )


def test_weights_are_unchanged() -> None:
    given = weights(4, 4)
    trace = from_attention(given, ["[CLS]", "이", "영화", "[SEP]"])
    [block] = trace.info.blocks
    assert (block.name, block.layers, block.heads, block.causal) == ("encoder", 2, 3, False)
    assert same(trace, "encoder", given)
    assert trace.mask("encoder").all()
    tokens = trace.info.tokens("source")
    assert tokens.text == "이 영화"
    assert [tokens.text[b:e] for b, e in tokens.spans] == ["", "이", "영화", ""]
    assert tokens.special == (1, 0, 0, 1)
    assert tokens.words == (UNKNOWN_ID, 0, 1, UNKNOWN_ID)
    assert trace.info.notes


def test_a_causal_mask_makes_a_decoder() -> None:
    given = weights(3, 3, causal=True)
    trace = from_attention(given, ["Ġone", "Ġtwo", "s"])
    assert trace.info.blocks[0].name == "decoder"
    assert trace.info.blocks[0].causal
    assert np.array_equal(trace.mask("decoder"), np.tril(np.ones((3, 3), dtype=bool)))
    assert trace.info.tokens("target").text == "one twos"
    assert trace.info.tokens("target").words == (0, 1, 1)


def test_an_encoder_decoder() -> None:
    given = encoder_decoder()
    trace = from_attention(**given)
    assert [block.name for block in trace.info.blocks] == ["encoder", "decoder", "cross"]
    for name in ("encoder", "decoder", "cross"):
        assert same(trace, name, given[f"{name}_attention"])
    assert trace.info.tokens("source").text == "겨울은 춥다"
    assert trace.info.tokens("target").real == (1, 1, 1)  # T5 begins with <pad>
    assert trace.info.model.kind == "encoder_decoder"


def test_several_sequences_and_their_padding() -> None:
    given = [each.clone() for each in weights(4, 4, B=2)]
    for each in given:  # the second sequence has two tokens
        each[1, :, :, 2:] = 0
        each[1] = each[1] / each[1].sum(-1, keepdim=True)
    pieces = [["[CLS]", "play", "##ing", "[SEP]"], ["[CLS]", "[SEP]", "[PAD]", "[PAD]"]]
    trace = from_attention([each.numpy() for each in given], pieces)
    assert trace.info.sequences == 2
    assert trace.info.tokens("source", 0).text == "playing"
    assert trace.info.tokens("source", 1).real == (1, 1, 0, 0)
    assert not trace.mask("encoder", 1)[:, 2:].any()
    cut = to_bertviz(trace, 1)
    assert cut["tokens"] == ["[CLS]", "[SEP]"]
    assert cut["attention"][0].shape == (1, 3, 2, 2)


def test_padding_is_not_a_second_text() -> None:
    """Some models give padding the segment 1."""
    given = weights(5, 5)
    trace = from_attention(given, ["[CLS]", "가", "[SEP]", "[PAD]", "[PAD]"], sentence_b_start=3)
    [row] = trace.info.sides["source"]
    alone = replace(row, real=(1, 1, 1, 0, 0))
    padded = trace.with_info(replace(trace.info, sides={"source": (alone,)}))
    assert to_bertviz(padded)["tokens"] == ["[CLS]", "가", "[SEP]"]
    assert "sentence_b_start" not in to_bertviz(padded)


def test_byte_pieces_are_decoded() -> None:
    """GPT-2's of "안녕 hi": 안 in one piece, 녕 in two."""
    pieces = ["<s>", "ìķĪ", "ëħ", "ķ", "Ġhi", "</s>"]
    tokens = from_attention(weights(6, 6), pieces).info.tokens("source")
    assert tokens.text == "안녕 hi"
    assert tokens.pieces == tuple(pieces)
    assert tokens.spans == ((0, 0), (0, 1), (1, 2), (1, 2), (3, 5), (5, 5))
    assert tokens.special == (1, 0, 0, 0, 0, 1)
    assert tokens.words == (UNKNOWN_ID, 0, 0, 0, 1, UNKNOWN_ID)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["▁삼", "<0xEC>", "<0x95>", "<0x88>", "▁일"], "삼안 일"),
        (["Gr", "##üße"], "Grüße"),  # no UTF-8
        (["▁a", "<0xEC>", "b"], "a\ufffdb"),
        (["[CLS]", "[MASK]", "##가", "[UNK]"], "[MASK]가 [UNK]"),
        (["<s>", "▁", "<unk>", "▁<mask>", "<extra_id_0>"], "<unk> <mask>"),
    ],
)
def test_the_text_of_pieces(pieces: list[str], text: str) -> None:
    tokens = from_attention(weights(len(pieces), len(pieces)), pieces).info.tokens("source")
    assert tokens.text == text
    framing = ("[CLS]", "<s>", "<extra_id_0>")
    assert tokens.special == tuple(int(piece in framing) for piece in pieces)
    for piece, (begin, end) in zip(pieces, tokens.spans, strict=True):
        assert (end > begin) == (piece not in (*framing, "▁"))


def test_round_trip() -> None:
    given = encoder_decoder()
    back = to_bertviz(from_attention(**given))
    assert set(back) == set(given)
    for name, value in given.items():
        if name.endswith("tokens"):
            assert back[name] == value  # type: ignore[literal-required]
        else:
            pairs = zip(back[name], value, strict=True)  # type: ignore[literal-required]
            assert all(torch.equal(actual, reference) for actual, reference in pairs)


@pytest.mark.parametrize("name", ["bert-masked", "gpt2-language", "bart-plain"])
def test_weights_equal_output_attentions_of_transformers(name: str) -> None:
    model = next(variant for variant in VARIANTS if variant.name == name).model()
    ids = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    if model.config.is_encoder_decoder:
        ids["decoder_input_ids"] = torch.tensor([[2, 4, 5]])
    watched = trace_transformers(model, **ids)
    with torch.no_grad():
        answer = model(**ids, output_attentions=True)
    if len(ids) > 1:
        parts = ("encoder_attentions", "decoder_attentions", "cross_attentions")
        given: dict[str, Any] = {part.removesuffix("s"): answer[part] for part in parts}
        given |= {"encoder_tokens": ["5", "6", "7", "8"], "decoder_tokens": ["2", "4", "5"]}
    else:
        given = {"attention": answer["attentions"], "tokens": ["5", "6", "7", "8"]}
    trace = from_attention(**given)
    for block in watched.info.blocks:
        assert block.name in {each.name for each in trace.info.blocks}
        for layer in range(block.layers):
            actual, reference = (each.weights(block.name, layer) for each in (watched, trace))
            assert np.array_equal(actual, reference)
        assert np.array_equal(watched.thumbnails(block.name), trace.thumbnails(block.name))
    back = to_bertviz(watched)
    assert len(back.get("attention", back.get("cross_attention", ()))) == 2


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # BertViz leaves files open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("view", ["head_view", "model_view"])
@pytest.mark.parametrize("kind", ["encoder", "pair", "encoder_decoder"])
def test_bertviz_shows_it(view: str, kind: str) -> None:
    bertviz = pytest.importorskip("bertviz")
    if kind == "encoder_decoder":
        trace = from_attention(**encoder_decoder())
    else:
        start = 3 if kind == "pair" else None
        pieces = ["[CLS]", "가", "[SEP]", "나", "[SEP]"]
        trace = from_attention(weights(5, 5), pieces, sentence_b_start=start)
    page = getattr(bertviz, view)(html_action="return", **to_bertviz(trace)).data
    exact = float(trace.weights(trace.info.blocks[0].name, 1)[2, 1, 0])
    assert repr(exact) in page  # the very number
    assert ("Winter" in page) == (kind == "encoder_decoder")
    assert ("Sentence A" in page) == (kind == "pair")


def test_what_is_refused() -> None:
    four = ["a", "b", "c", "d"]
    with raises(InputError, "trace.no_attention"):
        from_attention(tokens=four)
    with raises(InputError, "trace.two_attentions"):
        from_attention(weights(4, 4), four, cross_attention=weights(4, 4))
    with raises(InputError, "trace.tokens_without_pieces"):
        from_attention(weights(4, 4))
    with raises(InputError, "trace.tokens_without_pieces"):
        from_attention(weights(4, 4), [])
    with raises(InputError, "trace.token_rows"):
        from_attention(weights(4, 4), four[:3])
    with raises(InputError, "trace.token_rows"):
        from_attention(weights(4, 4, B=2), four)
    with raises(InputError, "trace.attention_shape"):
        from_attention([each[0] for each in weights(4, 4)], four)
    with raises(InputError, "trace.attention_shape"):
        from_attention([], four)
    with raises(InputError, "trace.weights_not_finite"):
        from_attention([-each for each in weights(4, 4)], four)

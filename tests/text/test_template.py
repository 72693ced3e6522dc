"""Templates give the rows of the tokenizers library and reject what they cannot represent."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from jumok.errors import InputError
from jumok.text.pretrained.post_processor import parse_post_processor, roberta_template
from jumok.text.ragged import Ragged
from jumok.text.template import Side, SpecialToken, Template, TextSlot, Truncation
from tests.errors import raises

VOCAB = {"x": 0, "y": 1, "<s>": 2, "</s>": 3}

PROCESSORS = {
    "bert": processors.BertProcessing(("</s>", 3), ("<s>", 2)),
    "roberta": processors.RobertaProcessing(("</s>", 3), ("<s>", 2)),
    "template": processors.TemplateProcessing(
        single="<s> $A", pair="$B:1 </s>:2 $A", special_tokens=[("<s>", 2), ("</s>", 3)]
    ),
    "two-ids": processors.TemplateProcessing(
        single="$A two",
        pair="$A $B two",
        special_tokens=[{"id": "two", "ids": [2, 3], "tokens": ["<s>", "</s>"]}],
    ),
    "byte-level": processors.ByteLevel(trim_offsets=False),
    "sequence": processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<s> $A", pair="<s> $A $B:1", special_tokens=[("<s>", 2)]
            ),
        ]
    ),
    "none": None,
}


def library(processor: object, side: str, max_length: int | None) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(VOCAB, unk_token="x"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if processor is not None:
        tokenizer.post_processor = processor
    if max_length is not None:
        tokenizer.enable_truncation(max_length, direction=side)
    return tokenizer


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_rows_equal_those_of_the_library(name: str, side: str) -> None:
    """For every length of two texts up to 6 and every limit of at least the special tokens."""
    plain = library(PROCESSORS[name], side, None)
    state = json.loads(plain.to_str())["post_processor"]
    template = replace(parse_post_processor(state), side=side)
    for limit in (None, *range(4, 14)):
        tokenizer = library(PROCESSORS[name], side, limit)
        for n in range(7):
            row = tokenizer.encode("x " * n)
            actual = template.apply_one([0] * n, None, limit)
            assert (actual.ids, actual.token_type_ids) == (row.ids, row.type_ids)
            for m in range(7):
                row = tokenizer.encode("x " * n, "y " * m)
                actual = template.apply_one([0] * n, [1] * m, limit)
                assert (actual.ids, actual.token_type_ids) == (row.ids, row.type_ids), (n, m, limit)


@pytest.mark.parametrize("side", ["right", "left"])
def test_python_truncation_equals_that_of_transformers(side: str) -> None:
    """Marian tokenizers are written in Python: both texts lose half of what is removed."""
    python = pytest.importorskip("transformers.tokenization_python")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    tokenizer = python.PythonBackend.__new__(python.PythonBackend)
    tokenizer.__dict__["truncation_side"] = side
    template = Template((TextSlot(0),), (TextSlot(0), TextSlot(1)), side, "longest_first_python")
    for limit in range(1, 12):
        for n in range(7):
            for m in range(1, 7):
                first, second = list(range(n)), list(range(100, 100 + m))
                kept = tokenizer.truncate_sequences(first, second, max(0, n + m - limit))
                assert template.apply_one(first, second, limit).ids == kept[0] + (kept[1] or [])


def test_a_limit_below_the_special_tokens_is_an_error() -> None:
    template = roberta_template(0, 2)
    assert template.apply_one([7], [8], 4).ids == [0, 2, 2, 2]
    with raises(InputError, "text.no_room_for_special_tokens"):
        template.apply_one([7], [8], 3)


def test_a_template_without_pairs_rejects_a_pair() -> None:
    with raises(InputError, "text.no_pair_template"):
        Template((TextSlot(0), SpecialToken((1,))), ()).apply_one([5], [6], None)


@pytest.mark.parametrize(
    "state",
    [
        {"type": "Unheard"},
        {"type": "BertProcessing", "cls": ["[CLS]"], "sep": ["[SEP]", 3]},
        {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A"}}],
            "pair": [],
            "special_tokens": {},
        },
        {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "B", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        },
        {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "X", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"X": {"id": "X", "ids": "12"}},
        },
        {"type": "Sequence", "processors": [{"type": "BertProcessing"}, {"type": "Unheard"}]},
    ],
)
def test_an_inconsistent_processor_is_an_error(state: dict[str, object]) -> None:
    with pytest.raises(InputError, match="post_processor"):
        parse_post_processor(state)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=5),
    st.integers(3, 14),
    st.sampled_from(["longest_first", "longest_first_python", "first_keeps_more"]),
    st.sampled_from(["right", "left"]),
)
def test_many_rows_equal_single_rows(
    lengths: list[tuple[int, int]], limit: int, truncation: Truncation, side: Side
) -> None:
    cls, sep = SpecialToken((2,)), SpecialToken((3,))
    pieces = (cls, TextSlot(0), sep, TextSlot(1, 1), sep)
    template = Template((cls, TextSlot(0)), pieces, side, truncation)
    firsts = [list(range(10, 10 + n)) for n, _ in lengths]
    seconds = [list(range(20, 20 + n)) for _, n in lengths]
    rows = template.apply(Ragged.from_lists(firsts), Ragged.from_lists(seconds), limit)
    for row, first, second in zip(rows, firsts, seconds, strict=True):
        assert row.tolist() == template.apply_one(first, second, limit).ids
        assert len(row) <= limit

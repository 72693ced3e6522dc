"""Frames against the library that invented them, and what they refuse."""

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from jumok.errors import InputError
from jumok.text.template import Fixed, Frame, Slot, double_sep, processor_parts

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
def test_rows_are_those_of_the_library(name: str, side: str) -> None:
    """Every length of two texts up to 6, at every limit that leaves room for the special pieces."""
    plain = library(PROCESSORS[name], side, None)
    state = json.loads(plain.to_str())["post_processor"]
    frame = Frame(*processor_parts(state), side)
    for limit in (None, *range(4, 14)):
        tokenizer = library(PROCESSORS[name], side, limit)
        for n in range(7):
            row = tokenizer.encode("x " * n)
            ours = frame.frame([0] * n, None, limit)
            assert (ours.ids, ours.segments) == (row.ids, row.type_ids)
            for m in range(7):
                row = tokenizer.encode("x " * n, "y " * m)
                ours = frame.frame([0] * n, [1] * m, limit)
                assert (ours.ids, ours.segments) == (row.ids, row.type_ids), (n, m, limit)


@pytest.mark.parametrize("side", ["right", "left"])
def test_even_sharing_is_that_of_transformers_in_python(side: str) -> None:
    """Marian's tokenisers are Python: of what must go, both texts lose half."""
    python = pytest.importorskip("transformers.tokenization_python")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    tokenizer = python.PythonBackend.__new__(python.PythonBackend)
    tokenizer.__dict__["truncation_side"] = side
    frame = Frame((Slot(0),), (Slot(0), Slot(1)), side, evenly=True)
    for limit in range(1, 12):
        for n in range(7):
            for m in range(1, 7):
                first, second = list(range(n)), list(range(100, 100 + m))
                kept = tokenizer.truncate_sequences(first, second, max(0, n + m - limit))
                assert frame.frame(first, second, limit).ids == kept[0] + (kept[1] or [])


def test_a_limit_below_the_special_pieces_is_refused() -> None:
    frame = Frame(*double_sep(0, 2))
    assert frame.frame([7], [8], 4).ids == [0, 2, 2, 2]
    with pytest.raises(InputError, match="give at least 1 more"):
        frame.frame([7], [8], 3)


def test_a_frame_without_a_place_for_two_texts_refuses_them() -> None:
    with pytest.raises(InputError, match="no pairs"):
        Frame((Slot(0), Fixed((1,))), ()).frame([5], [6], None)


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
def test_a_processor_that_does_not_add_up_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(InputError, match="post_processor"):
        processor_parts(state)

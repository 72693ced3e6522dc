"""The header: to JSON and back, any text; unknown and missing keys are rejected."""

import json
from dataclasses import replace
from typing import Any

import pytest

from jumok.errors import InputError
from jumok.interpret.schema import (
    Beam,
    Candidate,
    Chosen,
    CircuitGraph,
    Classification,
    Decoding,
    Explained,
    GraphEdge,
    GraphFeature,
    GraphNode,
    GraphPeak,
    Step,
    TraceInfo,
    Word,
)
from tests.errors import raises
from tests.interpret.random_traces import plain_tokens, random_info

EVIL = '‮</script><!--\ud800\0\n한글\u1112\u1161👨‍👩‍👧\\"'


def full() -> TraceInfo:
    """A header in which nothing is empty."""
    likely = (Candidate(id=7, piece="▁은", probability=0.5),)
    step = Step(
        cache=1,
        before=likely,
        after=likely,
        chosen=Chosen(id=7, piece=EVIL, log_probability=-0.7),
        beams=(Beam(id=1, parent=0, token=7, piece="▁은", score=-1.0, ended=False, best=True),),
    )
    node = GraphNode(
        kind="feature",
        side="source",
        layer=0,
        token=1,
        number=7,
        value=2.0,
        influence=0.5,
        name=EVIL,
        answer=None,
    )
    return replace(
        random_info(B=1),
        title=EVIL,
        task="classification",
        muted=(("encoder", 0, 3),),
        classification=Classification(
            labels=("negative", EVIL),
            sequences=(
                Explained(
                    probabilities=(0.25, 0.75),
                    words=(Word(text=EVIL, span=(0, 3), without=(0.5, 0.5)),),
                    agreement=None,
                ),
            ),
        ),
        next=(likely, ()),
        lens=((likely,) * 5, (likely,) * 5),
        decoding=Decoding(
            method="beam",
            settings={"beam": 4, "sample": False, "top_p": 1.0, "stop": ("가", "나"), "prefix": ""},
            prompt=1,
            steps=(step, replace(step, chosen=None)),
            output=EVIL,
            text=EVIL,
        ),
        regression=(3.5,),
        circuit=CircuitGraph(
            nodes=(node, replace(node, kind="logit", answer=EVIL)),
            edges=(
                GraphEdge(
                    source=0,
                    target=1,
                    weight=-1.5,
                    measured=0.25,
                    head=("encoder", 0, 1),
                    head_weight=-0.5,
                ),
            ),
            features=(
                GraphFeature(
                    side="source",
                    layer=0,
                    number=7,
                    peaks=(GraphPeak(pieces=(EVIL, "▁은"), at=1, value=2.5),),
                ),
            ),
            replacement=0.75,
            completeness=0.5,
            total_nodes=40,
            total_edges=300,
        ),
        notes=(EVIL,),
    )


def test_a_header_round_trip() -> None:
    info = full()
    text = info.to_json()
    assert text.isascii()
    again = TraceInfo.from_json(text)
    assert again == info
    assert again.decoding is not None
    assert {name: type(value) for name, value in again.decoding.settings.items()} == {
        "beam": int,
        "sample": bool,
        "top_p": float,
        "stop": tuple,
        "prefix": str,
    }


def test_every_documented_key_exists() -> None:
    tree = json.loads(full().to_json())
    assert list(tree) == [
        *("title", "task", "model", "made", "blocks", "sides", "muted", "classification"),
        *("regression", "next", "lens", "decoding", "more_decodings", "frames", "circuit"),
        "notes",
    ]
    assert json.loads(random_info().to_json())["decoding"] is None


def changed(path: str, value: Any) -> str:
    """The full header with one value changed, or taken out where the value is ...."""
    tree = json.loads(full().to_json())
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    inner = tree
    for part in way:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("title", 3, "title must be a string, got 3"),
        ("task", 3, "task must be a string, got 3"),
        ("notes", ..., "notes is missing"),
        (
            "model.kind",
            "stack",
            'model.kind must be "encoder", "decoder" or "encoder_decoder", got "stack"',
        ),
        ("model.norm_eps", "1e-5", 'model.norm_eps must be a number, got "1e-5"'),
        ("model.gated", 1, "model.gated must be true or false, got 1"),
        ("blocks.0.layers", 2.5, r"blocks\[0\].layers must be an integer, got 2.5"),
        ("blocks.0.colour", "red", r"blocks\[0\].colour is not known"),
        ("blocks", [], r"blocks must be one or more different ones, got \[\]"),
        ("blocks.0.keys", "target", "block encoder needs tokens of the side target"),
        ("sides.target", [], r"the sides must have equally many sequences"),
        ("sides.middle", [], 'sides must be "source" or "target", got "middle"'),
        (
            "sides.source.0.spans.0",
            [1],
            r"sides.source\[0\].spans\[0\] must be a list of 2, got a list of 1",
        ),
        ("sides.source.0.ids", [1], "one of pieces for each of 1 ids, got 5"),
        ("regression", [1.0, 2.0], "regression must have 1 entries, one a sequence, got 2"),
        (
            "classification.sequences",
            [],
            "classification must have 1 entries, one a sequence, got 0",
        ),
        ("classification.labels", ["a"], "must have probabilities for 1 labels, got 2"),
        ("classification.sequences.0.words.0.without", [1.0], "must have probabilities without '"),
        ("sides.source", "text", 'sides.source must be a list, got "text"'),
        ("muted.0", ["encoder", 0], r"muted\[0\] must be a list of 3"),
        ("made", [], "made must be a table, got a list"),
        ("model", None, "model must be a table, got null"),
        ("next.0.0.probability", 10**400, "probability must be a number"),
        ("next.0.0.probability", 10**60, None),
        ("decoding.steps.0.chosen", [], "chosen must be a table, got a list"),
    ],
)
def test_an_invalid_header_is_rejected(path: str, value: Any, message: str | None) -> None:
    text = changed(path, value)
    if message is None:
        assert TraceInfo.from_json(text) != full()
        return
    with pytest.raises(InputError, match=message) as refusal:
        TraceInfo.from_json(text)
    assert str(refusal.value).startswith("not the header of a trace: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "3", '{"title": 1, "title": 2}', '{"a": NaN}', "[" * 999, "\ud800"]
)
def test_invalid_json_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match=r"not the header of a trace: .*write the trace again"):
        TraceInfo.from_json(text)


def test_numbers_that_are_not_finite_are_rejected() -> None:
    likely = (Candidate(id=7, piece="", probability=float("nan")),)
    with raises(InputError, "trace.scores_not_finite"):
        replace(random_info(), next=(likely,)).to_json()


def test_sequences_of_different_lengths_are_rejected() -> None:
    with raises(InputError, "trace.unequal_lengths"):
        replace(random_info(), sides={"source": (plain_tokens(5), plain_tokens(6))})


def test_a_duplicate_block_is_rejected() -> None:
    info = random_info()
    with raises(InputError, "trace.blocks"):
        replace(info, blocks=info.blocks * 2)


def test_next_tokens_of_each_real_target_token() -> None:
    source = plain_tokens(5, padding=1)
    info = replace(random_info(), sides={"source": (source,), "target": (source,)})
    likely = (Candidate(id=7, piece="은", probability=0.5),)
    assert replace(info, next=(likely,) * 4).next == (likely,) * 4
    with raises(InputError, "trace.next_entries"):
        replace(info, next=(likely,) * 5)


def test_the_lens_has_an_entry_for_each_real_token_in_each_layer() -> None:
    source = plain_tokens(5, padding=1)
    info = replace(random_info(), sides={"source": (source,), "target": (source,)})
    likely = (Candidate(id=7, piece="은", probability=0.5),)
    assert replace(info, lens=((likely,) * 4,)).lens_side == "target"
    with raises(InputError, "trace.lens_entries"):
        replace(info, lens=((likely,) * 4, (likely,) * 3))

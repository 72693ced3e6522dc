"""The effects of muted heads and patched activations equal those of hooks written by hand."""

import copy
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import jumok
from jumok.errors import InputError
from jumok.interpret.interventions import Effects, patch_heads, patch_hidden, sweep_heads
from jumok.models.points import attention_modules, backbones_by_side
from jumok.nn.hooks import shared_copy
from jumok.tasks.pipeline.pipeline import Pipeline
from tests.combinations import slow
from tests.errors import raises
from tests.interpret.random_models import KINDS, loaded_of, texts_of

TOLERANCE = 1e-5  # relative: float32, and the batch of a hand-written run has another size

FAST = ("classifier", "language model", "sequences")
SLOW = [kind for kind in KINDS if kind not in FAST]


def text_of(kind: str) -> str:
    return texts_of(kind)[0]


def other_of(kind: str) -> str:
    """Another text of equally many tokens."""
    text = text_of(kind)
    words = text.replace("\t", " \t ").split(" ")
    reordered = " ".join(w for w in [*words[1:], words[0]] if w != "\t")
    return text if "\t" in text else reordered


def logits_by_hand(model: Any, loaded: Pipeline, text: str, target: Sequence[int] = ()) -> Tensor:
    """The logits of one text, from the ids of its trace."""
    made = jumok.trace(loaded, text, explain=False)
    source = made.info.sides.get("source")
    row = torch.tensor([(source or made.info.sides["target"])[0].ids])
    with torch.inference_mode():
        if source is None:
            return model(row)
        if "target" in made.info.sides:
            return model(row, torch.tensor([target or made.info.tokens("target").ids]))
        segments = source[0].segments
        if segments is None:
            return model(row)
        return model(row, None, segments=torch.tensor([segments]))


def value_by_hand(loaded: Pipeline, text: str, logits: Tensor) -> float:
    """The measure of the answer of the unchanged model, from logits (1, ...)."""
    made = jumok.trace(loaded, text, explain=False)
    logits = logits.double()
    if made.info.classification is not None:
        best = int(np.argmax(made.info.classification.sequences[0].probabilities))
        return float(logits.softmax(-1)[0, best])
    if made.info.regression is not None:
        scale = loaded.recipe.regression
        return float(logits[0, 0]) * scale.span + scale.lowest
    log_p = logits[0].log_softmax(-1)
    if made.info.decoding is not None:
        steps, prompt = made.info.decoding.steps, made.info.decoding.prompt
        return sum(
            float(log_p[prompt - 1 + i, step.chosen.id])
            for i, step in enumerate(steps)
            if step.chosen is not None and prompt - 1 + i < len(log_p)
        )
    ids = made.info.tokens("source").ids
    best = logits_by_hand(loaded.model, loaded, text)[0].argmax(-1)
    if loaded.recipe.task == "tagging":
        places = [t for t, special in enumerate(made.info.tokens("source").special) if not special]
    else:
        places = [t for t, i in enumerate(ids) if i == loaded.vocabulary.mask_id]
    return sum(float(log_p[t, best[t]]) for t in places)


def shapes(effects: Effects) -> dict[str, tuple[int, ...]]:
    return {name: table.shape for name, table in effects.values.items()}


@pytest.mark.parametrize("kind", [*FAST, *map(slow, SLOW)])
def test_a_sweep_equals_weights_set_to_zero_one_head_at_a_time(kind: str) -> None:
    loaded, text = loaded_of(kind), text_of(kind)
    effects = sweep_heads(loaded, text)
    plain = value_by_hand(loaded, text, logits_by_hand(loaded.model, loaded, text))
    assert effects.value == pytest.approx(plain, rel=TOLERANCE)
    seen = []
    for block, layer, _ in attention_modules(loaded.model):
        for head in range(loaded.recipe.model.n_heads):
            model = shared_copy(loaded.model)
            (module,) = (
                each.module
                for each in attention_modules(model)
                if (each.block, each.layer) == (block, layer)
            )

            def silence(point: Any, inputs: Any, weights: Tensor, head: int = head) -> Tensor:
                changed = weights.clone()
                changed[:, head] = 0.0
                return changed

            module.hook_pattern.register_forward_hook(silence)
            expected = value_by_hand(loaded, text, logits_by_hand(model, loaded, text))
            assert effects.values[block][layer, head] == pytest.approx(expected, rel=TOLERANCE)
            seen.append(expected)
    assert len(seen) == sum(table.size for table in effects.values.values())
    assert any(value != plain for value in seen)


@pytest.mark.parametrize(
    "kind", [*FAST, *(slow(kind) for kind in SLOW if kind not in ("pairs", "regression"))]
)
def test_patched_heads_equal_columns_written_by_hand(kind: str) -> None:
    loaded, text, other = loaded_of(kind), text_of(kind), other_of(kind)
    assert other != text
    effects = patch_heads(loaded, text, other)
    target = jumok.trace(loaded, text).info.sides.get("target")
    ids = target[0].ids if target else ()
    mixed: dict[tuple[str, int], Tensor] = {}
    model = shared_copy(loaded.model)
    for block, layer, module in attention_modules(model):

        def keep(point: Any, inputs: Any, place: tuple[str, int] = (block, layer)) -> None:
            mixed[place] = inputs[0]

        module.output.register_forward_pre_hook(keep)
    if kind == "language model":  # the continuation of A follows B
        prompt = len(loaded.vocabulary.encode(text)) + 1
        row = [*jumok.trace(loaded, other).info.tokens("target").ids[:prompt], *ids[prompt:]]
        with torch.inference_mode():
            from_other = model(torch.tensor([row]))
    else:
        from_other = logits_by_hand(model, loaded, other, ids)
    assert effects.other_value == pytest.approx(
        value_by_hand(loaded, text, from_other), rel=TOLERANCE
    )
    for block, layer, own in attention_modules(loaded.model):
        for head in range(own.n_heads):
            changed = shared_copy(loaded.model)
            (module,) = (
                each.module
                for each in attention_modules(changed)
                if (each.block, each.layer) == (block, layer)
            )
            columns = slice(head * own.d_head, (head + 1) * own.d_head)
            source = mixed[block, layer]

            def put(
                point: Any, inputs: Any, columns: slice = columns, source: Tensor = source
            ) -> Any:
                x = inputs[0].clone()
                x[..., columns] = source[..., columns]
                return (x,)

            module.output.register_forward_pre_hook(put)
            expected = value_by_hand(loaded, text, logits_by_hand(changed, loaded, text))
            assert effects.values[block][layer, head] == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize(
    "kind", ["classifier", slow("language model"), "sequences", slow("masked")]
)
def test_patched_hidden_states(kind: str) -> None:
    loaded, text, other = loaded_of(kind), text_of(kind), other_of(kind)
    effects = patch_hidden(loaded, text, other)
    made, from_other = jumok.trace(loaded, text), jumok.trace(loaded, other)
    side = "source" if "source" in made.info.sides else "target"
    hidden = torch.from_numpy(from_other.hidden(side, 1).copy())[None]  # (1, T, D)
    for token in range(len(jumok.trace(loaded, other).info.tokens(side))):
        if side == "target" and token > len(loaded.vocabulary.encode(text)):
            break  # the continuation of `other` differs
        model = shared_copy(loaded.model)

        def put(layer: Any, inputs: Any, token: int = token) -> Any:
            x = inputs[0].clone()
            x[:, token] = hidden[:, token]
            return (x, *inputs[1:])

        backbones_by_side(model)[side].stack.layers[1].register_forward_pre_hook(put)
        expected = value_by_hand(loaded, text, logits_by_hand(model, loaded, text))
        assert effects.values[side][1, token] == pytest.approx(expected, rel=TOLERANCE)


def test_no_change_without_a_difference() -> None:
    """Activations of the text itself change nothing."""
    loaded, text = loaded_of("classifier"), text_of("classifier")
    for patch in (patch_heads, patch_hidden):
        effects = patch(loaded, text, text)
        assert effects.other_value == effects.value
        for table in effects.changes().values():
            assert np.abs(table).max() < 1e-6


def test_the_same_with_one_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, text = loaded_of("sequences"), text_of("sequences")
    at_once = sweep_heads(loaded, text)
    monkeypatch.setattr("jumok.interpret.interventions.MAX_BATCH_WEIGHTS", 1)
    singly = sweep_heads(loaded, text)
    for name, table in at_once.values.items():
        np.testing.assert_allclose(table, singly.values[name], rtol=TOLERANCE)


def test_answers_that_are_given() -> None:
    loaded, text = loaded_of("classifier"), text_of("classifier")
    by_label = {label: sweep_heads(loaded, text, label) for label in loaded.labels}
    assert sum(each.value for each in by_label.values()) == pytest.approx(1.0)
    total = sum(each.values["encoder"] for each in by_label.values())
    np.testing.assert_allclose(total, np.ones_like(total), rtol=1e-6)
    model = loaded_of("language model")
    forced = sweep_heads(model, "이 영화", "재미있어요")
    steps = jumok.trace(model, "이 영화", target="재미있어요").info.decoding
    assert steps is not None
    chosen = [step.chosen.log_probability for step in steps.steps if step.chosen]
    assert (forced.answer, forced.value) == ("재미있어요", pytest.approx(sum(chosen), rel=1e-5))


def test_the_next_token_of_a_language_model() -> None:
    model, text, other = loaded_of("language model"), "이 영화", "영화 이"
    effects = sweep_heads(model, text, "")
    (row,) = jumok.trace(model, text, target="").info.sides["target"]
    with torch.inference_mode():
        log_p = model.model(torch.tensor([row.ids]))[0, -1].double().log_softmax(-1)
    assert effects.value == pytest.approx(float(log_p.max()), rel=TOLERANCE)
    assert patch_heads(model, text, other, "").other_value != effects.value


def test_heads_that_are_muted_throughout() -> None:
    loaded, text = loaded_of("classifier"), text_of("classifier")
    effects = sweep_heads(loaded, text, loaded.labels[0], mute=[("encoder", 1, 0)])
    muted = jumok.trace(loaded, text, mute=[("encoder", 1, 0)]).info.classification
    assert muted is not None
    assert effects.value == pytest.approx(muted.sequences[0].probabilities[0], rel=TOLERANCE)
    assert effects.values["encoder"][1, 0] == pytest.approx(effects.value, rel=1e-6)


def test_rows_and_table() -> None:
    loaded, text = loaded_of("classifier"), text_of("classifier")
    effects = sweep_heads(loaded, text)
    heads = loaded.recipe.model.n_heads
    rows = effects.rows()
    assert [tuple(row)[:3] for row in rows][:1] == [("block", "layer", "head")]
    assert len(rows) == 2 * heads
    assert rows[heads]["change"] == effects.changes()["encoder"][1, 0]
    table = json.loads(json.dumps(effects.to_table()))
    assert table["values"]["encoder"] == effects.values["encoder"].tolist()
    hidden = patch_hidden(loaded, text, text).rows()
    assert tuple(hidden[0])[:3] == ("side", "layer", "token")


@pytest.mark.parametrize(
    ("kind", "call", "message"),
    [
        ("classifier", {"answer": "maybe"}, "trace.unknown_answer"),
        ("tagging", {"answer": "O"}, "trace.answer_not_for_task"),
        ("sequences", {"answer": "1", "decode": {"beam": 2}}, "trace.decode_and_answer"),
    ],
)
def test_refused_answers(kind: str, call: dict[str, Any], message: str) -> None:
    with raises(InputError, message):
        sweep_heads(loaded_of(kind), text_of(kind), **call)


def test_refused_texts() -> None:
    with raises(InputError, "trace.different_token_counts"):
        patch_heads(loaded_of("classifier"), "이 영화", "이 영화 정말 재미있어요")
    with raises(InputError, "trace.no_mask"):
        sweep_heads(loaded_of("masked"), "이 영화")


def test_weights_that_are_not_finite() -> None:
    broken = shared_copy(loaded_of("classifier").model)
    loaded = copy.copy(loaded_of("classifier"))
    loaded.model = broken
    layer = backbones_by_side(broken)["source"].stack.layers[1]
    layer.self_attention.output.weight = torch.nn.Parameter(
        torch.full_like(layer.self_attention.output.weight, float("nan"))
    )
    with raises(InputError, "trace.answer_not_finite"):
        sweep_heads(loaded, text_of("classifier"))

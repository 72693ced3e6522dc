"""`jumok.evaluate` with muted heads: the scores of a model whose weights are 0 there."""

from typing import Any

import pytest
from torch import Tensor

import jumok
from jumok.errors import InputError
from jumok.models.points import attention_modules
from jumok.nn.hooks import shared_copy
from tests.errors import raises
from tests.experiment.models import model_of
from tests.tiny_runs import readings, reviews

DATA: dict[str, list[Any]] = {"classifier": reviews(40, 3), "sequences": readings(10, 3)}
ALL = {"classifier": [("encoder", 0, 1), ("encoder", 1, 0)], "sequences": [("cross", 1, 0)]}


@pytest.mark.parametrize("kind", DATA)
def test_the_scores_are_those_of_a_hook(kind: str) -> None:
    model, rows = model_of(kind), DATA[kind]
    copy = model.with_models(shared_copy)
    for block, layer, module in attention_modules(copy.model):
        off = [head for b, i, head in ALL[kind] if (b, i) == (block, layer)]

        def silence(point: Any, inputs: Any, weights: Tensor, off: list[int] = off) -> Tensor:
            weights = weights.clone()
            weights[:, off] = 0
            return weights

        if off:
            module.hook_pattern.register_forward_hook(silence)
    before = jumok.evaluate(model, rows)
    muted = jumok.evaluate(model, rows, mute=ALL[kind])
    hooked = jumok.evaluate(copy, rows)
    assert muted.pop("kernel") == before.pop("kernel")
    assert hooked.pop("kernel")["kernel"] == "torch"
    for name, score in hooked.items():
        assert muted[name] == (pytest.approx(score, abs=1e-5) if type(score) is float else score)
    assert muted["loss"] != before["loss"] if "loss" in muted else muted != before
    assert jumok.evaluate(model, rows) | {"kernel": None} == before | {"kernel": None}


def test_heads_that_do_not_exist_are_refused() -> None:
    model = model_of("classifier")
    with raises(InputError, "trace.muted_head"):
        jumok.evaluate(model, DATA["classifier"], mute=[("encoder", 2, 0)])
    with raises(InputError, "trace.muted_head"):
        jumok.evaluate(model, DATA["classifier"], mute=[("cross", 0, 0)])
    for form in ((0, 0), "encoder.0.0", ("encoder", 0, 1.0)):
        with raises(InputError, "trace.muted_head"):
            jumok.evaluate(model, DATA["classifier"], mute=[form])  # type: ignore[list-item]

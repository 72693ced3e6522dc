"""The logit lens equals the final norm and output projection of the model, applied by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import jumok
from jumok.interpret import logit_lens
from jumok.interpret.logit_lens import TOP_K
from jumok.interpret.tracing import trace
from jumok.models import MaskedLanguageModel
from jumok.models.backbones import backbones
from tests import hf_folders
from tests.interpret.random_models import KINDS, loaded_of, texts_of

PROJECTED = ("language model", "sequences", "masked")


@pytest.mark.parametrize("kind", PROJECTED)
def test_the_lens_is_recomputed_from_the_recorded_stream(kind: str) -> None:
    loaded = loaded_of(kind)
    made = trace(loaded, texts_of(kind))
    assert made.info.lens is not None
    side = made.info.lens_side
    model, backbone = loaded.model, list(backbones(loaded.model).values())[-1]
    n = sum(made.info.tokens(side).real)
    for layer, row in enumerate(made.info.lens):
        stream = torch.from_numpy(made.hidden(side, layer)[:n])  # (T, D)
        with torch.inference_mode():
            hidden = stream if layer == len(made.info.lens) - 1 else backbone.stack.norm(stream)
            if isinstance(model, MaskedLanguageModel):
                hidden = model.transform(hidden)
            p = F.linear(hidden, model.output.weight, model.output.bias).softmax(-1)  # type: ignore[arg-type, union-attr]
        assert len(row) == n
        for token, candidates in enumerate(row):
            assert [one.id for one in candidates] == p[token].topk(TOP_K).indices.tolist()
            for one in candidates:
                assert one.probability == pytest.approx(float(p[token, one.id]), abs=1e-5)


@pytest.mark.parametrize("kind", ["language model", "sequences"])
def test_the_last_layer_of_the_lens_is_the_prediction_of_the_model(kind: str) -> None:
    made = trace(loaded_of(kind), texts_of(kind))
    assert made.info.lens is not None
    assert made.info.next is not None
    assert len(made.info.lens) == 1 + made.info.block("decoder").layers
    for one, other in zip(made.info.lens[-1], made.info.next, strict=True):
        assert [each.id for each in one] == [each.id for each in other[:TOP_K]]
        assert np.allclose(
            [each.probability for each in one],
            [each.probability for each in other[:TOP_K]],
            atol=1e-5,
        )


def test_the_lens_of_a_model_with_a_scaled_output(tmp_path: Path) -> None:
    hf_folders.t5(tmp_path / "t5")
    made = trace(jumok.load(tmp_path / "t5", device="cpu"), "삼 일 오", "3 1 5")
    assert made.info.lens is not None
    assert made.info.next is not None
    for one, other in zip(made.info.lens[-1], made.info.next, strict=True):
        assert one[0].id == other[0].id
        assert one[0].probability == pytest.approx(other[0].probability, abs=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in PROJECTED])
def test_models_without_a_projection_to_tokens_have_no_lens(kind: str) -> None:
    assert trace(loaded_of(kind), texts_of(kind), explain=False).info.lens is None


def test_a_long_text_has_no_lens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logit_lens, "MAX_CELLS", 10)
    assert trace(loaded_of("masked"), texts_of("masked")).info.lens is None

"""Traces of imported encoders against transformers: attention weights of every layer and head."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumok
from jumok.interpret.tracing import trace
from tests import hf_folders

pytest.importorskip("transformers")

ENCODERS: dict[str, Callable[[Path], Any]] = {
    "modernbert": hf_folders.modernbert,
    "deberta": hf_folders.deberta,
    "deberta c2p": lambda folder: hf_folders.deberta(
        folder, "Model", pos_att_type=["c2p"], share_att_key=False, norm_rel_ebd="none"
    ),
}
TEXTS = ["이 영화 정말 재미있어요, 정말 정말 재미있어요", "삼 일 오"]  # the first beyond a window


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_weights_are_the_output_attentions(name: str, tmp_path: Path) -> None:
    theirs = ENCODERS[name](tmp_path)
    theirs.set_attn_implementation("eager")
    made = trace(jumok.load(tmp_path, device="cpu"), TEXTS, explain=False)
    tokens = made.info.sides["source"]
    ids, real = (torch.tensor([getattr(row, part) for row in tokens]) for part in ("ids", "real"))
    expected = theirs(ids, attention_mask=real.long(), output_attentions=True).attentions
    assert len(expected) == made.info.block("encoder").layers
    for layer, weights in enumerate(expected):
        for number, row in enumerate(real.numpy().astype(bool)):
            found = made.weights("encoder", layer, number)[:, row]
            np.testing.assert_allclose(found, weights[number].numpy()[:, row], atol=2e-6)


def test_a_local_layer_of_modernbert_has_its_window_and_angles(tmp_path: Path) -> None:
    """Layers 0 and 3 are global; the others attend to 4 tokens on either side."""
    hf_folders.modernbert(tmp_path)
    made = trace(jumok.load(tmp_path, device="cpu"), TEXTS[0])
    n = len(made.info.tokens("source"))
    assert n > 5
    near = np.abs(np.subtract.outer(range(n), range(n))) <= 4
    assert (made.info.model.layer_kinds, made.info.model.sliding_window) == ("GLLG", 5)
    assert made.info.model.first_norm is False
    assert made.mask("encoder", layer=0).all()
    assert np.array_equal(made.mask("encoder", layer=1), near)
    assert not np.array_equal(made.tensor("encoder.1.rotary"), made.tensor("rotary"))
    assert "source.steps.0.self_attention_input" not in made.names
    assert "source.steps.1.self_attention_input" in made.names

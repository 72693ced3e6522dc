"""Imported checkpoints have the same points, and the identities of experiments hold for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumok
from jumok.experiment import (
    Site,
    ablate,
    heads,
    logit_attribution,
    measure,
    patch,
    points,
    read,
)
from tests import hf_folders
from tests.experiment.models import first_logit

pytest.importorskip("transformers")

LINEAR: dict[str, Callable[[Path], Any]] = {
    "gpt2": hf_folders.gpt2,
    "gemma": lambda folder: hf_folders.llama(folder, "gemma3_text"),
    "exaone": lambda folder: hf_folders.llama(folder, "exaone4"),
    "t5": hf_folders.t5,
    "marian": hf_folders.marian,
}
OTHERS: dict[str, Callable[[Path], Any]] = {
    "bert": hf_folders.bert,
    "modernbert": hf_folders.modernbert,
    "deberta": hf_folders.deberta,
}


@pytest.mark.parametrize("name", [*LINEAR, *OTHERS])
def test_the_identities_hold(name: str, tmp_path: Path) -> None:
    (LINEAR | OTHERS)[name](tmp_path)
    model = jumok.load(tmp_path, device="cpu")
    rng = np.random.default_rng(0)
    one, two = rng.integers(5, 25, (2, 3, 6)).tolist()
    sides = {point.sides[0] for point in points(model).values()}
    if len(sides) == 2:
        target = rng.integers(5, 25, (3, 4)).tolist()
        data, other = read(model, (one, target)), read(model, (two, target))
    else:
        data, other = read(model, one), read(model, two)
    first = f"{next(iter(data.ids))}.hidden.0"
    clean, there = measure(model, data, first_logit), measure(model, other, first_logit)
    whole = patch(model, data, other, first_logit, [Site(first)])[0]
    np.testing.assert_allclose(whole, there, atol=1e-5)
    muted = ablate(model, data, first_logit, heads(model))
    assert muted.shape == (len(heads(model)), 3)
    assert np.abs(muted - clean).max() > 1e-4
    if name in LINEAR:
        parts = logit_attribution(model, data, first_logit)
        total = sum(part.reshape(3, -1).sum(1) for part in parts.values())
        np.testing.assert_allclose(total, clean, atol=1e-5)
    assert not any(module._forward_hooks for module in model.model.modules())

"""No output depends on later tokens: values, gradients, recorded, training or cached."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.models import EncoderDecoder, LanguageModel
from jumok.nn import AttentionMask
from jumok.nn.attention_kernels import MAX_BMM_KEYS
from tests.models.small_models import POSITIONS, VOCABULARY, set_seed, small
from tests.nn.strategies import seeds, sequence_mask, tokens
from tests.nn.tolerances import randomized

every_positions = pytest.mark.parametrize("positions", POSITIONS)


@pytest.mark.slow
@every_positions
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@given(data=st.data())
def test_a_later_token_changes_no_earlier_output(
    positions: str, training: bool, data: st.DataObject
) -> None:
    """Bit for bit; in training with the same random numbers."""
    T, seed = data.draw(st.integers(2, 9)), data.draw(seeds)
    config = small(positions=positions, norm_first=data.draw(st.booleans()))
    model = randomized(LanguageModel(config), seed).train(training)
    ids = tokens(2, T, size=VOCABULARY, seed=seed)
    t = data.draw(st.integers(1, T - 1))
    changed = ids.clone()
    changed[:, t] = (ids[:, t] + data.draw(st.integers(1, VOCABULARY - 1))) % VOCABULARY
    set_seed(seed)
    before = model(ids)
    set_seed(seed)
    after = model(changed)
    assert torch.equal(after[:, :t], before[:, :t])
    assert not torch.equal(after[:, t:], before[:, t:])


@pytest.mark.parametrize("left", [False, True])
def test_a_target_depends_on_the_source_and_its_own_past(left: bool) -> None:
    model = randomized(EncoderDecoder(small())).eval()
    source, target = tokens(2, 5, size=VOCABULARY), tokens(2, 6, size=VOCABULARY, seed=1)
    mask = AttentionMask.from_padding(sequence_mask([6, 4], 6, left=left), causal=True)
    before = model(source, target, target_mask=mask)
    for t in range(1, 6):
        changed = target.clone()
        changed[:, t] = (target[:, t] + 1) % VOCABULARY
        assert torch.equal(model(source, changed, target_mask=mask)[:, :t], before[:, :t])
    source[:, -1] = (source[:, -1] + 1) % VOCABULARY
    assert (model(source, target, target_mask=mask)[0] != before[0]).any(-1).all()


@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_causality_of_the_fused_kernel(positions: str) -> None:
    T = MAX_BMM_KEYS + 8
    model = randomized(LanguageModel(small(positions=positions, max_length=T, n_layers=1))).eval()
    ids = tokens(1, T, size=VOCABULARY)
    changed = ids.clone()
    changed[:, T - 3 :] = (ids[:, T - 3 :] + 1) % VOCABULARY
    before, after = model(ids), model(changed)
    assert torch.equal(after[:, : T - 3], before[:, : T - 3])
    assert not torch.equal(after[:, T - 3 :], before[:, T - 3 :])

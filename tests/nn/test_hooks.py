"""Recording changes nothing and records what the model used."""

from contextlib import ExitStack

import pytest
import torch
from torch import Tensor, nn

from jumok.nn import (
    AttentionMask,
    HookPoint,
    LayerConfig,
    TransformerLayer,
    TransformerStack,
    record,
)
from tests.nn.strategies import noise, sequence_mask
from tests.nn.tolerances import FLOAT64, close, gradients, randomized

CONFIG = LayerConfig(d_model=8, n_heads=2, d_ff=16, dropout=0.2, attention_dropout=0.2)
MASK = AttentionMask.from_padding(sequence_mask([5, 3, 0], 5), causal=True)
MEMORY_MASK = AttentionMask.from_padding(sequence_mask([4, 0, 2], 4))


def stack() -> TransformerStack:
    return randomized(TransformerStack(CONFIG, 2, cross=True)).double()


def test_every_kind_of_hook_counts() -> None:
    for add in ("forward", "forward_pre", "full_backward", "full_backward_pre"):
        point = HookPoint()
        handle = getattr(point, f"register_{add}_hook")(lambda *_: None)
        assert point.has_hooks
        handle.remove()
        assert not point.has_hooks


def run(model: nn.Module, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    x, memory = noise(3, 5, 8, dtype=torch.float64), noise(3, 4, 8, seed=1, dtype=torch.float64)
    y = model(x, torch.arange(5)[None], MASK, memory, MEMORY_MASK)
    assert isinstance(y, Tensor)
    return y


@pytest.mark.parametrize("training", [False, True])
def test_recording_changes_nothing(training: bool) -> None:
    """Values and gradients; in training dropout is the same with and without recording."""
    model = stack().train(training)
    run(model).square().sum().backward()
    plain, unrecorded = run(model), gradients(model)
    model.zero_grad()
    with record(model):
        recorded = run(model)
    recorded.square().sum().backward()
    assert close(recorded, plain, FLOAT64)
    for name, gradient in gradients(model).items():
        assert close(gradient, unrecorded[name], FLOAT64), name
    assert torch.equal(run(model), plain)  # the hooks are removed


def test_one_tensor_per_attention_and_forward_pass() -> None:
    model = stack().eval()
    with record(model) as seen:
        run(model)
        run(model)
    locations = {
        f"layers.{i}.{kind}" for i in range(2) for kind in ("self_attention", "cross_attention")
    }
    assert set(seen) == locations
    assert {len(passes) for passes in seen.values()} == {2}
    assert {passes[0].shape for name, passes in seen.items() if "cross" in name} == {(3, 2, 5, 4)}
    assert not any(p.hook_pattern.has_hooks for p in model.modules() if hasattr(p, "hook_pattern"))


def test_a_hook_can_mute_a_head() -> None:
    layer = randomized(TransformerLayer(CONFIG)).eval()
    x = noise(2, 4, 8)
    plain = layer(x, AttentionMask(causal=True))

    def off(point: nn.Module, inputs: tuple[Tensor, ...], weights: Tensor) -> Tensor:
        return weights.index_fill(1, torch.tensor([0]), 0)

    hook = layer.self_attention.hook_pattern.register_forward_hook(off)
    without = layer(x, AttentionMask(causal=True))
    hook.remove()
    assert not torch.allclose(without, plain)
    assert torch.equal(layer(x, AttentionMask(causal=True)), plain)
    with torch.no_grad():  # equal to zero columns of the output projection
        layer.self_attention.output.weight[:, :4] = 0
    assert close(layer(x, AttentionMask(causal=True)), without)


def test_an_error_removes_all_hooks() -> None:
    model = stack()
    with pytest.raises(ZeroDivisionError), record(model):
        raise ZeroDivisionError
    assert not any(p.has_hooks for p in model.modules() if isinstance(p, HookPoint))


def test_recordings_that_overlap_leave_compiled_models_compiled() -> None:
    """As those of two threads; torch.compile has one stance for the process."""

    class WhenCompiled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if torch.compiler.is_compiling() else x

    model = WhenCompiled()
    model.compile(backend="eager")
    zero = torch.zeros(1)
    first, second = ExitStack(), ExitStack()
    assert model(zero) == 1
    for context in (first, second):
        context.enter_context(record(model))
    first.close()
    assert model(zero) == 0  # uncompiled until the last one ends
    second.close()
    assert model(zero) == 1


@pytest.mark.slow
def test_a_compiled_model_can_be_recorded() -> None:
    model = stack().eval()
    plain = run(model)
    model.compile(backend="aot_eager")
    with torch.no_grad():
        assert close(run(model), plain, FLOAT64)
        with record(model) as seen:
            assert close(run(model), plain, FLOAT64)
        assert len(seen) == 4
        assert close(run(model), plain, FLOAT64)

"""Mixed precision: the residual stream is bfloat16, the weights stay float32."""

import pytest
import torch
from torch import Tensor, nn

from jumok.models import TextClassifier, TransformerConfig
from jumok.training.mixed_precision import autocast_model

CPU = torch.device("cpu")
SMALL = TransformerConfig(
    vocabulary_size=20, d_model=16, n_heads=2, d_ff=32, n_layers=2, dropout=0.0, max_length=8
)
IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def classifier() -> TextClassifier:
    torch.manual_seed(0)
    return TextClassifier(SMALL, 2)


def stream_types(model: TextClassifier) -> set[torch.dtype]:
    """The types of the inputs and outputs of the encoder's layers."""
    seen: set[torch.dtype] = set()

    def look(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen.update((inputs[0].dtype, output.dtype))

    hook = model.encoder.stack.register_forward_hook(look)
    model(IDS)
    hook.remove()
    return seen


def test_the_residual_stream_is_bfloat16_inside_the_context() -> None:
    model = classifier()
    exact = model(IDS)
    with autocast_model(model, CPU, torch.bfloat16):
        assert torch.bfloat16 in stream_types(model)
        rough = model(IDS)
    assert stream_types(model) == {torch.float32}
    assert torch.equal(model(IDS), exact)
    assert not torch.equal(rough.float(), exact)
    torch.testing.assert_close(rough.float(), exact, atol=0.05, rtol=0)  # 8 bits of mantissa
    assert all(not module._forward_hooks for module in model.modules())


def test_weights_and_gradients_stay_float32() -> None:
    model = classifier()
    with autocast_model(model, CPU, torch.bfloat16):
        loss = model(IDS).float().logsumexp(-1).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.float32}


def test_float32_changes_no_bit() -> None:
    model = classifier()
    exact = model(IDS)
    with autocast_model(model, CPU, torch.float32):
        assert torch.equal(model(IDS), exact)


def test_hooks_are_removed_if_the_model_fails() -> None:
    model = classifier()
    with (
        pytest.raises(IndexError, match="out of range"),
        autocast_model(model, CPU, torch.bfloat16),
    ):
        model(torch.tensor([[99]]))
    assert stream_types(model) == {torch.float32}
    assert all(not module._forward_hooks for module in model.modules())

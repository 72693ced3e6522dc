"""The kernel for training against operations of PyTorch: values, gradients, threads, NaN."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.native.training import CpuTrainingKernel, cpu_training_kernel
from jumok.nn.attention import attention_weights
from jumok.nn.config import LayerConfig
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.hooks import record
from jumok.nn.kernel_sublayers import MAX_KEYS
from jumok.nn.layer import TransformerLayer
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.positions import NO_ROTATION, RotaryPositions
from jumok.nn.training_kernel import training_kernel, use_training_kernel
from jumok.training.config import TrainingConfig
from jumok.training.ema import EMA
from jumok.training.optimizer import Optimizer
from tests.nn.strategies import noise

F32, BF16 = torch.float32, torch.bfloat16
PADDING = torch.tensor([[True] * 5 + [False] * 4, [True] * 9, [False] * 9])


@pytest.fixture(autouse=True)
def kernel() -> Iterator[CpuTrainingKernel]:
    """The kernel, switched on."""
    found = cpu_training_kernel()
    if found is None:
        pytest.skip("no compiler")
    with use_training_kernel(found):
        yield found


def without(function: Callable[[], object]) -> object:
    with use_training_kernel(None):
        return function()


def output_gradient(y: Tensor) -> Tensor:
    return noise(*y.shape, seed=9).to(y.dtype) if y.ndim else torch.ones_like(y)


def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """The value and the gradients of a function, whose output has a gradient of noise."""
    inputs = tuple(each.detach().requires_grad_() for each in inputs)
    y = function(*inputs)
    return [y, *torch.autograd.grad(y, inputs, output_gradient(y))]


MASKS = {
    "none": NO_MASK,
    "triangle": AttentionMask(causal=True),
    "padding": AttentionMask.from_padding(PADDING),
    "both": AttentionMask.from_padding(PADDING, causal=True),
    "holes": AttentionMask(noise(3, 1, 9, 9, seed=8) > 0),
    "left padding": AttentionMask.from_padding(PADDING.flip(1)),
}
CONFIGS = {
    "vaswani": LayerConfig(d_model=10, n_heads=2, d_ff=24, dropout=0.0),  # 5 fills no vector
    "bert": LayerConfig(d_model=12, n_heads=1, d_ff=40, dropout=0.0, activation="gelu"),
    "unbiased": LayerConfig(d_model=12, n_heads=2, d_ff=8, dropout=0.0, bias=False,
                            attention_bias="none", activation="gelu"),
}  # fmt: skip


def layer_gradients(
    config: LayerConfig, mask: AttentionMask, *, rotated: bool = False
) -> list[Tensor]:
    """The output of a layer with cross-attention, and the gradients of inputs and weights."""
    torch.manual_seed(0)
    layer = TransformerLayer(config, cross=True)
    weights = list(layer.parameters())
    for i, each in enumerate(weights):
        each.data = noise(*each.shape, seed=100 + i) * 0.3
    rotation = RotaryPositions(config.d_model // config.n_heads)(torch.arange(9)[None])

    def output(x: Tensor, memory: Tensor, *_: Tensor) -> Tensor:
        chosen = rotation if rotated else NO_ROTATION
        return layer(x, mask, memory, rotation=chosen)  # type: ignore[no-any-return]

    x, memory = (noise(3, n, config.d_model, seed=n).requires_grad_() for n in (9, 4))
    y = output(x, memory)
    return [y, *torch.autograd.grad(y, (x, memory, *weights), noise(*y.shape, seed=9))]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_layer(config: LayerConfig, mask: AttentionMask) -> None:
    rotated = config.d_model == 12
    found = layer_gradients(config, mask, rotated=rotated)
    expected = without(lambda: layer_gradients(config, mask, rotated=rotated))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        # The gradient of a bias of keys is 0.
        assert (ours - theirs).norm() < 3e-6 * theirs.norm() + 1e-4


def test_what_attention_the_kernel_computes() -> None:
    layer = TransformerLayer(CONFIGS["vaswani"])

    def is_fused(length: int = 3) -> bool:
        seen, queue = set(), [layer(noise(1, length, 10), NO_MASK).grad_fn]
        while queue:
            node = queue.pop()
            seen.add(type(node).__name__)
            queue += [next_node for next_node, _ in node.next_functions if next_node is not None]
        return "_AttentionBackward" in seen

    assert is_fused()
    assert is_fused(MAX_KEYS)
    assert not is_fused(MAX_KEYS + 1)  # its weights would take memory of the squared length
    hook = layer.self_attention.key.register_forward_hook(lambda *_: None)
    assert not is_fused()
    hook.remove()
    with record(layer):
        assert not is_fused()
    with torch.autocast("cpu", BF16):
        assert not is_fused()
    assert not without(is_fused)
    layer.self_attention.key.weight.requires_grad_(False)
    assert not is_fused()


@pytest.mark.parametrize(("T", "S", "K"), [(1, 1, 1), (3, 40, 24), (70, 17, 64), (2, 256, 16)])
def test_attention_of_other_lengths(kernel: CpuTrainingKernel, T: int, S: int, K: int) -> None:
    q, k, v = (noise(2, 3, n, K, seed=i).requires_grad_() for i, n in enumerate((T, S, S)))
    y = attention_weights(q, k, NO_MASK, None, 0.3) @ v
    expected = torch.autograd.grad(y, (q, k, v), noise(*y.shape, seed=5))
    q, k, v = q.detach(), k.detach(), v.detach()
    found, weights = kernel.attend(q, k, v, None, 0.3)
    torch.testing.assert_close(found, y.detach(), rtol=1e-5, atol=1e-5)
    gradients = [torch.empty_like(each) for each in (q, k, v)]
    kernel.attend_backward_(q, k, v, weights, noise(*y.shape, seed=5), 0.3, gradients)
    torch.testing.assert_close(gradients, list(expected), rtol=1e-5, atol=1e-5)


def test_attention_keeps_nan(kernel: CpuTrainingKernel) -> None:
    q, k, v = (noise(1, 1, 3, 4, seed=i) for i in range(3))
    q[0, 0, 1] = float("nan")
    y, _ = kernel.attend(q, k, v, None, 0.5)
    assert y[0, 0].isnan().all(-1).tolist() == [False, True, False]


def test_second_derivatives_of_a_layer() -> None:
    layer = TransformerLayer(CONFIGS["bert"], cross=True)
    x, memory = noise(3, 9, 12).requires_grad_(), noise(3, 4, 12)

    def curvature() -> Tensor:
        y = layer(x, MASKS["both"], memory)
        (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), x)[0]

    expected = without(curvature)
    torch.testing.assert_close(curvature(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_cross_entropy(dtype: torch.dtype, smoothing: float) -> None:
    """Of 300 tokens, more than a chunk, and 37 pieces, a multiple of no vector."""
    output = nn.Linear(6, 37)
    hidden, targets = noise(300, 6), torch.arange(300) % 37

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        with torch.autocast("cpu", BF16, dtype == BF16):
            del output.weight, output.bias
            output.weight, output.bias = weight, bias  # type: ignore[assignment]
            return fused_linear_cross_entropy(hidden, output, targets, label_smoothing=smoothing)

    inputs = hidden, noise(37, 6, seed=1), noise(37, seed=2)
    expected = without(lambda: gradients(loss, *inputs))
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == F32 else {"rtol": 2e-2, "atol": 5e-2}
    torch.testing.assert_close(gradients(loss, *inputs), expected, **tolerance)


def test_target_that_is_no_token_is_an_error() -> None:
    with pytest.raises(InputError, match="from 0 to 3, got 4;"):
        fused_linear_cross_entropy(noise(2, 8), nn.Linear(8, 4), torch.tensor([0, 4]))


def test_what_the_kernel_does_not_compute() -> None:
    assert training_kernel(noise(1)) is not None
    assert training_kernel(noise(1).double()) is None
    assert training_kernel(noise(1, dtype=F32).to("meta")) is None
    assert torch.func.vmap(lambda x: x * (training_kernel(x) is None))(torch.ones(2)).all()


def trained(steps: int, weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights, averages and states after steps with clipping."""
    named = {name: nn.Parameter(value.clone()) for name, value in weights.items()}
    optimizer = Optimizer(named, TrainingConfig(steps=1, learning_rate=1e-2, weight_decay=0.1))
    ema = EMA(named, 0.9)
    for step in range(1, steps + 1):
        for i, (name, p) in enumerate(named.items()):
            skipped = name == "unused" or (name == "bias" and step == 2)
            p.grad = None if skipped else noise(*p.shape, seed=step * 10 + i)
        norm = nn.utils.get_total_norm([p.grad for p in named.values() if p.grad is not None])
        optimizer.step(1e-2, clip_norm=0.5, norm=norm, ema=ema, number=step)
    return {n: p.detach() for n, p in named.items()} | optimizer.state(), ema.values


def test_adamw_clipping_and_average_are_those_of_torch() -> None:
    """20,000 numbers are more than a chunk of the kernel; one weight has no gradient at a step."""
    shapes = {"matrix": (40, 500), "bias": (7,), "unused": (3,)}
    weights = {name: noise(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    found, expected = trained(5, weights), without(lambda: trained(5, weights))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert found[0]["step:bias"].item() == 4


def test_norm(kernel: CpuTrainingKernel) -> None:
    tensors = [noise(300, 200), noise(5)]
    torch.testing.assert_close(
        torch.tensor(kernel.norm(tensors)), nn.utils.get_total_norm(tensors), rtol=1e-6, atol=0
    )
    assert not torch.isfinite(torch.tensor(kernel.norm([torch.tensor([1.0, float("nan")])])))


def test_results_do_not_depend_on_the_number_of_threads(kernel: CpuTrainingKernel) -> None:
    weights = {"matrix": noise(40, 5000), "bias": noise(7)}
    q, k, v = (noise(3, 2, 9, 5, seed=i) for i in range(3))
    hidden, targets = noise(300, 6), torch.arange(300) % 37
    scores = noise(300, 37)  # not of nn.Linear, which itself differs with the threads

    def everything() -> list[Tensor]:
        y, attended = kernel.attend(q, k, v, MASKS["both"].hiding(9, 9, "cpu"), 0.4)
        attention = [torch.empty_like(each) for each in (q, k, v)]
        kernel.attend_backward_(q, k, v, attended, y, 0.4, attention)
        logits = scores.clone()
        losses = kernel.cross_entropy_(logits, targets, 0.1)
        rotated, rotation = hidden[:, :4].clone(), RotaryPositions(4)(torch.arange(9)[None])
        kernel.rotate_rows_(rotated, rotation.cosine, rotation.sine, 1.0)
        norm = torch.tensor(kernel.norm(list(weights.values())), dtype=torch.float64)
        return [y, *attention, losses, logits, rotated, norm, *trained(2, weights)[0].values()]

    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(everything())
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))

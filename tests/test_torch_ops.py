"""Private operations of torch are named in one file, and jumok computes the same without them."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

import jumok
from jumok.native.quantize import QuantizedLinear
from jumok.nn.bmm_attention import bmm_attention
from jumok.torch_ops import (
    add_all_,
    find_op,
    int8_matmul,
    lerp_all_,
    one_torch_thread,
    openmp_setter,
    softmax_backward,
)
from jumok.training.ema import EMA

OPS = (
    "_foreach_add_",
    "_foreach_lerp_",
    "_int_mm",
    "ops.aten._softmax_backward_data",
    "ops.mkldnn._is_mkldnn_bf16_supported",
)
SOURCE = Path(jumok.__file__).parent


@pytest.fixture(params=[*OPS, "all of them"])
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A torch that lacks one private operation, or all of them."""
    hidden = [name for name in OPS if request.param in (name, "all of them")]
    original = torch._ops._OpNamespace.__getattr__

    def lookup(namespace: object, name: str) -> object:
        if any(path.endswith(f"{namespace.name}.{name}") for path in hidden):  # type: ignore[attr-defined]
            raise AttributeError(name)
        return original(namespace, name)  # type: ignore[arg-type]

    monkeypatch.setattr(torch._ops._OpNamespace, "__getattr__", lookup)
    for path in hidden:
        parent, _, name = path.rpartition(".")
        holder = find_op(parent) if parent else torch
        monkeypatch.delattr(holder, name, raising=False)
        assert find_op(path) is None
    return str(request.param)


def check_substitutes() -> None:
    """Every function against its definition."""
    torch.manual_seed(0)
    scores = torch.randn(3, 5, 7, requires_grad=True)
    weights, grad = scores.softmax(-1), torch.randn(3, 5, 7)
    (expected,) = torch.autograd.grad(weights, scores, grad)
    torch.testing.assert_close(softmax_backward(grad, weights.detach()), expected)

    a, b = [torch.randn(3, 2), torch.randn(4)], [torch.randn(3, 2), torch.randn(4)]
    added, mixed = [x.clone() for x in a], [x.clone() for x in a]
    add_all_(added, b)
    lerp_all_(mixed, b, 0.3)
    for i in range(2):
        assert torch.equal(added[i], a[i] + b[i])
        assert torch.equal(mixed[i], torch.lerp(a[i], b[i], 0.3))

    x = torch.randint(-127, 128, (5, 5000)).to(torch.int8)  # beyond what float32 holds exactly
    w = torch.full((5000, 8), 127).to(torch.int8)
    assert torch.equal(int8_matmul(x.abs(), w), (x.abs().long() @ w.long()).int())


def test_functions_with_the_operations_of_this_torch() -> None:
    check_substitutes()


def test_functions_and_modules_with_an_operation_missing(without: str) -> None:
    check_substitutes()
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    y = bmm_attention(q, k, v, None, None, 0.5, 0.0)
    reference = nn.functional.scaled_dot_product_attention(q, k, v, scale=0.5)
    torch.testing.assert_close(y, reference)
    for mine, other in zip(
        torch.autograd.grad(y.square().sum(), (q, k, v)),
        torch.autograd.grad(reference.square().sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)

    linear, x = nn.Linear(24, 50), torch.randn(7, 24)
    with torch.no_grad():
        assert (QuantizedLinear(linear)(x) - linear(x)).abs().max() < 6e-2
    ema = EMA({"w": nn.Parameter(torch.ones(2))}, decay=0.5)
    ema.update(step=100)
    assert ema.values["w"].tolist() == [1.0, 1.0]


def test_half_precision_gradient_of_the_softmax(without: str) -> None:
    """Within one rounding of bfloat16 of the float32 gradient: 2^-8 of values below 1."""
    torch.manual_seed(0)
    weights, grad = torch.randn(4, 300).softmax(-1), torch.randn(4, 300)
    exact = softmax_backward(grad, weights)
    half = softmax_backward(grad.bfloat16(), weights.bfloat16())
    assert half.dtype == torch.bfloat16
    assert (half.float() - exact).abs().max() < 2**-8 * exact.abs().max() * 4


def test_private_operations_are_looked_up_by_name() -> None:
    private = re.compile(
        r"\btorch\.(?:_(?!_)|ops\.|(?:\w+\.)+_(?!_))|\bfrom torch[.\w]*\._|import torch\._"
    )
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if private.search(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_one_thread_is_that_of_the_caller_only() -> None:
    if openmp_setter() is None:
        pytest.skip("this torch has no OpenMP runtime with threads of its own")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(1) as other, one_torch_thread():
            assert torch.get_num_threads() == 1
            assert other.submit(torch.get_num_threads).result() == 3
            with one_torch_thread():
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(KeyError), one_torch_thread():
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_one_thread_without_the_runtime_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    openmp_setter.cache_clear()
    monkeypatch.setattr(torch, "__file__", "/absent/torch/__init__.py")
    try:
        before = torch.get_num_threads()
        with one_torch_thread():
            assert torch.get_num_threads() == before
    finally:
        openmp_setter.cache_clear()

"""Second derivatives and transforms of every function with a hand-written backward pass.

Each is compared with the same mathematics written out in operations of PyTorch: attention, the
residual sum with dropout, the fused loss, and a whole encoder in train and in eval mode.
"""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import functional, gradcheck, gradgradcheck
from torch.func import functional_call

from jumok.models import LanguageModel
from jumok.nn import Dropout
from jumok.nn.attention import attention_weights
from jumok.nn.attention_kernels import MAX_BMM_KEYS, fused_attention
from jumok.nn.dropout import dropout_mask
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.hooks import record
from jumok.nn.masks import NO_MASK, AttentionMask
from tests.models.small_models import VOCABULARY, small
from tests.nn.strategies import noise, tokens

DOUBLE = torch.float64
Function = Callable[..., Tensor]


def attention_case(p: float, *, biased: bool = True) -> tuple[Function, Function, list[Tensor]]:
    """Attention under a mask with bias and dropout: ours, written out, and inputs."""
    mask = AttentionMask(torch.tensor([[[[True, True, False], [True, True, True]]]]))
    q, k, v = noise(2, 2, 2, 4), noise(2, 2, 3, 4, seed=1), noise(2, 2, 3, 4, seed=2)
    inputs = [each.to(DOUBLE) for each in (q, k, v, *([noise(1, 2, 2, 3, seed=3)] * biased))]

    def ours(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        torch.manual_seed(4)
        return fused_attention(q, k, v, mask, bias, 0.5, p)

    def written_out(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        weights = attention_weights(q, k, mask, bias, 0.5)
        if p:
            torch.manual_seed(4)
            weights = weights * dropout_mask(torch.empty(4, 2, 3, dtype=DOUBLE), p).view(2, 2, 2, 3)
        return weights @ v

    return ours, written_out, inputs


def dropout_case(p: float) -> tuple[Function, Function, list[Tensor]]:
    """The residual sum with dropout."""
    part = Dropout(p)

    def ours(x: Tensor, y: Tensor) -> Tensor:
        torch.manual_seed(5)
        return part.add_residual(x, y)

    def written_out(x: Tensor, y: Tensor) -> Tensor:
        torch.manual_seed(5)
        return x + y * dropout_mask(torch.empty(3, 4, dtype=DOUBLE), p)

    return ours, written_out, [noise(3, 4, seed=i, dtype=DOUBLE) for i in range(2)]


def loss_case(smoothing: float, rdrop_alpha: float) -> tuple[Function, Function, list[Tensor]]:
    """The fused loss of hidden states, output weights and their bias."""
    targets = torch.tensor([0, 3, 1, 0, 3, 1])

    def ours(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        output = nn.Linear(4, 5, device="meta")
        del output.weight, output.bias
        output.weight, output.bias = weight, bias  # type: ignore[assignment]
        return fused_linear_cross_entropy(
            hidden, output, targets, label_smoothing=smoothing, rdrop_alpha=rdrop_alpha
        )

    def written_out(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        log_p = (hidden @ weight.mT + bias).log_softmax(-1)
        loss = nn.functional.nll_loss(log_p, targets, reduction="sum") * (1 - smoothing)
        loss = loss - smoothing * log_p.mean(-1).sum()
        p, q = log_p.chunk(2)
        return loss + rdrop_alpha * ((p.exp() - q.exp()) * (p - q)).sum() / 2

    shapes = ((6, 4), (5, 4), (5,))
    return ours, written_out, [noise(*s, seed=i, dtype=DOUBLE) for i, s in enumerate(shapes)]


CASES = {
    "attention": lambda: attention_case(0.0),
    "attention without a bias": lambda: attention_case(0.0, biased=False),
    "attention with dropout": lambda: attention_case(0.4),
    "residual sum": lambda: dropout_case(0.4),
    "loss": lambda: loss_case(0.0, 0.0),
    "smoothed loss": lambda: loss_case(0.1, 0.0),
    "loss with R-Drop": lambda: loss_case(0.1, 1.5),
}


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("attention without a bias", "attention with dropout", "smoothed loss")
        else name
        for name in CASES
    ]
)
def case(request: pytest.FixtureRequest) -> tuple[Function, Function, tuple[Tensor, ...]]:
    """One function, its written-out form, and float64 inputs that require gradients."""
    ours, written_out, inputs = CASES[request.param]()
    return ours, written_out, tuple(each.requires_grad_() for each in inputs)


def scalar(function: Function) -> Function:
    """A scalar of the output whose second derivatives are not 0, even if the output is linear."""
    return lambda *inputs: function(*inputs).pow(2).sum()


def same(actual: object, expected: object) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)  # float64, other order


def test_derivatives_of_both_orders_agree_with_differences(case) -> None:  # type: ignore[no-untyped-def]
    ours, _, inputs = case
    assert gradcheck(ours, inputs)
    assert gradgradcheck(ours, inputs)


def test_a_gradient_penalty(case) -> None:  # type: ignore[no-untyped-def]
    """The gradient of the squared norm of a gradient, and one derivative more."""
    results = []
    for function in case[:2]:
        loss = scalar(function)(*case[2])
        first = torch.autograd.grad(loss, case[2], create_graph=True)
        penalty = sum(each.pow(2).sum() for each in first)
        second = torch.autograd.grad(penalty, case[2], create_graph=True)
        third = torch.autograd.grad(sum(each.pow(2).sum() for each in second), case[2])
        results.append([loss, *first, penalty, *second, *third])
        assert all(each.abs().max() > 0 for each in results[-1])
    same(*results)


@pytest.mark.parametrize("way", ["hvp", "vhp", "jvp", "vjp"])
def test_torch_autograd_functional(case, way: str) -> None:  # type: ignore[no-untyped-def]
    ours, written_out, inputs = case
    vectors = tuple(noise(*each.shape, seed=9, dtype=DOUBLE) for each in inputs)
    call = getattr(functional, way)
    given = torch.ones_like(ours(*inputs)) if way == "vjp" else vectors
    if way in ("hvp", "vhp"):
        ours, written_out = scalar(ours), scalar(written_out)
    same(call(ours, inputs, given), call(written_out, inputs, given))


@pytest.mark.parametrize("way", ["hessian", "jacobian"])
def test_vectorized(case, way: str) -> None:  # type: ignore[no-untyped-def]
    """Batched gradients pass through the hand-written backward pass under vmap."""
    ours, written_out, inputs = case
    call = getattr(functional, way)
    same(call(scalar(ours), inputs, vectorize=True), call(scalar(written_out), inputs))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch's own jvp
def test_torch_func(case) -> None:  # type: ignore[no-untyped-def]
    """grad, jvp, vjp, jacrev, jacfwd, hessian, and the Hessian product of jvp over grad."""
    ours, written_out, inputs = case
    values = tuple(each.detach() for each in inputs)
    vectors = tuple(noise(*each.shape, seed=9, dtype=DOUBLE) for each in values)
    every = tuple(range(len(values)))
    results = []
    for function in (ours, written_out):
        s = scalar(function)
        gradient = torch.func.grad(s, every)
        y, pull = torch.func.vjp(function, *values)  # type: ignore[misc]
        results.append(
            [
                gradient(*values),
                torch.func.jvp(function, values, vectors),
                (y, pull(torch.ones_like(y))),
                torch.func.jacrev(s, every)(*values),
                torch.func.jacfwd(s, every, randomness="same")(*values),
                torch.func.jacfwd(gradient, every, randomness="same")(*values),
                torch.func.jvp(gradient, values, vectors),
            ]
        )
    same(*results)


def model_loss(model: LanguageModel, ids: Tensor) -> Callable[[dict[str, Tensor]], Tensor]:
    """The loss of the next tokens, with the fused projection, as a function of the weights."""
    targets = ids.roll(-1, 1).flatten()

    class Loss(nn.Module):
        """`functional_call` replaces the weights of the module that it calls."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Tensor:
            torch.manual_seed(6)
            hidden = model.decoder(ids)
            return fused_linear_cross_entropy(hidden.flatten(0, 1), model.output, targets)

    loss = Loss()
    return lambda weights: functional_call(loss, weights, ())


def language_model(*, train: bool) -> tuple[LanguageModel, dict[str, Tensor]]:
    """A model in float64 and its weights by the names that `model_loss` takes."""
    torch.manual_seed(7)
    model = LanguageModel(small(tie_embeddings=False)).double().train(train)
    return model, {f"model.{name}": each for name, each in model.named_parameters()}


@pytest.mark.parametrize("train", [True, False])
def test_the_hessian_product_of_a_model(train: bool) -> None:
    """With recorded weights, attention is computed step by step from operations of PyTorch."""
    model, weights = language_model(train=train)
    loss = model_loss(model, tokens(2, 5, size=VOCABULARY))
    values = tuple(each.detach() for each in weights.values())
    vectors = tuple(noise(*each.shape, seed=8, dtype=DOUBLE) for each in values)
    results = []
    for context in (nullcontext(), record(model)):
        with context:
            results.append(
                functional.hvp(  # type: ignore[no-untyped-call]
                    lambda *each: loss(dict(zip(weights, each, strict=True))), values, vectors
                )
            )
    same(*results)
    assert any(each.abs().max() > 0.1 for each in results[0][1])


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch's own jvp
@pytest.mark.parametrize("train", [True, False])
def test_the_transforms_of_a_model(train: bool) -> None:
    model, weights = language_model(train=train)
    loss = model_loss(model, tokens(2, 5, size=VOCABULARY))
    values = {name: each.detach() for name, each in weights.items()}
    vectors = {name: noise(*each.shape, seed=8, dtype=DOUBLE) for name, each in values.items()}
    y, product = torch.func.jvp(torch.func.grad(loss), (values,), (vectors,))  # type: ignore[misc]
    _, expected = functional.hvp(  # type: ignore[no-untyped-call]
        lambda *each: loss(dict(zip(weights, each, strict=True))),
        tuple(values.values()),
        tuple(vectors.values()),
    )
    same(y, dict(zip(values, torch.autograd.grad(loss(weights), [*weights.values()]), strict=True)))
    same(tuple(product.values()), expected)


def test_gradients_of_each_text_by_vmap() -> None:
    model, weights = language_model(train=False)
    values = {name: each.detach() for name, each in weights.items()}
    rows = tokens(3, 5, size=VOCABULARY)

    def text_loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return model_loss(model, row[None])(values)

    found = torch.func.vmap(torch.func.grad(text_loss), (None, 0))(values, rows)
    for i, row in enumerate(rows):
        one = torch.func.grad(text_loss)(values, row)
        same({name: each[i] for name, each in found.items()}, one)


@pytest.mark.parametrize("randomness", ["different", "same", "error"])
def test_dropout_follows_the_randomness_of_vmap(randomness: str) -> None:
    def one(x: Tensor) -> Tensor:
        return Dropout(0.5).add_residual(torch.zeros(64), x)

    if randomness == "error":
        with pytest.raises(RuntimeError, match="randomness"):
            torch.func.vmap(one, randomness=randomness)(torch.ones(2, 64))
        return
    first, second = torch.func.vmap(one, randomness=randomness)(torch.ones(2, 64))
    assert torch.equal(first, second) is (randomness == "same")
    assert {*first.tolist()} == {0.0, 2.0}


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch's own jvp
@pytest.mark.parametrize("way", ["autograd", "hvp", "func"])
def test_long_rows_raise_an_error(way: str) -> None:
    """PyTorch's fused kernel has no second derivative and says so."""
    x = noise(1, 1, MAX_BMM_KEYS + 1, 4).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return fused_attention(x, x, x, NO_MASK, None, 0.5, 0.0).pow(2).sum()

    calls = {
        "autograd": lambda: torch.autograd.grad(
            torch.autograd.grad(loss(x), x, create_graph=True)[0].sum(), x
        ),
        "hvp": lambda: functional.hvp(loss, x, torch.ones_like(x)),  # type: ignore[no-untyped-call]
        "func": lambda: torch.func.jvp(torch.func.grad(loss), (x,), (torch.ones_like(x),)),
    }
    with pytest.raises((RuntimeError, NotImplementedError), match=r"not implemented|Trying to use"):
        calls[way]()  # type: ignore[no-untyped-call]

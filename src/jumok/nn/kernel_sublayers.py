"""Attention with its linear maps as one function with a hand-written gradient.

A step of a small model spends more time on the calls of some thousand operations than in them. Here
attention is a dozen calls in each direction. It is used where the trainer has switched on the
kernel and nothing needs the parts: no hook, no map of another class, no frozen map, no bias of
positions, no dropout inside. In bfloat16 the operations of PyTorch are as fast and save no weights.
A second derivative is computed from operations of PyTorch.

Shapes: B batch, T positions, S keys, D model width, H heads, K head width, E = H K; rows
(B T, ...) are all positions of a batch.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from jumok.nn.masks import AttentionMask, check_attention_mask
from jumok.nn.positions import NO_ROTATION, Rotation
from jumok.nn.second_derivatives import differentiable_gradients
from jumok.nn.training_kernel import TrainingKernel, training_kernel

if TYPE_CHECKING:
    import jumok.nn.attention

MAX_KEYS = 256  # longer rows use the kernels of PyTorch, whose memory is linear in the length


class _Call(NamedTuple):
    """What is not differentiated."""

    kernel: TrainingKernel
    scale: float
    n_heads: int
    allowed: Tensor | None
    rotation: Rotation


def kernel_attention(
    attention: "jumok.nn.attention.MultiHeadAttention",
    x: Tensor,
    source: Tensor | None,
    mask: AttentionMask,
    rotation: Rotation = NO_ROTATION,
) -> Tensor | None:
    """Multi-head attention of x (B, T, D) to source (B, S, D), None: x itself -> (B, T, D).

    None if the kernel does not compute it.
    """
    kernel = training_kernel(x)
    S = x.shape[1] if source is None else source.shape[1]
    if kernel is None or S > MAX_KEYS or not attention.is_plain or _dtype(x) != torch.float32:
        return None
    maps = attention.query, attention.key, attention.value, attention.output
    if not _are_plain(maps) or (source is not None and source.dtype != x.dtype):
        return None
    if type(rotation) not in (Rotation, type(NO_ROTATION)):
        return None
    check_attention_mask(mask)
    allowed = mask.hiding(x.shape[1], S, x.device)
    call = _Call(kernel, attention.scale, attention.n_heads, allowed, rotation)
    weights = (each.weight for each in maps)
    biases = (each.bias for each in maps)
    return _Attention.apply(x, source, *weights, *biases, call)  # type: ignore[no-any-return, no-untyped-call]


def _are_plain(maps: Sequence[nn.Linear]) -> bool:
    """Whether they are linear maps of plain weights that nothing observes."""
    return all(
        type(each) is nn.Linear
        and type(each.weight) in (nn.Parameter, Tensor)
        and each.weight.requires_grad  # else PyTorch computes no gradient for it
        and _is_unobserved(each)
        for each in maps
    )


def _is_unobserved(module: nn.Module) -> bool:
    """Whether it has no hook."""
    forward = module._forward_hooks or module._forward_pre_hooks
    return not (forward or module._backward_hooks or module._backward_pre_hooks)


def _dtype(x: Tensor) -> torch.dtype:
    """The type of matrix products: autocast's, if it is on."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors below each other."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _joined(tensors: Sequence[Tensor | None]) -> Tensor | None:
    """As `_stacked`; None if there is none."""
    found = [each for each in tensors if each is not None]
    assert len(found) in (0, len(tensors))
    return _stacked(found) if found else None


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (N, I), weight (O, I) -> (N, O)."""
    return x @ weight.T if bias is None else torch.addmm(bias, x, weight.T)


def _parameter_gradients(
    dy: Tensor, x: Tensor, widths: Sequence[int], *, biased: bool
) -> tuple[list[Tensor], list[Tensor | None]]:
    """The gradients of joined weights and biases, by the widths of their outputs."""
    sizes = list(widths)
    db: list[Tensor | None] = [None] * len(sizes)
    if biased:
        db[:] = torch.split(dy.sum(0), sizes)
    return list(torch.split(dy.T @ x, sizes)), db


class _Attention(torch.autograd.Function):
    """x, source, the weights of query, key, value and output, their biases -> (B, T, D)."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, source: Tensor | None, *others: Any) -> Tensor:
        *parameters, call = others
        weights, biases = parameters[:4], parameters[4:]
        (B, T, D), H = x.shape, call.n_heads
        rows = x.reshape(B * T, D)
        memory = rows if source is None else source.reshape(-1, source.shape[2])
        parts = (slice(0, 3),) if source is None else (slice(0, 1), slice(1, 3))
        joined = [_stacked(weights[part]) for part in parts]  # (3E, D), or (E, D), (2E, D)
        projected = [
            _affine(inputs, weight, _joined(biases[part]))
            for inputs, weight, part in zip((rows, memory), joined, parts, strict=False)
        ]  # (B*T, 3E), or (B*T, E) and (B*S, 2E)
        E = weights[0].shape[0]
        if call.rotation is not NO_ROTATION:
            _rotate_(projected, E, call, 1.0)
        y, attended = call.kernel.attend(*_heads(projected, B, H), call.allowed, call.scale)
        y = y.transpose(1, 2).reshape(B * T, E)
        kept = (x, source, *parameters, rows, memory, y, attended, *joined, *projected)
        ctx.save_for_backward(*kept)
        ctx.call = call  # type: ignore[attr-defined]
        return _affine(y, weights[3], biases[3]).view(B, T, -1)

    @staticmethod
    def backward(ctx: FunctionCtx, dy: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        call: _Call = ctx.call  # type: ignore[attr-defined]
        inputs, (rows, memory, y, attended) = saved[:10], saved[10:14]
        if torch.is_grad_enabled():  # create_graph=True
            return _again(ctx, lambda *x: _written_out_attention(*x, call=call), inputs, dy)
        x, source, *parameters = inputs
        n = len(saved[14:]) // 2
        joined, projected = saved[14 : 14 + n], saved[14 + n :]
        (B, T, _), E, H = x.shape, y.shape[1], call.n_heads
        output, biases = parameters[3], parameters[4:]
        dy = dy.reshape(B * T, -1)
        (d_output,), (d_output_bias,) = _parameter_gradients(
            dy, y, [dy.shape[1]], biased=biases[3] is not None
        )
        gradients = [torch.empty_like(each) for each in projected]
        q, k, v = _heads(projected, B, H)
        call.kernel.attend_backward_(
            *(q, k, v, attended),
            (dy @ output).view(B, T, H, -1).transpose(1, 2),
            call.scale,
            _heads(gradients, B, H),
        )
        if call.rotation is not NO_ROTATION:
            _rotate_(gradients, E, call, -1.0)
        d_weights, d_biases, d_inputs = [], [], []
        for gradient, data, weight in zip(gradients, (rows, memory), joined, strict=False):
            widths = [E] * (gradient.shape[1] // E)
            dw, db = _parameter_gradients(gradient, data, widths, biased=biases[0] is not None)
            d_weights += dw
            d_biases += db
            d_inputs.append(gradient @ weight)
        dx = d_inputs[0].view_as(x)
        d_source = None if source is None else d_inputs[1].view_as(source)
        return dx, d_source, *d_weights, d_output, *d_biases, d_output_bias, None


def _heads(projected: Sequence[Tensor], B: int, H: int) -> list[Tensor]:
    """Queries, keys and values of rows [q k v], or [q] and [k v]: 3 x (B, H, T|S, K)."""
    found: list[Tensor] = []
    n = 3 if len(projected) == 1 else 1
    for rows in projected:
        found += rows.view(B, -1, n, H, rows.shape[1] // (n * H)).permute(2, 0, 3, 1, 4).unbind()
        n = 2
    return found


def _rotate_(projected: Sequence[Tensor], E: int, call: _Call, sign: float) -> None:
    """Rotate queries and keys in place; rotary positions are those of self-attention."""
    (rows,) = projected
    rotation = call.rotation
    call.kernel.rotate_rows_(rows[:, : 2 * E], rotation.cosine, rotation.sine, sign)


def _written_out_attention(
    x: Tensor,
    source: Tensor | None,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    wo: Tensor,
    *biases: Tensor | None,
    call: _Call,
) -> Tensor:
    from jumok.nn.attention import attention_weights

    memory = x if source is None else source
    bq, bk, bv, bo = biases
    q, k, v = (
        F.linear(inputs, weight, bias).view(*inputs.shape[:2], call.n_heads, -1).transpose(1, 2)
        for inputs, weight, bias in ((x, wq, bq), (memory, wk, bk), (memory, wv, bv))
    )
    q, k = call.rotation(q), call.rotation(k)
    mask = AttentionMask(call.allowed)
    y = attention_weights(q, k, mask, None, call.scale).to(v.dtype) @ v  # (B, H, T, K)
    return F.linear(y.transpose(1, 2).flatten(2), wo, bo)


def _again(
    ctx: FunctionCtx,
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor | None],
    dy: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients with their graph."""
    needed: Sequence[bool] = ctx.needs_input_grad  # type: ignore[attr-defined]
    return *differentiable_gradients(function, inputs, needed, dy), None

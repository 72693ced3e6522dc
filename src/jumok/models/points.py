"""Named points of a model: activations that are read or replaced in a forward pass.

The names are those of traces; docs/experiments.md lists them with their shapes. Axes: B sequences,
H heads, G key/value heads, T queries (or tokens), S keys, K width of a head, D width of the model,
F width inside the feed-forward layer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from jumok.errors import TraceError
from jumok.models.backbones import backbones
from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.disentangled import DisentangledAttention, RelativeEmbedding
from jumok.nn.hooks import Module, shared_copy, without_compilation
from jumok.nn.layer import ResidualNorm

Side: TypeAlias = Literal["source", "target"]
BlockName: TypeAlias = Literal["encoder", "decoder", "cross"]
Head: TypeAlias = tuple[BlockName, int, int]  # block, layer, head
Edit: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Point:
    """One activation: what a module returns, or the first thing that it gets.

    `axes` has a letter for each axis, as "BHTK", `sides` are the sequences of T and of S, `heads`
    is the size of H or G.
    """

    name: str
    axes: str
    sides: tuple[Side, Side]
    module: nn.Module = field(repr=False)
    is_input: bool = False
    heads: int = 0

    @property
    def token_axis(self) -> int | None:
        """The axis of the tokens; None for a matrix of two sequences, as weights are."""
        found = [axis for axis, letter in enumerate(self.axes) if letter in "TS"]
        return found[0] if len(found) == 1 else None

    @property
    def token_side(self) -> Side:
        """The sequence of the token axis."""
        return self.sides["T" not in self.axes]

    def hook(self, edit: Edit) -> RemovableHandle:
        """Replace the activation by `edit` of it in every forward pass."""

        def changed(x: Tensor) -> Tensor:
            if x.ndim < len(self.axes):  # the module has the heads side by side: (B, T, H*K)
                x = x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, T, K)
                return self._checked(edit(x), x).transpose(1, 2).flatten(2)  # (B, T, H*K)
            return self._checked(edit(x), x)

        def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (changed(inputs[0]), *inputs[1:])

        def after(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return changed(output)

        if self.is_input:
            return self.module.register_forward_pre_hook(before)
        return self.module.register_forward_hook(after)

    def _checked(self, given: object, x: Tensor) -> Tensor:
        """What an edit returns; the model would compute with a row of it for all rows."""
        if isinstance(given, Tensor) and given.shape == x.shape and given.dtype == x.dtype:
            return given
        got = type(given).__name__
        if isinstance(given, Tensor):
            got = f"{tuple(given.shape)} {given.dtype}"
        raise TraceError(
            "experiment.edit_shape",
            "an edit of {name} must return a tensor of its shape and type, {shape} {dtype}, got "
            "{got}; change the values alone",
            name=self.name,
            shape=str(tuple(x.shape)),
            dtype=str(x.dtype),
            got=got,
        )


def points(model: nn.Module) -> dict[str, Point]:
    """All points of a model by their names, in the order of the computation.

    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> [name for name in points(LanguageModel(config)) if "steps" not in name][:3]
    ['target.hidden.0', 'decoder.0.q', 'decoder.0.k']
    """
    return {
        point.name: point
        for side, backbone in backbones_by_side(model).items()
        for point in _backbone_points(side, backbone)
    }


@contextmanager
def hooked(
    model: nn.Module,
    read: Iterable[str] = (),
    edit: Mapping[str, Edit] | None = None,
) -> Iterator[dict[str, Tensor]]:
    """Read and replace activations in the forward passes inside this context.

    read: names, whose activations are in the dict that is yielded, with their gradients' graph.
    edit: functions of activations, which return what takes their place. A name with both is read
    as it was replaced. Raises KeyError for a name that the model does not have.

    >>> import torch
    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model = LanguageModel(config)
    >>> with hooked(model, ["decoder.0.weights"], {"decoder.0.q": torch.zeros_like}) as found:
    ...     logits = model(torch.tensor([[1, 2]]))
    >>> found["decoder.0.weights"][0, 0]  # equal scores: (T, S) of head 0
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]], grad_fn=<SelectBackward0>)
    """
    known, found = points(model), dict[str, Tensor]()

    def reader(name: str) -> Edit:
        def keep(x: Tensor) -> Tensor:
            found[name] = x
            return x  # the tensor that was kept is the one that the model computes with

        return keep

    with ExitStack() as stack:
        for name, change in (edit or {}).items():
            stack.callback(known[name].hook(change).remove)
        for name in read:
            stack.callback(known[name].hook(reader(name)).remove)
        stack.enter_context(without_compilation())
        yield found


class AttentionModule(NamedTuple):
    """One attention module of a model, with its block and layer."""

    block: BlockName
    layer: int
    module: MultiHeadAttention


def backbones_by_side(model: nn.Module) -> dict[Side, Encoder | Decoder]:
    """The backbones of a model by the side that they process."""
    names: dict[str, Side] = {"encoder": "source", "decoder": "target"}
    return {names[name]: backbone for name, backbone in backbones(model).items()}


def attention_modules(model: nn.Module) -> list[AttentionModule]:
    """All attention modules: the encoder's, the decoder's self-attention, its cross-attention."""
    found: list[AttentionModule] = []
    for side, backbone in backbones_by_side(model).items():
        own: BlockName = "encoder" if side == "source" else "decoder"
        layers = backbone.stack.layers
        found += [AttentionModule(own, i, layer.self_attention) for i, layer in enumerate(layers)]
        found += [
            AttentionModule("cross", i, layer.cross_attention)
            for i, layer in enumerate(layers)
            if layer.cross_attention is not None
        ]
    return found


def mute_heads(model: nn.Module, heads: Iterable[tuple[str, int, int]]) -> tuple[Head, ...]:
    """Set the attention weights of heads to 0; return the heads sorted, without duplicates.

    A head is (block, layer, head). The model is changed: pass a shared copy
    (`nn.hooks.shared_copy`). Raises InputError for a head that the model does not have.
    """
    muted: list[Head] = []
    known = points(model)
    for each, off in _selected(model, heads):
        known[f"{each.block}.{each.layer}.weights"].hook(_without(off))
        muted += [(each.block, each.layer, head) for head in off]
    return tuple(muted)


def muted_copy(model: Module, heads: Iterable[tuple[str, int, int]]) -> Module:
    """A copy that shares the weights of the model, with muted heads. Raises as `mute_heads`.

    Without hooks, so that every kernel computes it: the columns of W_O of a muted head are 0, which
    has the same output as attention weights of 0.
    """
    copy = shared_copy(model)
    for each, off in _selected(copy, heads):
        weight = each.module.output.weight.detach().clone()  # (D, H*K)
        weight.view(len(weight), each.module.n_heads, -1)[:, off] = 0
        each.module.output.weight = nn.Parameter(weight, requires_grad=False)
    return copy


def _selected(
    model: nn.Module, heads: Iterable[tuple[str, int, int]]
) -> list[tuple[AttentionModule, list[int]]]:
    """The attention modules that have some of these heads, with their numbers in order."""
    modules = attention_modules(model)
    n_heads: dict[tuple[str, int], int] = {
        (each.block, each.layer): each.module.n_heads for each in modules
    }
    last = {block: (block, layer, n - 1) for (block, layer), n in n_heads.items()}
    selected: dict[tuple[str, int], set[int]] = defaultdict(set)
    for given in heads:
        block, layer, head = given if isinstance(given, tuple) and len(given) == 3 else ("", 0, 0)
        if not (type(layer) is type(head) is int and 0 <= head < n_heads.get((block, layer), 0)):
            raise TraceError(
                "trace.muted_head",
                "a muted head must be (block, layer, head) of the model, whose last ones are "
                "{last}, got {given!r:.60}",
                last=", ".join(repr(each) for each in last.values()),
                given=given,
            )
        selected[block, layer].add(head)
    of = {(each.block, each.layer): each for each in modules}
    order = [key for key in of if key in selected]
    return [(of[key], sorted(selected[key])) for key in order]


def _without(heads: list[int]) -> Edit:
    def edit(weights: Tensor) -> Tensor:
        zeroed = weights.clone()  # (B, H, T, S)
        zeroed[:, heads] = 0
        return zeroed

    return edit


def _backbone_points(side: Side, backbone: Encoder | Decoder) -> Iterator[Point]:
    own: BlockName = "encoder" if side == "source" else "decoder"
    both: tuple[Side, Side] = (side, side)
    relative = backbone.stack.relative
    if not isinstance(relative, RelativeEmbedding | None):
        heads = backbone.stack.layers[0].self_attention.n_heads
        yield Point(f"{own}.bias", "BHTS", both, relative, heads=heads)  # (1, H, T, S)
    for i, layer in enumerate(backbone.stack.layers):
        yield Point(f"{side}.hidden.{i}", "BTD", both, layer, is_input=True)
        step = f"{side}.steps.{i}"
        attentions = [("self_attention", own, both, layer.self_attention)]
        if layer.cross_attention is not None:
            attentions.append(
                ("cross_attention", "cross", ("target", "source"), layer.cross_attention)
            )
        for name, block, sides, attention in attentions:
            residual = getattr(layer, f"{name}_norm")
            yield from _norm_input(step, name, both, residual)
            yield from _attention_points(f"{block}.{i}", sides, attention)
            yield Point(f"{step}.{name}", "BTD", both, attention.output)
            yield from _after_sublayer(step, name, both, residual)
        yield from _norm_input(step, "feed_forward", both, layer.feed_forward_norm)
        yield Point(f"{step}.hidden", "BTF", both, layer.feed_forward.down, is_input=True)
        yield Point(f"{step}.feed_forward", "BTD", both, layer.feed_forward)
        yield from _after_sublayer(step, "feed_forward", both, layer.feed_forward_norm)
    last = len(backbone.stack.layers)
    yield Point(f"{side}.hidden.{last}", "BTD", both, backbone.stack.norm)


def _attention_points(
    prefix: str, sides: tuple[Side, Side], attention: MultiHeadAttention
) -> Iterator[Point]:
    """Each step of equation (1)."""

    def point(name: str, axes: str, module: nn.Module, *, is_input: bool = False) -> Point:
        heads = attention.n_kv_heads if "G" in axes else attention.n_heads
        return Point(f"{prefix}.{name}", axes, sides, module, is_input, heads)

    yield point("q", "BHTK", attention.hook_q)
    yield point("k", "BGSK", attention.hook_k)
    yield point("v", "BGSK", attention.hook_v)
    if isinstance(attention, DisentangledAttention):
        yield point("bias", "BHTS", attention.hook_position_scores)
    yield point("scores", "BHTS", attention.hook_scores)
    yield point("weights", "BHTS", attention.hook_pattern)
    yield point("mixed", "BHTK", attention.output, is_input=True)


def _norm_input(
    step: str, name: str, sides: tuple[Side, Side], residual: ResidualNorm
) -> Iterator[Point]:
    """The normalized input of a sublayer, of a pre-norm layer."""
    if residual.norm_first and not isinstance(residual.norm, nn.Identity):
        yield Point(f"{step}.{name}_input", "BTD", sides, residual.norm)


def _after_sublayer(
    step: str, name: str, sides: tuple[Side, Side], residual: ResidualNorm
) -> Iterator[Point]:
    """The normalized output of a sublayer, if it is, and the residual stream after it."""
    if not isinstance(residual.sublayer_norm, nn.Identity):
        yield Point(f"{step}.{name}_normed", "BTD", sides, residual.sublayer_norm)
    yield Point(f"{step}.after_{name}", "BTD", sides, residual)

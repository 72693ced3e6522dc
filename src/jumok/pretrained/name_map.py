"""Name maps: which jumok parameters each tensor of a Hugging Face checkpoint holds.

A rule names a module or a parameter on both sides; `{}` is the index of a layer. The same rules
are used in both directions, so a checkpoint is saved under the names it was loaded from.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Parts = tuple[Tensor, ...]


@dataclass(frozen=True)
class Transform:
    """The memory layout on both sides: one HF tensor to jumok tensors, and back."""

    split: Callable[[Tensor, int], Parts]  # HF tensor, index of jumok tensors -> jumok tensors
    join: Callable[[Parts], Tensor]  # jumok tensors -> HF tensor


def _conv1d_split(tensor: Tensor, n: int) -> Parts:
    return tuple(part.T if part.ndim == 2 else part for part in tensor.chunk(n, -1))


def _conv1d_join(parts: Parts) -> Tensor:
    return torch.cat([part.T if part.ndim == 2 else part for part in parts], -1)


IDENTITY = Transform(lambda tensor, n: (tensor,), lambda parts: parts[0])
CONV1D = Transform(_conv1d_split, _conv1d_join)  # GPT-2: (in, out), one or several concatenated
ROWS = Transform(torch.chunk, torch.cat)  # (out, in) of several maps, one after the other
ROW_VECTOR = Transform(
    lambda tensor, n: (tensor[0],), lambda parts: parts[0][None]
)  # a bias of shape (1, V)


@dataclass(frozen=True)
class NameRule:
    """One HF name and its jumok names: several if the HF tensor concatenates them."""

    hf_name: str
    jumok_names: tuple[str, ...]
    transform: Transform = IDENTITY

    def split(self, tensor: Tensor) -> Mapping[str, Tensor]:
        """The HF tensor as jumok parameters: views of the same memory.

        >>> mapping = rule("c_attn.weight", "q.weight", "k.weight", transform=CONV1D)
        >>> parts = mapping.split(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]))
        >>> parts["k.weight"].tolist()
        [[3, 7], [4, 8]]
        >>> mapping.join(parts).tolist()
        [[1, 2, 3, 4], [5, 6, 7, 8]]
        """
        parts = self.transform.split(tensor, len(self.jumok_names))
        return dict(zip(self.jumok_names, parts, strict=True))

    def join(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Jumok parameters as the HF tensor."""
        return self.transform.join(tuple(parameters[name] for name in self.jumok_names))


def rule(hf_name: str, *jumok_names: str, transform: Transform = IDENTITY) -> NameRule:
    """A `NameRule`.

    >>> rule("wte", "decoder.embedding.tokens").jumok_names
    ('decoder.embedding.tokens',)
    """
    return NameRule(hf_name, jumok_names, transform)


def with_prefix(
    hf_prefix: str, jumok_prefix: str, rules: Iterable[NameRule]
) -> tuple[NameRule, ...]:
    """The rules of a submodule, prefixed with its name on both sides.

    >>> rules = [rule("mlp.c_fc", "feed_forward.up")]
    >>> with_prefix("h.{}", "decoder.stack.layers.{}", rules)[0].hf_name
    'h.{}.mlp.c_fc'
    """
    return tuple(
        replace(
            each,
            hf_name=_join(hf_prefix, each.hf_name),
            jumok_names=tuple(_join(jumok_prefix, name) for name in each.jumok_names),
        )
        for each in rules
    )


def without_prefix(prefix: str, rules: Iterable[NameRule]) -> tuple[NameRule, ...]:
    """The rules of one submodule, with its prefix removed from the jumok names.

    >>> rules = [rule("wte", "decoder.embedding.tokens"), rule("x", "encoder.y")]
    >>> without_prefix("decoder", rules)[0].jumok_names
    ('embedding.tokens',)
    """
    start = f"{prefix}."
    return tuple(
        replace(each, jumok_names=tuple(name.removeprefix(start) for name in each.jumok_names))
        for each in rules
        if all(name.startswith(start) for name in each.jumok_names)
    )


def expand(rules: Sequence[NameRule], parameter_names: Iterable[str]) -> list[NameRule]:
    """The rules expanded for a model with these parameters; tied parameters appear once.

    Rules for parameters that the model does not have (another layer, a bias) are skipped. Raises
    AssertionError if a parameter has no rule: the rules are not those of the model.

    >>> rules = [rule("wte", "tokens"), rule("h.{}.fc", "layers.{}.up")]
    >>> found = expand(rules, ["tokens.weight", "layers.0.up.weight", "layers.0.up.bias"])
    >>> [mapping.hf_name for mapping in found]
    ['wte.weight', 'h.0.fc.weight', 'h.0.fc.bias']
    """
    expected = dict.fromkeys(parameter_names)
    indices = range(1 + max((_layer_index(name) for name in expected), default=0))
    found = [
        named
        for each in rules
        for index in (indices if "{}" in each.hf_name else range(1))
        for named in _expand_rule(each, index)
        if all(name in expected for name in named.jumok_names)
    ]
    unmapped = expected.keys() - {name for mapping in found for name in mapping.jumok_names}
    assert not unmapped, f"no rule for {sorted(unmapped)}"
    return found


def _join(outer: str, inner: str) -> str:
    return ".".join(part for part in (outer, inner) if part)


def _layer_index(name: str) -> int:
    return max((int(part) for part in name.split(".") if part.isdigit()), default=0)


def _expand_rule(each: NameRule, index: int) -> Iterator[NameRule]:
    """The rule for a parameter of this name, and for the weight and the bias of a module."""
    for end in ("", ".weight", ".bias"):
        names = (name.format(index) + end for name in each.jumok_names)
        yield rule(each.hf_name.format(index) + end, *names, transform=each.transform)

"""Layer-wise learning rates and frozen weights, by the position of a weight in the model.

The first layers of a pretrained model hold the most general features. With a decay d a weight of
layer l = 1 ... L of an encoder or decoder has d^(L - l) times the learning rate; its embeddings and
its relative position bias, l = 0, have d^L times; weights after the layers (a last norm, the head)
have the full rate (Howard and Ruder 2018, 3.2; Clark et al. 2020).
"""

import re
from collections.abc import Collection, Iterable, Sequence

from jumok.errors import InputError

_POSITION = re.compile(
    r"(?P<backbone>.*?)"
    r"(?:stack\.layers\.(?P<layer>\d+)|(?P<embedding>embedding|stack\.relative))\."
)
_LAYERS = re.compile(r"layers\.(\d+)(?:-(\d+))?")


def lr_multipliers(names: Collection[str], decay: float) -> dict[str, float]:
    """The factor of the learning rate of each weight.

    >>> names = ["encoder.embedding.tokens.weight", "encoder.stack.layers.0.norm.weight",
    ...          "encoder.stack.layers.1.norm.weight", "output.weight"]
    >>> list(lr_multipliers(names, decay=0.5).values())
    [0.25, 0.5, 1.0, 1.0]
    """
    positions = {name: _POSITION.match(name) for name in names}
    n_layers: dict[str, int] = {}  # of each backbone
    for match in filter(None, positions.values()):
        backbone, layer = match["backbone"], int(match["layer"] or -1)
        n_layers[backbone] = max(n_layers.get(backbone, 0), layer + 1)
    return {
        name: decay ** (n_layers[m["backbone"]] - int(m["layer"] or -1) - 1) if m else 1.0
        for name, m in positions.items()
    }


def is_in_layer(name: str) -> bool:
    """Whether a weight belongs to a layer of an encoder or decoder.

    >>> is_in_layer("encoder.stack.layers.0.feed_forward.up.weight"), is_in_layer("output.weight")
    (True, False)
    """
    match = _POSITION.match(name)
    return match is not None and match["layer"] is not None


def frozen_parameters(names: Collection[str], patterns: Iterable[str]) -> set[str]:
    """The weights that `training.freeze` excludes from training.

    "embeddings", "layers.2" and "layers.0-3" match in every encoder and decoder; any other pattern
    is the beginning of a name, "encoder" or "encoder.stack.layers.0.self_attention". Raises
    InputError if a pattern matches no weight, or if no weight is left to train.

    >>> names = ["encoder.embedding.tokens.weight", "encoder.stack.layers.0.norm.weight",
    ...          "encoder.stack.layers.1.norm.weight", "output.weight"]
    >>> sorted(frozen_parameters(names, ["embeddings", "layers.0-1"])) == sorted(names[:3])
    True
    >>> frozen_parameters(names, ["layers.2"])
    Traceback (most recent call last):
    jumok.errors.InputError: training.freeze must name weights of the model, got "layers.2"; try \
embeddings, layers.0-1, encoder or the beginning of a weight's name
    """
    frozen: set[str] = set()
    for pattern in patterns:
        matching = {name for name in names if _matches(pattern, name)}
        if not matching:
            raise InputError(
                "training.freeze_matches_nothing",
                'training.freeze must name weights of the model, got "{pattern}"; try '
                "{valid_patterns} or the beginning of a weight's name",
                pattern=pattern,
                valid_patterns=_valid_patterns(names),
            )
        frozen |= matching
    if frozen and len(frozen) == len(names):
        raise InputError(
            "training.all_weights_frozen",
            "training.freeze must leave weights to train, got all; exclude the head",
        )
    return frozen


def _matches(pattern: str, name: str) -> bool:
    match = _POSITION.match(name)
    layers = _LAYERS.fullmatch(pattern)
    if layers:
        first, last = int(layers[1]), int(layers[2] or layers[1])
        return match is not None and first <= int(match["layer"] or -1) <= last
    if pattern == "embeddings":
        return match is not None and match["embedding"] is not None
    return name == pattern or name.startswith(f"{pattern}.")


def _valid_patterns(names: Collection[str]) -> str:
    """The patterns that match something in a model with these weights."""
    matches: Sequence[re.Match[str]] = [match for match in map(_POSITION.match, names) if match]
    numbers = [int(match["layer"]) for match in matches if match["layer"]]
    backbones = dict.fromkeys(match["backbone"].removesuffix(".") for match in matches)
    last = max(numbers, default=0)
    return ", ".join(
        ["embeddings", f"layers.0-{last}" if last else "layers.0", *filter(None, backbones)]
    )

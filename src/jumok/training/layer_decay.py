"""Where in a model a weight lies: deep layers may learn slower than the head, or not at all.

A pretrained model knows most in its first layers. With a decay d a weight of layer l = 1 ... L of a
tower learns at d^(L - l) of the rate, its embeddings and the bias of relative positions, l = 0, at
d^L, and what comes after the layers (a last norm, the head) at the whole rate (Howard and Ruder
2018, 3.2; Clark et al. 2020).
"""

import re
from collections.abc import Collection, Iterable, Sequence

from jumok.errors import InputError

_PLACE = re.compile(
    r"(?P<tower>.*?)"
    r"(?:stack\.layers\.(?P<layer>\d+)|(?P<embedding>embedding|stack\.relative))\."
)
_LAYERS = re.compile(r"layers\.(\d+)(?:-(\d+))?")


def lr_multipliers(names: Collection[str], decay: float) -> dict[str, float]:
    """Which share of the learning rate each weight learns at.

    >>> names = ["encoder.embedding.tokens.weight", "encoder.stack.layers.0.norm.weight",
    ...          "encoder.stack.layers.1.norm.weight", "output.weight"]
    >>> list(shares(names, decay=0.5).values())
    [0.25, 0.5, 1.0, 1.0]
    """
    places = {name: _PLACE.match(name) for name in names}
    layers: dict[str, int] = {}  # of each tower
    for place in filter(None, places.values()):
        tower, layer = place["tower"], int(place["layer"] or -1)
        layers[tower] = max(layers.get(tower, 0), layer + 1)
    return {
        name: decay ** (layers[place["tower"]] - int(place["layer"] or -1) - 1) if place else 1.0
        for name, place in places.items()
    }


def frozen_parameters(names: Collection[str], words: Iterable[str]) -> set[str]:
    """The weights that do not learn: those the words of `training.freeze` mean.

    "embeddings", "layers.2" and "layers.0-3" speak of every tower; any other word is the beginning
    of a name, "encoder" or "encoder.stack.layers.0.self_attention". Raises InputError for a word that
    means no weight, and when nothing is left to learn.

    >>> names = ["encoder.embedding.tokens.weight", "encoder.stack.layers.0.norm.weight",
    ...          "encoder.stack.layers.1.norm.weight", "output.weight"]
    >>> sorted(frozen(names, ["embeddings", "layers.0-1"])) == sorted(names[:3])
    True
    >>> frozen(names, ["layers.2"])
    Traceback (most recent call last):
    jumok.errors.InputError: training.freeze "layers.2" means no weight; name embeddings, \
layers.0-1, encoder or the beginning of a weight's name
    """
    found: set[str] = set()
    for word in words:
        meant = {name for name in names if _means(word, name)}
        if not meant:
            raise InputError(
                f'training.freeze "{word}" means no weight; name {_known(names)} or the beginning '
                "of a weight's name"
            )
        found |= meant
    if found and len(found) == len(names):
        raise InputError("training.freeze leaves no weight to learn; leave the head out")
    return found


def _means(word: str, name: str) -> bool:
    place = _PLACE.match(name)
    layers = _LAYERS.fullmatch(word)
    if layers:
        first, last = int(layers[1]), int(layers[2] or layers[1])
        return place is not None and first <= int(place["layer"] or -1) <= last
    if word == "embeddings":
        return place is not None and place["embedding"] is not None
    return name == word or name.startswith(f"{word}.")


def _known(names: Collection[str]) -> str:
    """The words that would mean something in a model of these weights."""
    places: Sequence[re.Match[str]] = [place for place in map(_PLACE.match, names) if place]
    numbers = [int(place["layer"]) for place in places if place["layer"]]
    towers = dict.fromkeys(place["tower"].removesuffix(".") for place in places)
    last = max(numbers, default=0)
    return ", ".join(
        ["embeddings", f"layers.0-{last}" if last else "layers.0", *filter(None, towers)]
    )

"""Options of `jumok serve` for all models, or with `NAME:` in front for one of them."""

from collections.abc import Sequence

from jumok.errors import InputError


def precision_of(name: str, names: Sequence[str], given: str | Sequence[str] | None) -> str | None:
    """The value of --precision for a model: its own one, else the last one for all models.

    >>> [precision_of(name, ["nsmc", "koen"], ["nsmc:int8"]) for name in ("nsmc", "koen")]
    ['int8', None]
    """
    found: dict[str, str] = {}
    for value in [given] if isinstance(given, str) else given or ():
        owner, _, precision = value.rpartition(":")
        _check_owner("--precision", owner, names)
        found[owner] = precision
    return found.get(name, found.get(""))


def decoding_of(name: str, names: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """The values of --decoding for a model: those for all models, then its own ones.

    >>> decoding_of("koen", ["nsmc", "koen"], ["koen:beam=5", "koen:pattern=a:b", "seed=1"])
    ('seed=1', 'beam=5', 'pattern=a:b')
    """
    found: dict[str, list[str]] = {}
    for value in given:
        key, equals, setting = value.partition("=")
        owner, _, key = key.rpartition(":")
        _check_owner("--decoding", owner, names)
        found.setdefault(owner, []).append(key + equals + setting)
    return (*found.get("", ()), *found.get(name, ()))


def _check_owner(option: str, owner: str, names: Sequence[str]) -> None:
    if owner not in ("", *names):
        raise InputError(
            f"the name in {option} must be one of {', '.join(names)}, got {owner!r}; correct it"
        )

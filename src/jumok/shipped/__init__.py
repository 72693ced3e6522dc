"""Models that ship with jumok: folders of this package in the format of a run, found by name."""

from pathlib import Path

from jumok.errors import InputError

VOCABULARY, WEIGHTS, CARD = "vocabulary.model", "model.safetensors", "README.md"

_HERE = Path(__file__).parent


def shipped_folders(here: Path = _HERE) -> dict[str, Path]:
    """The folders by name; one without weights ships its vocabulary alone."""
    return {path.parent.name: path.parent for path in sorted(here.glob(f"*/{VOCABULARY}"))}


def has_weights(name: str, here: Path = _HERE) -> bool:
    """Whether a model of this name ships with its weights.

    >>> has_weights("note")
    True
    """
    folder = shipped_folders(here).get(name)
    return folder is not None and (folder / WEIGHTS).is_file()


def resolve_model(name: str | Path, here: Path = _HERE) -> Path:
    """The folder of a model that ships with jumok; any other name is a path.

    A folder of that name in the working directory has precedence. Raises InputError for a model
    whose vocabulary alone ships.

    >>> resolve_model("runs/nsmc")
    PosixPath('runs/nsmc')
    """
    path = Path(name)
    folder = shipped_folders(here).get(str(name))
    if folder is None or path.exists():
        return path
    if not (folder / WEIGHTS).is_file():
        raise InputError(
            "run.weights_not_shipped",
            "{name} must have weights, but this version of jumok ships its vocabulary alone; "
            "train them with jumok train {name}, and name the folder of that run",
            name=name,
        )
    return folder


def resolve_vocabulary(name: str, here: Path = _HERE) -> Path:
    """The vocabulary of a model that ships with jumok; any other name is a path.

    >>> resolve_vocabulary("ko-small").name, resolve_vocabulary("my.model").name
    ('vocabulary.model', 'my.model')
    """
    folder = shipped_folders(here).get(name)
    return Path(name) if folder is None or Path(name).exists() else folder / VOCABULARY


def complete_run(incomplete: str) -> list[str]:
    """Models that ship, and the runs in `runs/` and where the beginning of a path points to.

    >>> complete_run("no-such-folder/")
    ['enko-small', 'ko-small', 'ko-small-vectors', 'ko-static', 'koen-small', 'note']
    """
    found = list(shipped_folders())
    prefix = incomplete[: incomplete.rfind("/") + 1]
    for parent in {prefix, *(() if prefix else ("runs/",))}:
        folder = Path(parent or ".").expanduser()
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if (path / "recipe.toml").is_file():
                found.append(f"{parent}{path.name}")
    return found

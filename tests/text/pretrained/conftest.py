"""The test vocabularies, learned once in a session, and their folders."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pretrained_tokenizers import FOLDERS, TrainedTokenizers, sample, train_tokenizers

Folders = Callable[[str], Path]


@pytest.fixture(scope="session", autouse=True)
def quiet_panics() -> Iterator[None]:
    """A panic of the tokenizers library is one line on stderr, not the names of all its frames."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUST_BACKTRACE", "0")
        yield


@pytest.fixture(scope="session")
def lines() -> list[str]:
    """10,000 lines of the shared data."""
    return sample()


@pytest.fixture(scope="session")
def learned(lines: list[str]) -> TrainedTokenizers:
    """The vocabularies of the test families."""
    return train_tokenizers(lines)


@pytest.fixture(scope="session")
def folder(learned: TrainedTokenizers, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The folder of a family by its name; not to be written into."""
    root = tmp_path_factory.mktemp("tokenisers")

    def of_family(name: str) -> Path:
        if not (root / name).exists():
            FOLDERS[name](learned, root / name)
        return root / name

    return of_family


@pytest.fixture(scope="session")
def resaved(folder: Folders, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The same, as current transformers writes it."""
    transformers = pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("resaved")

    def of_family(name: str) -> Path:
        if not (root / name).exists():
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder(name))
            tokenizer.save_pretrained(root / name)
            shutil.copy(folder(name) / "config.json", root / name)
        return root / name

    return of_family


def config_of(folder: Path) -> dict[str, object]:
    """The model's configuration in a folder."""
    config: dict[str, object] = json.loads((folder / "config.json").read_text())
    return config

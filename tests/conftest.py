"""Reproducible tests: one thread, fixed hypothesis seeds, a temporary cache.

Some tiny runs are trained once and shared; tests look at them and never write into them.
"""

import gc
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

from jumok.data.trusted_cache import record_sum
from jumok.native.build import KernelError, compiled_kernel, kernel_path

collect_ignore = ["placement.py"]  # a program that registers a device when it is imported

if sys.platform == "win32":  # they fork, limit processes or open terminals
    collect_ignore += ["fuzz", "tasks/runs/test_memory_check.py"]
    collect_ignore += ["training/reporting/test_progress_bar.py"]

torch.set_num_threads(1)
os.environ["JUMOK_LANG"] = "en"  # whatever the locale of the machine
settings.register_profile(
    "jumok",
    derandomize=True,  # the same examples every time: a failure here is a failure everywhere
    deadline=None,  # a busy machine is not a failure
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("jumok")


SECONDS = {"slow": 3.0, "browser": 3.0, "fuzz": 1.0}  # of a test, and of others:
QUICK = 0.05
LONG = {  # of files with few tests that take long
    "test_assemble.py": 100.0,
    "test_assemble_translation.py": 60.0,
    "test_data_parallel.py": 150.0,
    "test_fsdp.py": 150.0,
    "test_lessons.py": 120.0,
    "test_packaging.py": 120.0,
    "test_site.py": 250.0,
    "test_targets.py": 120.0,
    "test_torture.py": 150.0,
}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """All of tests/browser and tests/fuzz have the marker of their folder; long files begin.

    A worker takes one file after the other: a long one at the end would be waited for alone.
    """
    for item in items:
        folder = item.path.parent.name
        if folder in ("browser", "fuzz"):
            item.add_marker(folder)
    yield
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        marked = [SECONDS[mark.name] for mark in item.iter_markers() if mark.name in SECONDS]
        seconds[item.path] += max(marked, default=QUICK)
        if marked:
            seconds[item.path] = max(seconds[item.path], LONG.get(item.path.name, 0.0))
    items.sort(key=lambda item: -seconds[item.path])


def pytest_collection_finish() -> None:
    """The collector of garbage skips the tests and libraries, which remain to the end."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples are in the docstrings of src, not in tests."""
    return [each for each in (yield) if type(each).__name__ != "DoctestModule"]


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """A folder shared by all workers of one pytest run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(pytestconfig, "workerinput") else own  # of pytest-xdist


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory, common_folder: Path) -> Iterator[None]:
    """jumok's user cache in a temporary folder; all workers share the compiled kernels.

    A kernel that `make` has compiled into the user's own cache is copied; where it is missing the
    first worker compiles one, so that no test changes what "auto" chooses for the others.
    """
    cache, kernels = tmp_path_factory.mktemp("cache"), common_folder / "kernels"
    own = compiled_kernel()
    kernels.mkdir(exist_ok=True, mode=0o700)
    (cache / "jumok").mkdir()
    (cache / "jumok" / "native").symlink_to(kernels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.delenv("JUMOK_DATA", raising=False)
        with FileLock(common_folder / "kernels.lock"), suppress(KernelError):
            if own is not None and not (kernels / own.name).exists():
                shutil.copy2(own, kernels)
                record_sum(kernels / own.name)
            kernel_path()
        yield


@pytest.fixture(scope="session")
def compiled(shared_cache: None) -> Path:
    """The native kernel for this processor.

    Where the system has no compiler the tests that want it are skipped.
    """
    try:
        return kernel_path()
    except KernelError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def review_recipe(common_folder: Path) -> Path:
    """The recipe of a classifier of tiny reviews, in a folder with its data."""
    from tests.tiny_runs import write_reviews

    return _once(common_folder / "reviews", write_reviews) / "recipe.toml"


@pytest.fixture(scope="session")
def reading_recipe(common_folder: Path) -> Path:
    """The recipe of a sequence model that writes spoken digits, in a folder with its data."""
    from tests.tiny_runs import write_readings

    return _once(common_folder / "readings", write_readings) / "recipe.toml"


@pytest.fixture(scope="session")
def review_run(review_recipe: Path, common_folder: Path) -> Path:
    """A finished run of `review_recipe`."""
    return _trained(review_recipe, common_folder / "review-runs" / "run")


@pytest.fixture(scope="session")
def reading_run(reading_recipe: Path, common_folder: Path) -> Path:
    """A finished run of `reading_recipe`."""
    return _trained(reading_recipe, common_folder / "reading-runs" / "run")


@pytest.fixture(scope="session")
def language_run(common_folder: Path) -> Path:
    """A finished run of a language model of tiny reviews."""
    from tests.tiny_runs import write_language

    recipe = _once(common_folder / "language", write_language) / "recipe.toml"
    return _trained(recipe, common_folder / "language-runs" / "run")


def _once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder that the first worker to need it makes for all of them."""
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            make(folder)
    return folder


def _trained(recipe: Path, folder: Path) -> Path:
    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.tasks.runs.train import train

    return _once(folder, lambda run: train(load_recipe(str(recipe)), run))

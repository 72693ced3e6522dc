"""What is installed is what was tested: the wheel, in a new environment, from another folder."""

import json
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from jumok.native.build import kernel_name
from jumok.native.choice import FASTER
from jumok.native.instruction_sets import X86_64, machine, usable
from tests.environments import ROOT, built, install, run

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel without compiled kernels, built without the network."""
    return built(tmp_path_factory.mktemp("wheel"), JUMOK_KERNEL="none")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a new environment that holds the wheel."""
    return install(wheel, tmp_path_factory.mktemp("installed"))


@pytest.mark.slow
def test_a_compiler_that_fails_leaves_the_kernel_out(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho error: too busy >&2\nexit 1\n", encoding="ascii")
    compiler.chmod(0o700)
    wheel = built(tmp_path, CXX=str(compiler))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert not (ROOT / "build" / "kernel").exists()


@pytest.mark.slow
def test_the_wheel_holds_recipes_font_licences_and_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "jumok"
    expected = {
        str(path.relative_to(package.parent))
        for pattern in (
            "recipes/*.toml",
            "shipped/*/*",
            "fonts/*",
            "viewer/static/*",
            "viewer/*.js",
            "py.typed",
            "**/*.py",
        )
        for path in package.glob(pattern)
        if path.parent.name != "__pycache__"
    }
    assert {"jumok/recipes/numbers.toml", "jumok/recipes/nsmc.toml"} <= expected
    assert expected <= names
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licences == {
        "LICENSE",
        "src/jumok/fonts/OFL.txt",
        "src/jumok/viewer/static/JumokHangul-OFL.txt",
    }


@pytest.mark.slow
def test_the_wheel_holds_nothing_but_the_package(wheel: Path) -> None:
    rooms = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {capacity for capacity in rooms if not capacity.endswith(".dist-info")} == {"jumok"}


@pytest.mark.slow
def test_the_installed_wheel_trains_from_another_folder(installed: Path, tmp_path: Path) -> None:
    elsewhere, home = tmp_path / "elsewhere", tmp_path / "home"
    elsewhere.mkdir()
    home.mkdir()
    where = run(
        installed / "python", "-c", "import jumok; print(jumok.__file__)", cwd=elsewhere, home=home
    )
    assert Path(where.strip()).is_relative_to(installed.parent)

    rows = ("data.train_rows=2000", "data.dev_rows=50", "data.test_rows=50")
    little = (*rows, "training.steps=4", "decoding.max_length=16")
    run(installed / "jumok", "train", "numbers", *little, cwd=elsewhere, home=home)
    trained = elsewhere / "runs" / "numbers"
    for name in ("recipe.toml", "vocabulary.model", "model.safetensors", "results.json"):
        assert (trained / name).is_file(), name

    answer = run(
        installed / "jumok", "predict", trained, "이천이십육 년", "--json", cwd=elsewhere, home=home
    )
    assert json.loads(answer)["text"] == "이천이십육 년"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(
    sys.platform != "linux" or machine() != X86_64, reason="the wheel of Linux on x86-64"
)
def test_the_wheel_decodes_with_its_kernel_without_a_compiler(
    reading_run: Path, tmp_path: Path
) -> None:
    """The kernel of this processor, the tag of its glibc; it is loaded.

    `make wheel` compiles those of all processors, which tests/native/test_targets compiles too.
    """
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder, home = tmp_path / "dist", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    wheel = built(folder)
    run(sys.executable, ROOT / "scripts" / "tag_wheel.py", wheel, cwd=folder, home=home)
    (wheel,) = folder.glob("*.whl")
    assert re.fullmatch(r"jumok-.*-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    kernels = [name for name in names if name.startswith("jumok/native/lib/kernel-")]
    assert kernels == [f"jumok/native/lib/{kernel_name(usable()[0])}"]
    assert f"jumok/native/lib/{kernel_name(usable()[0], 'training')}" in names
    commands = install(wheel, tmp_path / "installed")
    output = run(
        *(commands / "jumok", "predict", reading_run, "삼 일 오", "--json"),
        *("--decoding", "kernel=native"),
        cwd=home,
        home=home,
        PATH=str(commands),
        CXX="",
    )
    assert json.loads(output)["text"] == "삼 일 오"
    probe = (
        "import sys, jumok, shutil; print(jumok.load(sys.argv[1]).kernel); "
        "from jumok.native.library import library; print(library()._name, shutil.which('g++'))"
    )
    answer = run(
        *(commands / "python", "-c", probe, reading_run), cwd=home, home=home, PATH=str(commands)
    )
    kernel, loaded = answer.splitlines()
    assert kernel.startswith("native in float32") == ("float32" in FASTER[usable()[0].name])
    assert Path(loaded.split()[0]).is_relative_to(tmp_path / "installed")
    assert loaded.endswith(" None")
    assert not list(home.rglob("*.so"))


@pytest.mark.parametrize("page", ["README.md", "README.ko.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    near = [link for link in links if not link.startswith(("http://", "https://"))]
    assert [link for link in near if not (path.parent / link).exists()] == []


def test_both_readmes_have_the_same_commands() -> None:
    english, korean = (
        re.findall(r"```(?:sh|python|toml)\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
        for page in ("README.md", "README.ko.md")
    )

    def bare(blocks: list[str]) -> list[str]:
        lines = [re.sub(r"\s*#.*", "", line) for block in blocks for line in block.splitlines()]
        return [line for line in lines if line]

    assert bare(english) == bare(korean)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's source distribution."""
    home = tmp_path_factory.mktemp("sdist")
    build = (sys.executable, "-m", "build", "--sdist", "--no-isolation")
    run(*build, "--outdir", home, ROOT, cwd=home, home=home)
    (path,) = home.glob("*.tar.gz")
    return path


@pytest.mark.slow
def test_twine_accepts_the_sdist_and_the_wheel(wheel: Path, sdist: Path) -> None:
    twine = (sys.executable, "-m", "twine", "check", "--strict")
    output = run(*twine, wheel, sdist, cwd=sdist.parent, home=sdist.parent)
    assert output.count("PASSED") == 2


@pytest.mark.slow
def test_the_sdist_becomes_a_wheel_that_predicts(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """As `pip install` of the sdist, in a new environment."""
    unpacked, folder, home = (tmp_path / name for name in ("unpacked", "dist", "home"))
    for new in (unpacked, folder, home):
        new.mkdir()
    shutil.unpack_archive(
        sdist, unpacked, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
    )
    (root,) = unpacked.iterdir()
    rebuilt = built(folder, root, JUMOK_KERNEL="none")
    files, expected = (set(zipfile.ZipFile(path).namelist()) for path in (rebuilt, wheel))
    assert files == expected

    commands = install(rebuilt, tmp_path / "installed")
    assert run(commands / "jumok", "--version", cwd=home, home=home) == f"jumok {VERSION}\n"
    code = "import jumok; print(jumok.load('note')('겨울은 추워요.').output)"
    answer = run(commands / "python", "-c", code, cwd=home, home=home)
    assert answer == "Winter is cold.\n"


@pytest.mark.slow
def test_the_sdist_holds_what_is_needed_to_work_on_it(sdist: Path) -> None:
    """Sources, tests and documents, and nothing that was built or downloaded."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    tops = {name.partition("/")[0] for name in names}
    assert tops >= {"src", "tests", "docs", "examples", "scripts", "web", "Makefile", "LICENSE"}
    assert tops.isdisjoint({".venv", "build", "dist", "runs", "shared"})
    assert not [name for name in names if "node_modules/" in name or name.endswith(".so")]


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^## (.*)$", text, re.MULTILINE)[:2]
    assert first == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d", second)


@pytest.mark.parametrize("page", ["README.md", "README.ko.md", "docs/site/pages/index.md"])
def test_pages_install_the_wheel(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"^pip (?:install|wheel) \S+.*?(?=  |$)", text, re.MULTILINE)[:2] == [
        "pip wheel --no-deps --wheel-dir dist .",
        "pip install dist/jumok-*.whl",
    ]


def test_the_citation_has_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation

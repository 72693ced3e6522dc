"""The built page: up to date, small, and without foreign URLs."""

import gzip
import json
import re
from hashlib import sha256
from pathlib import Path

from jumok.viewer.static_files import FOLDER, MEDIA_TYPES, VIEW_SCRIPTS, static_file

WEB = Path(__file__).parents[2] / "web"
CONFIGURATION = {
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "scripts/build.mjs",
    "scripts/manifest.mjs",
}
SCRIPTS = ("app.js", *VIEW_SCRIPTS)
MOST = 74_000  # bytes of app.js and app.css together, zipped; parts come when a view is opened
MAX_PART_BYTES = 33_000

STALE = "the built page is not of these sources: run `npm run build` in web/ and commit it"


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _sources() -> set[str]:
    """The files that a page is built of."""
    found = {
        path.relative_to(WEB).as_posix()
        for path in (WEB / "src").rglob("*")
        if path.suffix in (".ts", ".tsx", ".css", ".json")
        and not path.name.endswith((".test.ts", ".test.tsx", ".golden.json"))
    }
    return CONFIGURATION | {path for path in found if not path.startswith("src/testing/")}


def _text(name: str) -> str:
    return static_file(name).content.decode()


def test_the_page_was_built_of_the_sources_that_are_here() -> None:
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    assert manifest["sources"] == {path: _digest(WEB / path) for path in _sources()}, STALE


def test_the_manifest_lists_the_built_files() -> None:
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    of_models = {"live.js", "model.js", "model.css", "jumok.js", "jumok.d.ts"}
    assert set(manifest["built"]) == {"app.js", "app.css", *VIEW_SCRIPTS} | of_models
    assert manifest["built"] == {name: _digest(FOLDER / name) for name in manifest["built"]}, STALE


def test_script_and_style_are_small() -> None:
    zipped = sum(len(gzip.compress(static_file(name).content)) for name in ("app.js", "app.css"))
    assert zipped <= MOST, f"app.js and app.css take {zipped:,} bytes zipped, over {MOST:,}"
    for name in VIEW_SCRIPTS:
        assert len(gzip.compress(static_file(name).content)) <= MAX_PART_BYTES


def test_the_page_contains_no_foreign_url() -> None:
    """Namespaces of XML are names, not addresses."""
    for name in (*SCRIPTS, "app.css"):
        addresses = re.findall(
            r"(?:https?:|wss?:)?//[a-z0-9-]+(?:\.[a-z0-9-]+)+[^\"'`\s)]*", _text(name)
        )
        assert {each for each in addresses if "//www.w3.org/" not in each} == set(), name


def test_the_style_loads_its_own_font_only() -> None:
    assert re.findall(r"url\(([^)]*)\)", _text("app.css")) == ["./JumokHangul.woff2"]
    assert "@import" not in _text("app.css")


def test_the_script_never_parses_text_as_markup_or_code() -> None:
    script = "".join(map(_text, SCRIPTS))
    for forbidden in (r"\beval\(", r"new Function\(", r"document\.write", r"insertAdjacentHTML"):
        assert not re.search(forbidden, script), forbidden
    # Preact can set innerHTML where it is asked to; nothing asks.
    assert len(re.findall(r"dangerouslySetInnerHTML", script)) <= 3


def test_static_files_without_source_maps() -> None:
    assert not list(FOLDER.glob("*.map"))
    assert "sourceMappingURL" not in "".join(map(_text, (*SCRIPTS, "app.css")))
    for name in MEDIA_TYPES:
        assert static_file(name).content


def test_licences_of_what_ships() -> None:
    licences = (FOLDER / "THIRD_PARTY.txt").read_text()
    packages = json.loads((WEB / "package.json").read_text())["dependencies"]
    for name in packages:
        assert re.search(rf"^{re.escape(name)} \d", licences, re.MULTILINE), name
    assert licences.count("Permission") >= len(packages)

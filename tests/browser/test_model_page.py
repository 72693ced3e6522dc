"""The page of an exported model from file://: answers, keyboard, languages, the check at load."""

import json
from pathlib import Path

import pytest

import jumok
from jumok.export import export
from jumok.formats.web import KERNEL, MODEL, PAGE, Web
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.viewer.page import render_model_page
from jumok.viewer.static_files import static_file
from tests.browser.chromium import Window
from tests.browser.conftest import Windows
from tests.formats.test_web_encoder import NAMES, OWN

pytestmark = pytest.mark.usefixtures("compiled")

TEXT = "배우들이 별로예요 ㅠㅠ"


@pytest.fixture(scope="module")
def exported(review_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("web") / "out"
    export(review_run, "web", out)
    return out


def table(window: Window) -> dict[str, float]:
    rows = window.page.locator("tbody tr")
    return {
        rows.nth(i).locator("th").inner_text(): float(rows.nth(i).locator(".number").inner_text())
        for i in range(rows.count())
    }


def test_the_page_answers_as_the_run(windows: Windows, exported: Path, review_run: Path) -> None:
    expected = jumok.load(review_run, device="cpu")(TEXT)
    wanted = {name: round(p, 4) for name, p in expected.probabilities.items()}  # type: ignore[attr-defined]
    with windows(language="en-US") as window:
        window.page.context.set_offline(True)
        window.open((exported / PAGE).as_uri())
        assert window.run("document.activeElement.id") == "text"
        window.page.keyboard.press("Control+a")
        window.page.keyboard.type(TEXT)
        window.wait_until_equal(
            lambda: table(window) == pytest.approx(wanted, abs=1.1e-4), True, "the table"
        )
        summary = window.page.locator("[data-role=summary]")
        assert summary.inner_text().startswith(expected.label)  # type: ignore[attr-defined]
        assert "differ by" in window.page.locator("[data-role=check]").inner_text()
        assert window.page.locator("[role=alert]").count() == 0
        assert window.violations() == []
        window.page.get_by_role("button", name="한국어").click()
        assert window.run("document.documentElement.lang") == "ko"
        assert window.page.get_by_role("columnheader", name="확률").count() == 1
        window.page.get_by_role("button", name="테마 바꾸기").click()
        assert window.violations() == []
        window.page.get_by_role("textbox").fill("")
        assert window.page.locator("tbody tr").count() == 0
        assert window.foreign_requests((exported / PAGE).as_uri()) == []


def test_the_page_of_a_translator(windows: Windows, tmp_path: Path) -> None:
    export(Path("note"), "web", tmp_path / "note")
    note = jumok.load("note", device="cpu")
    text = "여름은 더워요. 뷁"
    (best,) = note.with_decoding(["beam=3", "n_best=3"])([text])
    page = tmp_path / "note" / PAGE
    with windows(language="en-US") as window:
        window.page.context.set_offline(True)
        window.open(page.as_uri())
        summary = window.page.locator("[data-role=summary]")
        first = note("겨울은 추워요.").output  # type: ignore[attr-defined]
        assert window.page.get_by_role("textbox").input_value() != ""
        window.page.keyboard.press("Control+a")
        window.page.keyboard.type("겨울은 추워요.")
        window.wait_until_equal(summary.inner_text, first, "the translation")
        assert window.page.locator("[data-role=warnings]").count() == 0
        window.page.get_by_role("textbox").fill(text)
        window.page.get_by_role("spinbutton", name="beam").fill("3")
        window.wait_until_equal(
            lambda: window.page.locator("tbody th").all_inner_texts(),
            [each.output for each in best.n_best],  # type: ignore[attr-defined]
            "the candidates",
        )
        assert window.page.locator("[data-role=warnings] mark").all_inner_texts() == ["뷁"]
        assert [each.code for each in best.warnings] == ["unknown_characters"]
        window.page.get_by_role("textbox").fill("겨울은 추워요.")
        window.page.get_by_role("spinbutton", name="temperature").fill("0.1")  # nearly the argmax
        window.wait_until_equal(summary.inner_text, first, "the sample")
        assert window.page.locator("tbody").count() == 0  # a sample has no candidates
        seeds = {window.page.locator("[data-role=seed]").inner_text()}
        for _ in range(3):
            window.page.get_by_role("button", name="draw again").click()
            window.wait_until_equal(window.page.locator("[data-role=seed]").count, 1, "a sample")
            seeds.add(window.page.locator("[data-role=seed]").inner_text())
        assert len(seeds) > 1
        window.page.get_by_role("spinbutton", name="seed").fill("5")
        window.wait_until_equal(
            window.page.locator("[data-role=seed]").inner_text, "seed of this output: 5", "the seed"
        )
        window.page.get_by_role("textbox").fill(" ")
        window.wait_until_equal(summary.inner_text, "write a text", "without a text")
        window.page.get_by_role("textbox").fill("겨울은 추워요.")
        assert "differ by" in window.page.locator("[data-role=check]").inner_text()
        assert window.violations() == []
        assert window.foreign_requests(page.as_uri()) == []


def page_of(name: str, folder: Path) -> tuple[Pipeline, str]:
    """A small model of a task, and the address of its page."""
    model = OWN[name][0]()
    Web().convert(model, folder)
    return model, (folder / PAGE).as_uri()


def test_a_pair_has_two_fields(windows: Windows, tmp_path: Path) -> None:
    model, address = page_of("pairs, compared", tmp_path)
    (expected,) = model([("이 영화 재미있어요", "별로예요")])
    with windows(language="en-US") as window:
        window.page.context.set_offline(True)
        window.open(address)
        window.page.keyboard.press("Control+a")
        window.page.keyboard.type("이 영화 재미있어요")
        window.page.keyboard.press("Tab")
        assert window.run("document.activeElement.labels[0].innerText") == "second text"
        window.page.keyboard.press("Control+a")
        window.page.keyboard.type("별로예요")
        wanted = {label: round(p, 4) for label, p in expected.probabilities.items()}
        window.wait_until_equal(
            lambda: table(window) == pytest.approx(wanted, abs=1.1e-4), True, "the table"
        )
        assert window.page.locator("output").get_attribute("for") == "text second"
        assert window.violations() == []
        assert window.foreign_requests(address) == []


def test_entities_are_shown_in_the_text(windows: Windows, tmp_path: Path) -> None:
    model, address = page_of("tags of characters that are pieces", tmp_path)
    texts = [text for text in NAMES if text and model(text).entities]
    assert texts
    with windows(language="en-US") as window:
        window.page.context.set_offline(True)
        window.open(address)
        summary = window.page.locator("[data-role=summary]")
        for text in texts:
            expected = model(text)
            window.page.get_by_role("textbox").fill(text)
            shown = " ".join(expected.display.split())
            window.wait_until_equal(lambda: " ".join(summary.inner_text().split()), shown, text)
            types = window.page.locator("tbody .number").all_inner_texts()
            assert types == [each.type for each in expected.entities]
        assert window.violations() == []
        assert window.foreign_requests(address) == []


def test_masks_are_filled(windows: Windows, tmp_path: Path) -> None:
    model, address = page_of("masked words", tmp_path)
    text = "이 영화 [MASK][MASK]"
    with windows(language="en-US") as window:
        window.page.context.set_offline(True)
        window.open(address)
        field = window.page.get_by_role("textbox")
        field.fill(text)
        summary = window.page.locator("[data-role=summary]")
        window.wait_until_equal(summary.inner_text, model(text).output, "the filled text")
        assert window.page.locator("tbody tr").count() > 2  # those that fit each mask
        assert window.page.locator("tbody th").first.inner_text().startswith("1: ")
        field.fill("이 영화")
        warning = window.page.locator("[data-role=warnings]")
        window.wait_until_equal(
            lambda: "no [MASK]" in warning.inner_text() if warning.count() else None,
            True,
            "the warning",
        )
        assert window.violations() == []
        assert window.foreign_requests(address) == []


def test_other_numbers_than_those_of_the_export_are_shown(
    windows: Windows, exported: Path, tmp_path: Path
) -> None:
    content = (exported / MODEL).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    settings = json.loads(header["__metadata__"]["jumok"])
    settings["examples"][0]["outputs"][0] += 1
    header["__metadata__"]["jumok"] = json.dumps(settings)
    changed = json.dumps(header).encode()
    changed += b" " * (-len(changed) % 8)
    rest = content[8 + int.from_bytes(content[:8], "little") :]
    file = len(changed).to_bytes(8, "little") + changed + rest
    page = tmp_path / PAGE
    page.write_bytes(render_model_page("changed", file, static_file(KERNEL).content))
    with windows() as window:
        window.open(page.as_uri())
        assert "다릅니다" in window.page.locator("[data-role=check]").inner_text()

"""The page at /: static files without data, and the page in a browser."""

import re
from pathlib import Path

import pytest

from tests.browser.chromium import launched
from tests.serving.server_process import Server, serving


def test_files_of_the_page_name_no_other_address(server: Server) -> None:
    for path in ("/", "/page.js", "/page.css"):
        reply = server.request(path)
        assert reply.status == 200
        assert "script-src 'self'" in reply.headers["content-security-policy"]
        assert not re.search(rb"https?://", reply.body)


@pytest.mark.browser
def test_a_person_predicts_in_both_languages(server: Server) -> None:
    with launched() as browser:
        page = browser.new_page(locale="ko-KR")
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.get_by_label("텍스트").fill("이 영화 정말 재미있어요 <b>")
        page.get_by_role("button", name="예측").click()
        page.wait_for_selector("meter")
        assert page.locator("#answer .output").inner_text() in ("positive", "negative")
        page.get_by_role("button", name="English").click()
        page.get_by_role("button", name="Predict").wait_for()
    assert errors == []


PAYLOADS = (
    "</script><script>window.__pwned=1</script>",
    "<img src=x onerror=window.__pwned=1>",
    "<svg onload=window.__pwned=1>",
    "<!--><script>window.__pwned=1</script>-->",
    "]]><script>window.__pwned=1</script>",
    "javascript:window.__pwned=1",
    '"onmouseover=window.__pwned=1 x="',
    "'};window.__pwned=1;//",
    "\u2028window.__pwned=1",
    "${window.__pwned=1}{{constructor.constructor('window.__pwned=1')()}}",
    "<iframe srcdoc='<script>parent.__pwned=1</script>'>",
    "<math><mtext></form><mglyph><style></math><img src onerror=window.__pwned=1>",
)


@pytest.mark.browser
def test_texts_and_names_are_shown_literally(review_run: Path, tmp_path: Path) -> None:
    """In the text, in the name of the model and in an error; nothing of it runs."""
    named = tmp_path / "<img src=x onerror=window.__pwned=1>"
    named.symlink_to(review_run)
    with serving(tmp_path / "server", [named, review_run]) as server, launched() as browser:
        page = browser.new_page(locale="ko-KR")
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: errors.extend(_foreign(request.url, server)))
        page.goto(f"http://127.0.0.1:{server.port}/")
        for payload in PAYLOADS:
            page.get_by_label("텍스트").fill(payload)
            with page.expect_response("**/v1/predict") as answered:
                page.get_by_role("button", name="예측").click()
            assert answered.value.status == 200
            page.wait_for_selector("meter")
            assert page.evaluate("window.__pwned") is None
            assert page.locator("#answer img, #answer script, #answer svg").count() == 0
        assert named.name in page.content().replace("&lt;", "<").replace("&gt;", ">")
        assert page.locator("img, iframe").count() == 0
    assert errors == []


def _foreign(address: str, server: Server) -> list[str]:
    return [] if address.startswith(f"http://127.0.0.1:{server.port}/") else [address]

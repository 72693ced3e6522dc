"""The page at /: static files without data, and the page in a browser."""

import re

import pytest

from tests.browser.chromium import launched
from tests.serving.server_process import Server


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

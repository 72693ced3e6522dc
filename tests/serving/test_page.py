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
        page.get_by_label("텍스트", exact=True).fill("이 영화 정말 재미있어요 <b>")
        page.get_by_role("button", name="예측").click()
        page.wait_for_selector("meter")
        assert page.locator("#answer .output").inner_text() in ("positive", "negative")
        page.get_by_role("button", name="English").click()
        page.get_by_role("button", name="Predict").wait_for()
    assert errors == []


def test_errors_of_every_kind_are_korean(server: Server) -> None:
    for path, content in (
        ("/none", {}),
        ("/v1/models", {}),
        ("/v1/predict", b"["),
        ("/v1/predict", {"texts": ["a"], "model": "none"}),
        ("/embed", {"inputs": "a", "normalize": 1}),
        ("/v1/embeddings", {"input": "a", "model": "reading"}),
        ("/v1/predict", {"texts": ["a"], "decoding": {"beam": 2}}),
        ("/v1/predict", {"texts": ["a"], "model": "reading", "decoding": {"beam": "7"}}),
    ):
        reply = server.request(path, content, Accept_Language="ko")
        assert reply.status >= 400
        assert re.search("[가-힣]", reply.error["message"]), reply.error
    origin = server.request("/v1/predict", {}, Origin="http://other", Accept_Language="ko")
    assert "출처" in origin.error["message"]


@pytest.mark.browser
def test_a_pair_has_two_fields_and_failures_are_translated(
    review_run: Path, pair_run: Path, tmp_path: Path
) -> None:
    with serving(tmp_path / "server", [review_run, pair_run]) as server, launched() as browser:
        page = browser.new_page(locale="ko-KR")
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.wait_for_selector("#model option", state="attached")
        assert not page.get_by_label("두 번째 텍스트").is_visible()
        page.locator("#model").select_option("pairs")
        page.get_by_label("텍스트", exact=True).fill("이 영화")
        page.get_by_label("두 번째 텍스트").fill("음악이 최고예요")
        with page.expect_response("**/v1/predict") as answered:
            page.get_by_role("button", name="예측").click()
        assert answered.value.json()["answers"][0]["text"] == "이 영화\t음악이 최고예요"
        page.wait_for_selector("meter")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_label("두 번째 텍스트").fill("하나\t둘")
        page.get_by_role("button", name="예측").click()
        page.locator("#message").filter(has_text="문장 쌍은 TAB 하나로 나뉜").wait_for()
        page.route("**/v1/*", lambda route: route.abort())
        page.get_by_role("button", name="예측").click()
        page.get_by_text("서버에 연결할 수 없습니다.").wait_for()
        page.reload()
        page.get_by_text("서버에 연결할 수 없습니다.").wait_for()


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
            page.get_by_label("텍스트", exact=True).fill(payload)
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

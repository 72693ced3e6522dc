"""`--traces`: pages with the attention of a text, kept within limits, at secret addresses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import launched
from tests.serving.server_process import Server, serving

TEXT = "이 영화 정말 재미있어요 </script><b>"
TOKEN = "a-token-of-letters"


@pytest.fixture(scope="module")
def tracing(
    compiled: Path, review_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with --traces, a token and an int8 encoder, which keeps two traces."""
    folder = tmp_path_factory.mktemp("tracing")
    options = {"precision": "int8", "traces": True, "token": TOKEN, "limits": {"traces": 2}}
    with serving(folder, [review_run], **options) as server:
        yield server


def test_the_newest_traces_are_kept_at_secret_addresses(tracing: Server) -> None:
    assert tracing.request("/v1/models").json["traces"] is True
    addresses = []
    for number in range(3):
        reply = tracing.request("/v1/trace", {"text": f"{TEXT} {number}"})
        assert reply.status == 200, reply.body
        addresses.append(reply.json["address"])
    statuses = [tracing.request(f"/{each}", Authorization="").status for each in addresses]
    assert statuses == [404, 200, 200]
    page = tracing.request(f"/{addresses[2]}", Authorization="")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-store"
    assert b"</script><b>" not in page.body
    assert len(addresses[0].partition("=")[2]) == 22
    assert tracing.request("/trace?id=" + "a" * 22, Authorization="").status == 404
    assert tracing.request("/trace", Authorization="").status == 404
    log = tracing.log.read_text(encoding="utf-8")
    assert not any(each.partition("=")[2] in log for each in addresses)


def test_traces_need_the_token_and_a_text(tracing: Server) -> None:
    assert tracing.request("/v1/trace", {"text": "a"}, Authorization="").status == 401
    assert tracing.request("/v1/trace", {"text": 3}).status == 400
    assert tracing.request("/v1/trace", {"text": "a", "model": "x"}).status == 404


@pytest.mark.slow
def test_a_trace_that_is_too_large_is_refused(review_run: Path, tmp_path: Path) -> None:
    options = {"traces": True, "limits": {"trace_bytes": 1_000}}
    with serving(tmp_path, [review_run], **options) as server:
        reply = server.request("/v1/trace", {"text": "a"})
        assert reply.status == 413
        assert "a trace must have at most 1000 bytes" in reply.error["message"]


def test_traces_are_off_by_default(server: Server) -> None:
    assert server.request("/v1/trace", {"text": "a"}).status == 404
    assert server.request("/trace").status == 404
    assert server.request("/v1/models").json["traces"] is False


@pytest.mark.browser
def test_the_page_links_to_the_trace_of_its_text(tracing: Server) -> None:
    with launched() as browser:
        page = browser.new_page(locale="ko-KR")
        errors: list[str] = []
        page.goto(f"http://127.0.0.1:{tracing.port}/")
        page.locator("#token").fill(TOKEN)
        page.get_by_label("텍스트", exact=True).fill(TEXT)
        page.get_by_role("button", name="예측").click()
        page.get_by_role("button", name="어텐션 보기").click()
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="어텐션 보기").click()
        viewer = opened.value
        viewer.on("pageerror", lambda error: errors.append(str(error)))
        viewer.wait_for_selector("h1")
        assert "재미있어요" in "".join(viewer.locator("body").inner_text().split())
    assert errors == []

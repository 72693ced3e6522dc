"""Requests that schemathesis generates from /openapi.json: valid ones and invalid ones.

Each response has a status, a type and a body that the description names and no status of 500 or
more, and an invalid request is refused.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.serving.server_process import Server, serving
from tests.serving.test_options import described

EXAMPLES = 20
FEW = {"/admin/reload": 3, "/v1/completions": 30}  # a reload takes a second
DESCRIPTION = described()
OPERATIONS = [
    (path, method) for path, methods in DESCRIPTION["paths"].items() for method in methods
]


@pytest.fixture(scope="module")
def server(
    review_run: Path, reading_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of a classifier and of a model that generates text."""
    folder = tmp_path_factory.mktemp("described")
    reading = folder / "reading"
    reading.symlink_to(reading_run)
    limits = {"max_wait": 60.0, "new_tokens": 64.0}
    with serving(folder / "server", [review_run, reading], limits=limits) as found:
        yield found


@pytest.mark.fuzz
@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_responses_are_as_described(server: Server, path: str, method: str, valid: bool) -> None:
    schemathesis = pytest.importorskip("schemathesis")  # here: it takes a second to import
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi import checks

    expected = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.unsupported_method,
    ]
    schema = schemathesis.openapi.from_dict(server.request("/openapi.json").json)
    mode = GenerationMode.POSITIVE if valid else GenerationMode.NEGATIVE
    if method == "get" and not valid:
        pytest.skip("a request without parameters is always valid")
    address = f"http://127.0.0.1:{server.port}"

    @given(case=schema[path][method.upper()].as_strategy(generation_mode=mode))
    @settings(
        max_examples=FEW.get(path, EXAMPLES if method == "post" else 2),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any) -> None:
        response = case.call(base_url=address, timeout=300)  # a reload on a busy machine
        case.validate_response(response, checks=expected)
        assert valid or 400 <= response.status_code < 500
        if response.status_code >= 400:
            assert len(response.content) <= 2048

    check()
    assert server.request("/ready").status == 200

"""What the page's server says: JSON, and for whatever cannot be done one sentence of it."""

import json

from starlette.responses import Response


def json_response(content: object, status: int = 200) -> Response:
    r"""JSON in ASCII alone: texts may hold what UTF-8 does not.

    >>> json_response({"id": "\ud800"}).body
    b'{"id": "\\ud800"}'
    """
    return Response(json.dumps(content), status, media_type="application/json")


def error_response(status: int, sentence: str) -> Response:
    """A request that is not done, and why.

    >>> error_response(404, "there is no such page").body
    b'{"error": "there is no such page"}'
    """
    return json_response({"error": sentence}, status)

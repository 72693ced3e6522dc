"""The description at GET /openapi.json, in OpenAPI 3.1, made from the routes."""

from collections.abc import Sequence
from dataclasses import dataclass

from jumok.serving.fields import Field, Schema
from jumok.web.app import Route

STRING: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
JSON, TEXT, EVENTS = "application/json", "text/plain", "text/event-stream"
ERROR = {
    **OBJECT,
    "required": ["error"],
    "properties": {
        "error": {
            **OBJECT,
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": STRING,
                "type": STRING,
                "param": {"type": ["string", "null"]},
                "code": STRING,
            },
        }
    },
}
STATUSES = {
    "400": "The request is invalid.",
    "401": "The token is missing or wrong.",
    "403": "The request comes from another origin.",
    "404": "There is no such model.",
    "405": "The method is not allowed.",
    "408": "The request arrived too slowly.",
    "409": "The new version was not loaded.",
    "413": "The body is too long.",
    "415": "The body is not plain JSON.",
    "421": "The Host header names another server.",
    "429": "The server is overloaded; see Retry-After.",
    "500": "The model or the server failed.",
    "503": "The model is not ready; see Retry-After.",
    "504": "The deadline passed.",
}


@dataclass(frozen=True, kw_only=True)
class ApiRoute(Route):
    """A route that the description contains: what a request may have, and the reply."""

    summary: str
    request: Field | None = None
    reply: Schema | None = None  # None: an object
    media_types: Sequence[str] = (JSON,)  # of the reply; all but JSON are strings

    def describe(self) -> Schema:
        """The operation of OpenAPI."""
        reply = OBJECT if self.reply is None else self.reply
        content = {each: {"schema": reply if each == JSON else STRING} for each in self.media_types}
        responses: Schema = {"200": {"description": "The answer.", "content": content}}
        for status, text in STATUSES.items():
            responses[status] = {"description": text, "content": {JSON: {"schema": ERROR}}}
        operation: Schema = {"summary": self.summary, "responses": responses}
        if self.request is not None:
            body = {"content": {JSON: {"schema": self.request.schema}}, "required": True}
            operation["requestBody"] = body
        return operation


def openapi(version: str, routes: Sequence[Route], *, token: bool) -> Schema:
    """The whole description."""
    paths: dict[str, Schema] = {}
    for route in routes:
        if isinstance(route, ApiRoute):
            described = route.describe()
            if route.path.endswith("/*"):
                one = {"name": "name", "in": "path", "required": True, "schema": STRING}
                described["parameters"] = [one]
            path = route.path.replace("*", "{name}")
            paths.setdefault(path, {})[route.method.lower()] = described
    found: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "jumok serve", "version": version},
        "paths": paths,
    }
    if token:
        found["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        found["security"] = [{"token": []}]
    return found

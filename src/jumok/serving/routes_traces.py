"""Traces of requests (`--traces`): the page of `jumok view` with the attention of one text.

POST /v1/trace computes a trace and keeps its page; GET /trace?id=... sends it. A browser cannot
send the token when it follows a link, so the address itself is a secret: 128 random bits, which
only a client with the token gets. The newest pages are kept, within a number and a size.
"""

import secrets
from collections import OrderedDict

from starlette.requests import Request
from starlette.responses import Response

from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import MODEL, object_of, reply_of, text
from jumok.serving.limits import Limits
from jumok.serving.openapi import STRING, ApiRoute
from jumok.serving.replies import json_reply
from jumok.serving.routes import answer
from jumok.serving.service import Service
from jumok.web.app import Route
from jumok.web.errors import RequestError
from jumok.web.requests import read_object

PAGE_HEADERS = {"content-security-policy": "frame-ancestors 'none'; base-uri 'none'"}


class TracePages:
    """Pages by their secret names, the oldest one first.

    >>> pages = TracePages(number=2, size=5)
    >>> names = [pages.add(page) for page in (b"aa", b"bb", b"cc")]
    >>> [pages.get(name) for name in names]
    [None, b'bb', b'cc']
    >>> pages.add(b"dddd") and pages.get(names[2])
    >>> pages.add(b"123456") is None
    True
    """

    def __init__(self, number: int, size: int) -> None:
        self._number, self._size = number, size
        self._pages: OrderedDict[str, bytes] = OrderedDict()

    def add(self, page: bytes) -> str | None:
        """Keep a page and return its name; None for one that is larger than all may be."""
        if len(page) > self._size:
            return None
        name = secrets.token_urlsafe(16)
        self._pages[name] = page
        while len(self._pages) > self._number or sum(map(len, self._pages.values())) > self._size:
            self._pages.popitem(last=False)
        return name

    def get(self, name: str) -> bytes | None:
        """A page that is still kept."""
        return self._pages.get(name)


class TraceRoutes:
    """Endpoints of traces."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service, self._limits = service, limits
        self._make = object_of({"text": text(limits), "model": MODEL}, ["text"])
        self._pages = TracePages(limits.traces, limits.trace_bytes)

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            ApiRoute(
                *("POST", "/v1/trace", self.make),
                summary="A page with the attention.",
                request=self._make,
                reply=reply_of(model=STRING, hash=STRING, address=STRING),
            ),
            Route("GET", "/trace", self.show, public=True),  # its address is the secret
        ]

    async def make(self, request: Request) -> Response:
        """Trace a text; the reply has the address of its page."""
        content = self._make.check(await read_object(request, self._limits), "")
        model = self._service.model(content.get("model"))
        (found,) = await answer(
            request, model, {"kind": "trace"}, [content["text"]], self._limits, "text"
        )
        name = self._pages.add(found.payload)
        if name is None:
            raise RequestError(
                "request.trace_too_long",
                "a trace must have at most {trace_bytes} bytes; send a shorter text",
                status=413,
                param="text",
                trace_bytes=self._limits.trace_bytes,
            )
        reply = {"model": model.name, "hash": found.hash, "address": f"trace?id={name}"}
        return json_reply(reply, headers={HASH_HEADER: found.hash})

    async def show(self, request: Request) -> Response:
        """The page of a trace."""
        page = self._pages.get(request.query_params.get("id", ""))
        if page is None:
            raise RequestError(
                "request.no_such_trace",
                "there is no such trace; the server keeps the newest ones",
                status=404,
            )
        return Response(page, 200, PAGE_HEADERS, "text/html; charset=utf-8")

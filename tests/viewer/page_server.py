"""A server of the page in this process, and HTTP requests to it."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from jumok.viewer.serve import Address, listen, make_server
from jumok.viewer.server import OneTimeTokens, ServerContent


@dataclass(frozen=True)
class Answer:
    """A response; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> str:
        """The error message."""
        assert list(self.json) == ["error"], self.json
        return str(self.json["error"])


@dataclass(frozen=True)
class Server:
    """A running server."""

    address: Address
    tickets: OneTimeTokens

    def request(
        self,
        path: str,
        body: object = None,
        method: str | None = None,
        token: str | None = "",
        **headers: str,
    ) -> Answer:
        """GET, or POST with a body (JSON unless it is bytes); `token=None` sends none."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["X-Jumok-Token"] = token or self.address.token
        if body is not None and "Content-Type" not in sent:
            sent["Content-Type"] = "application/json"
        content = body if isinstance(body, bytes | None) else json.dumps(body)
        caller = http.client.HTTPConnection("127.0.0.1", self.address.port, timeout=60)
        try:
            caller.request(method or ("GET" if body is None else "POST"), path, content, sent)
            came = caller.getresponse()
            found = {name.lower(): value for name, value in came.getheaders()}
            return Answer(came.status, found, came.read())
        finally:
            caller.close()


@contextmanager
def served(shown: ServerContent) -> Iterator[Server]:
    """Run a server within the context."""
    listener, address = listen("127.0.0.1", 0, None)
    tickets = OneTimeTokens()
    server = make_server(address, shown, tickets)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Server(address, tickets)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()

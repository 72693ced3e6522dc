"""uvicorn's HTTP/1.1 protocol with absolute deadlines, and errors as JSON.

uvicorn waits for a slow client without a limit. Here a timer starts with the connection, or with
the first byte of the next request, and ends with the request's headers; a second one runs until the
end of its body; a third one while the client does not read. No byte extends them.

httptools parses the requests: with h11, which is written in Python, a request took 0.3 ms more.
"""

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from jumok.serving.limits import Limits
from jumok.serving.replies import RequestError, error_body, invalid

LINGER_SECONDS, LINGER_BYTES = 1.0, 2**16
MAX_HEAD_BYTES = 2**16  # of the address and the headers of a request
FLUSH_BYTES = 2**16
PART_BYTES = 2**12  # that are parsed at once: they limit how many requests may wait
DISCONNECTION = "jumok.disconnection"  # extensions of a scope
CYCLE = "jumok.cycle"


class Phase(Enum):
    """What the next byte belongs to."""

    IDLE = "the start of a request"
    HEAD = "its headers"
    BODY = "its body"


class Disconnection:
    """Whether the client of a request has left, and what is to be done then."""

    def __init__(self) -> None:
        self._happened = False
        self._functions: list[Callable[[], None]] = []

    def then(self, function: Callable[[], None]) -> None:
        """Call a function when the client leaves; at once if it has left."""
        if self._happened:
            function()
        else:
            self._functions.append(function)

    def happen(self) -> None:
        """The client has left."""
        self._happened = True
        for function in self._functions:
            function()


async def send_whole(
    cycle: RequestResponseCycle, status: int, headers: Mapping[bytes, bytes], body: bytes
) -> bool:
    """A response with its content-length; as `cycle.send`, in a third of its time.

    The application's header names are in lower case. False if the client has left.
    """
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return False
    cycle.response_started = True
    cycle.waiting_for_100_continue = False
    closes = b"connection" in headers
    lines = [b"%b: %b\r\n" % pair for pair in (*cycle.default_headers, *headers.items())]
    if closes:
        cycle.keep_alive = False
    elif not cycle.keep_alive:
        lines.append(b"connection: close\r\n")
    content = b"" if cycle.scope["method"] == "HEAD" else body
    cycle.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", content)))
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


class LingeringTransport:
    """A transport that collects writes, and reads a little of an unread body before it closes.

    The head and the body of a response are one system call. The system resets a connection that is
    closed with unread bytes, and the client may then lose the response that explains why.
    """

    def __init__(self, transport: asyncio.Transport, protocol: "DeadlineProtocol") -> None:
        self._transport, self._protocol = transport, protocol
        self.lingers = False
        self.written = 0  # bytes of all responses
        self._rest = LINGER_BYTES
        self._out = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write at the end of this turn of the event loop, or at once if there is much to write."""
        if self.lingers:
            return
        if not self._out:
            self._protocol.loop.call_soon(self._flush)
        self.written += len(data)
        self._out += data
        if len(self._out) > FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, b""
            self._transport.write(out)

    def get_write_buffer_size(self) -> int:
        """The bytes that the system has not taken yet."""
        self._flush()
        return self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close, or stop writing and wait until the client has closed."""
        self._flush()
        if self.lingers or self._transport.is_closing():
            return
        if not self._protocol.has_unread:
            self._transport.close()
            return
        self.lingers = True
        try:
            self._transport.write_eof()
        except OSError:  # reset by the client, which a transport that does not read never notices
            self._transport.abort()
            return
        self._transport.resume_reading()
        self._protocol.loop.call_later(LINGER_SECONDS, self._transport.close)

    def is_closing(self) -> bool:
        """Whether no more requests are read."""
        return self.lingers or self._transport.is_closing()

    def discard(self, n: int) -> None:
        """Count bytes that arrive after the response."""
        self._rest -= n
        if self._rest < 0:
            self._transport.close()


class DeadlineProtocol(HttpToolsProtocol):
    """The protocol of one connection; `limits` are set by `protocol_class`."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._written_before = 0  # bytes that have to be read when the write timer ends
        self._phase = Phase.IDLE
        self._requests = 0  # that have arrived completely
        self._head_bytes = 0  # or those of a chunked body without a byte of the body
        self._held = b""  # not parsed: an earlier request waits for its response
        self._refused = False  # whether no more requests are read
        self._too_long = False
        self._active: RequestResponseCycle | None = None  # its response is the next one
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None
        super().connection_made(transport)
        self.transport: Any = LingeringTransport(transport, self)
        self._timed: tuple[int, Literal["head", "body"]] = 0, "head"
        self._read_timer = self.loop.call_later(self.limits.header_seconds, self._read_late)

    @property
    def has_unread(self) -> bool:
        """Whether the client probably sends more bytes, which are not read."""
        return self._refused or self._phase is Phase.BODY

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and let the requests in progress end."""
        for timer in (self._read_timer, self._write_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        for cycle in (self._active, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                self._disconnect(cycle)
        self.pipeline.clear()
        self._active = None

    def data_received(self, data: bytes) -> None:
        """Parse the bytes; the state of the request decides which timer runs."""
        if self.transport.lingers:
            self.transport.discard(len(data))
        elif not self._refused:
            self._unset_keepalive_if_required()
            before = self._requests
            self._parse(self._held + data)
            if not self.transport.is_closing():
                self._update_read_timer(begun=self._requests == before)

    def _parse(self, data: bytes) -> None:
        self._held = b""
        try:
            for start in range(0, len(data), PART_BYTES):
                if self.pipeline:
                    self._held = data[start:]
                    break
                self._feed(data[start : start + PART_BYTES])
        except httptools.HttpParserUpgrade:  # no other protocol: answer, then close
            self._end_after_responses()
        except httptools.HttpParserError:
            self._on_invalid_bytes()

    def _feed(self, part: bytes) -> None:
        self._head_bytes += len(part)
        self.parser.feed_data(part)
        if self._phase is not Phase.IDLE and self._head_bytes > MAX_HEAD_BYTES:
            self._too_long = True
            raise httptools.HttpParserError

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._phase, self._head_bytes = Phase.HEAD, 0
        self.scope["extensions"] = {DISCONNECTION: Disconnection()}  # type: ignore[dict-item]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; the trailers of a chunked body are ignored."""
        if self._phase is Phase.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application, unless the headers are too long."""
        super().on_headers_complete()
        self._phase, self._head_bytes = Phase.BODY, 0

    def on_body(self, body: bytes) -> None:
        """Some bytes of the body."""
        super().on_body(body)
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        """The next byte belongs to the next request."""
        super().on_message_complete()
        self._phase = Phase.IDLE
        self._requests += 1
        if not self.pipeline:
            self.flow.resume_reading()  # a long body has paused it; the client may leave

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cycle
        cycle.scope["extensions"][CYCLE] = cycle  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """After the response: the next request is pipelined or has yet to begin."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            else:
                self._start_idle_timer()
            if self._held and not self.pipeline:
                self._parse(self._held)
            if self.pipeline or self._refused:
                self.flow.pause_reading()
            if self._phase is not Phase.IDLE or self._waits:
                self._unset_keepalive_if_required()
            if self._phase is not Phase.IDLE:
                self._update_read_timer(begun=True)
        if self.transport.get_write_buffer_size():
            self._start_write_timer()

    def _start_idle_timer(self) -> None:
        """Close the connection after a time without a request.

        A timer that runs already is not replaced but prolonged at its end: one for each request
        takes a twentieth of the front process's time.
        """
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._idle_late)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _idle_late(self) -> None:
        self._idle_timer = None
        if self._idle_since is None or self.transport.is_closing():
            return
        rest = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if rest > 0:
            self._idle_timer = self.loop.call_later(rest, self._idle_late)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client does not read: start its timer."""
        super().pause_writing()
        self._start_write_timer()

    def _on_invalid_bytes(self) -> None:
        """Refuse bytes that are not HTTP, and headers that are too long."""
        newest = self.cycle
        if self._phase is Phase.BODY:  # which is broken
            if newest.response_started:
                self.transport.close()
                return
            self._disconnect(newest)
            if self.pipeline:
                self.pipeline.popleft()
                self._end_after_responses()
                return
        elif newest is not None and not newest.response_complete:
            self._end_after_responses()
            return
        if self._too_long:
            self._refuse(
                invalid("the headers must be shorter; send fewer or smaller ones", None, 431)
            )
        else:
            self._refuse(invalid("the request must be valid HTTP/1.1; check the client"))

    def _end_after_responses(self) -> None:
        """Read no more, and close after the response to the newest request."""
        newest = self.pipeline[0][0] if self.pipeline else self._active
        if newest is None or newest.response_complete:
            self.transport.close()
            return
        newest.keep_alive = False
        self._refused = True
        self.flow.pause_reading()

    def _refuse(self, refusal: RequestError) -> None:
        body = error_body(refusal)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[refusal.status] + head % len(body) + body)
        self._refused = True
        self.transport.close()

    @staticmethod
    def _disconnect(cycle: RequestResponseCycle) -> None:
        """End the application's work on a request whose response is not read."""
        cycle.disconnected = True
        cycle.message_event.set()
        cycle.scope["extensions"][DISCONNECTION].happen()  # type: ignore[attr-defined]

    @property
    def _waits(self) -> bool:
        """Whether a response is in progress."""
        return self._active is not None and not self._active.response_complete

    def _update_read_timer(self, *, begun: bool) -> None:
        """The timer of the part that arrives now; none between two requests."""
        if self._phase is Phase.BODY:
            self._time("body", self.limits.body_seconds)
        elif self._phase is Phase.HEAD or begun:
            self._time("head", self.limits.header_seconds)
        elif self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _time(self, part: Literal["head", "body"], seconds: float) -> None:
        timed = self._requests, part
        if self._read_timer is not None:
            if self._timed == timed:
                return
            self._read_timer.cancel()
        self._timed = timed
        self._read_timer = self.loop.call_later(seconds, self._read_late)

    def _read_late(self) -> None:
        """The request did not arrive in time."""
        self._read_timer = None
        if self.transport.is_closing() or self.pipeline:  # reading is paused
            return
        if self._phase is Phase.BODY:
            if self._waits and not self.cycle.response_started:
                self._disconnect(self.cycle)
                self._refuse(invalid("the body must arrive faster; send it at once", status=408))
            else:
                self.transport.close()
        elif self._waits:  # for the response to the request before
            self._end_after_responses()
        elif self._phase is Phase.HEAD:
            self._refuse(invalid("the request must arrive faster; send it at once", status=408))
        else:
            self.transport.close()

    def _start_write_timer(self) -> None:
        if self._write_timer is None:
            self._written_before = self.transport.written
            self._write_timer = self.loop.call_later(self.limits.write_seconds, self._write_late)

    def _write_late(self) -> None:
        """Close if the client has not read what was written when the timer started."""
        self._write_timer = None
        unread = self.transport.get_write_buffer_size()
        if self.transport.written - unread < self._written_before:
            self.transport.abort()
        elif unread:
            self._start_write_timer()


def protocol_class(limits: Limits) -> type[DeadlineProtocol]:
    """The protocol with these limits."""
    return type("LimitedProtocol", (DeadlineProtocol,), {"limits": limits})

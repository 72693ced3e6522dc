"""uvicorn's HTTP/1.1 protocol with absolute deadlines, and errors as JSON.

uvicorn waits for a slow client without a limit. Here a timer starts with the connection, or with
the first byte of the next request, and ends with the request's headers; a second one runs until the
end of its body; a third one while the client does not read. No byte extends them.
"""

import asyncio
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from jumok.serving.limits import Limits
from jumok.serving.replies import RequestError, error_body, invalid

LINGER_SECONDS, LINGER_BYTES = 1.0, 2**16


class LingeringTransport:
    """A transport that reads a little more of an unread body before it closes.

    The system resets a connection that is closed with unread bytes, and the client may then lose
    the response that explains why.
    """

    def __init__(self, transport: asyncio.Transport, protocol: H11Protocol) -> None:
        self._transport, self._protocol = transport, protocol
        self.lingers = False
        self._rest = LINGER_BYTES

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """Close, or stop writing and wait until the client has closed."""
        if self.lingers or self._transport.is_closing():
            return
        if self._protocol.conn.their_state is not h11.SEND_BODY:
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
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


class DeadlineProtocol(H11Protocol):
    """The protocol of one connection; `limits` are set by `protocol_class`."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self.transport: Any = LingeringTransport(transport, self)
        self._start_read_timer(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        for timer in (self._read_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes; the state of the request decides which timer runs."""
        if self.transport.lingers:
            self.transport.discard(len(data))
            return
        before = self.conn.their_state
        if before is h11.IDLE and self._read_timer is None:
            self._start_read_timer(self.limits.header_seconds)
        super().data_received(data)
        self._update_read_timer(before)

    def on_response_complete(self) -> None:
        """After the response: the next request is pipelined or has yet to begin."""
        before = self.conn.their_state
        super().on_response_complete()
        if not self.transport.is_closing():
            self._update_read_timer(before)
        if self.transport.get_write_buffer_size():
            self._start_write_timer()

    def pause_writing(self) -> None:
        """The client does not read: start its timer."""
        super().pause_writing()
        self._start_write_timer()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP, and headers that are too long."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or self.transport.is_closing():
            self.transport.close()
            return
        if status == 431:
            refusal = invalid("the headers must be shorter; send fewer or smaller ones", None, 431)
        else:
            refusal = invalid("the request must be valid HTTP/1.1; check the client")
        self._refuse(refusal)

    def _refuse(self, refusal: RequestError) -> None:
        body = error_body(refusal)
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        response = h11.Response(status_code=refusal.status, headers=headers)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_read_timer(self, seconds: float) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._read_timer = self.loop.call_later(seconds, self._read_late)

    def _update_read_timer(self, before: Any) -> None:
        now = self.conn.their_state
        if now is before:
            return
        if now is h11.SEND_BODY:
            self._start_read_timer(self.limits.body_seconds)
        elif self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _read_late(self) -> None:
        """The request did not arrive in time."""
        self._read_timer = None
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE:  # no complete header yet
            if self.conn.trailing_data[0]:
                self._refuse(invalid("the request must arrive faster; send it at once", status=408))
            else:
                self.transport.close()
        elif self.conn.our_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            self.transport.close()
        else:  # the application waits for the body and refuses by itself
            self.loop.call_later(1.0, self.transport.close)

    def _start_write_timer(self) -> None:
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_seconds, self._write_late)

    def _write_late(self) -> None:
        self._write_timer = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def protocol_class(limits: Limits) -> type[DeadlineProtocol]:
    """The protocol with these limits."""
    return type("LimitedProtocol", (DeadlineProtocol,), {"limits": limits})

"""Messages between the processes: a JSON object and raw bytes behind their lengths."""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

_LENGTHS = struct.Struct(">II")
_encode = json.JSONEncoder(separators=(",", ":")).encode
HEADER_BYTES = _LENGTHS.size
TEXT_WORK = 32  # bytes that each text counts besides its own
WORK = ("texts", "tokens", "new_tokens", "batches", "seconds")  # what answers count
BATCH_WORK = 2_048  # of the texts that are answered together: about 500 tokens


def pack(message: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """One frame.

    >>> unpack_lengths(pack({"op": "ping"}, b"abc")[:HEADER_BYTES])
    (13, 3)
    """
    text = _encode(message).encode()
    return b"".join((_LENGTHS.pack(len(text), len(payload)), text, payload))


def unpack_lengths(header: bytes) -> tuple[int, int]:
    """The lengths of the JSON and of the payload."""
    return _LENGTHS.unpack(header)


class FrameBuffer:
    """Splits the bytes of a stream into frames.

    >>> buffer = FrameBuffer()
    >>> whole = pack({"id": 1}, b"x") + pack({"id": 2})
    >>> buffer.feed(whole[:10]), buffer.feed(whole[10:])
    ([], [({'id': 1}, b'x'), ({'id': 2}, b'')])
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """The frames that these bytes complete."""
        self._data += data
        frames, at = [], 0
        while len(self._data) - at >= HEADER_BYTES:
            n_text, n_payload = unpack_lengths(bytes(self._data[at : at + HEADER_BYTES]))
            start = at + HEADER_BYTES
            if len(self._data) - start < n_text + n_payload:
                break
            text = self._data[start : start + n_text]
            at = start + n_text + n_payload
            frames.append((json.loads(text), bytes(self._data[start + n_text : at])))
        del self._data[:at]
        return frames


class FrameSocket:
    """The computing process's end of the connection: blocking, with collected writes."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._buffer = connection, FrameBuffer()
        self._out = bytearray()

    def receive(self, *, wait: bool) -> list[tuple[dict[str, Any], bytes]]:
        """The frames that have arrived; with `wait` at least one. Raises EOFError at the end."""
        frames: list[tuple[dict[str, Any], bytes]] = []
        while True:
            try:
                flags = 0 if wait and not frames else socket.MSG_DONTWAIT
                data = self._socket.recv(2**18, flags)
            except BlockingIOError:
                return frames
            if not data:
                raise EOFError
            frames += self._buffer.feed(data)

    def send(self, message: Mapping[str, Any], payload: bytes = b"") -> None:
        """Collect a frame for the next `flush`."""
        self._out += pack(message, payload)

    def flush(self) -> None:
        """Send the collected frames."""
        if self._out:
            self._socket.sendall(self._out)
            self._out.clear()

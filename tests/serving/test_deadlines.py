"""The timers of a connection, on a pair of sockets within one event loop."""

import asyncio
import contextlib
import socket

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from jumok.serving.deadlines import DeadlineProtocol, protocol_class
from jumok.serving.limits import Limits

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
TURNS = 20  # of the event loop: enough for each callback of one read
LOW_WATER = 2**14  # bytes of uvicorn's connection, below which writing goes on


async def connected(
    n_bytes: int, write_seconds: float
) -> tuple[DeadlineProtocol, socket.socket, ServerState]:
    """The protocol of a connection whose every response has `n_bytes`, and the client's socket."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % n_bytes)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"a" * n_bytes})

    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    protocol = protocol_class(Limits(write_seconds=write_seconds))(config, state, {})
    ours, client = socket.socketpair()
    for each in (ours, client):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    client.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, ours)
    client.sendall(REQUEST)
    return protocol, client, state


async def read(client: socket.socket, n_bytes: int) -> int:
    """Read at most these bytes, and let the server write as many; how many there were."""
    n = 0
    with contextlib.suppress(BlockingIOError):
        n = len(client.recv(n_bytes))
    for _ in range(TURNS):
        await asyncio.sleep(0)
    return n


def test_a_client_that_stops_below_the_low_water_mark_is_closed() -> None:
    async def run() -> None:
        protocol, client, state = await connected(200_000, write_seconds=0.5)
        with contextlib.closing(client):
            while not protocol.flow.write_paused:
                await asyncio.sleep(0)
            while protocol.flow.write_paused:
                await read(client, 512)
            assert 0 < protocol.transport.get_write_buffer_size() <= LOW_WATER
            async with asyncio.timeout(60):
                while state.connections:
                    await asyncio.sleep(0.01)

    asyncio.run(run())


def test_only_bytes_that_waited_for_the_whole_time_close_a_connection() -> None:
    """The end of the timer is called, so that the test does not depend on time."""

    async def run() -> None:
        protocol, client, state = await connected(100_000, write_seconds=1_000.0)
        with contextlib.closing(client):
            while not protocol.flow.write_paused:
                await asyncio.sleep(0)
            n = 0
            while n < 100_000:
                n += await read(client, 2**16)
            client.sendall(REQUEST)
            while not protocol.flow.write_paused:
                await read(client, 1)
            protocol._write_late()  # the first response has been read
            assert not protocol.transport.is_closing()
            protocol._write_late()
            while state.connections:
                await asyncio.sleep(0)

    asyncio.run(run())

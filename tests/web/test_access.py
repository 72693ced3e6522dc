"""The listening socket of `jumok view` and `jumok serve`."""

import asyncio
import socket

from jumok.web.access import open_listener


def test_small_responses_are_sent_at_once() -> None:
    """Without TCP_NODELAY each response on an open connection takes 40 ms."""

    async def run() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with open_listener("127.0.0.1", 0) as listener:
            server = await asyncio.start_server(accept, sock=listener)
            async with server:
                with socket.create_connection(listener.getsockname()):
                    return await asyncio.wait_for(found, 60)

    assert asyncio.run(run()) == 1

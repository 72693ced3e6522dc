"""A small server around libllama, which `benchmarks.serving.generation` measures.

    python generation_peer.py LIBRARY GGUF PORT THREADS

One thread decodes: it takes the prompts that wait, at most 8, and generates 64 tokens for each of
them together. So 8 clients are one batch, as in the slots of llama-server.
"""

import asyncio
import queue
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

sys.path.append(str(Path(__file__).parents[1]))

from llama_cpp_speed import OUTPUT, PROMPT, LlamaCpp

ROWS, VOCABULARY = 8, 50_257
WINDOW_SECONDS = 0.02  # for clients that send their next prompts at the same time


class Waiting(queue.Queue[tuple[list[int], Any]]):
    """Prompts and the functions that get their tokens."""

    last = 1  # prompts of the last batch

    def batch(self) -> list[tuple[list[int], Any]]:
        """At least one, and at most `ROWS` that have come by then; a single client never waits."""
        found = [self.get()]
        while len(found) < ROWS:
            try:
                found.append(self.get(timeout=WINDOW_SECONDS if self.last > 1 else 0))
            except queue.Empty:
                break
        self.last = len(found)
        return found


def decode(model: LlamaCpp, waiting: Waiting) -> None:
    """Generate for ever."""
    while True:
        batch = waiting.batch()
        memory = model.library.llama_get_memory(model.context)
        model.library.llama_memory_clear(memory, True)
        ids = np.array([tokens for tokens, _ in batch], dtype=np.int64)
        written = np.empty((len(batch), OUTPUT), dtype=np.int64)
        for n in range(OUTPUT):
            written[:, n] = model.step(ids, 0 if n == 0 else PROMPT + n - 1)
            ids = written[:, n : n + 1]
        for (_, give), row in zip(batch, written.tolist(), strict=True):
            give(row)


def main() -> None:
    """Serve until a signal."""
    library, gguf, port, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    model, waiting = LlamaCpp(Path(library), Path(gguf), ROWS, VOCABULARY), Waiting()
    threading.Thread(target=decode, args=(model, waiting), daemon=True).start()

    async def complete(request: Request) -> JSONResponse:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        content = await request.json()
        waiting.put(
            (content["tokens"], lambda row: loop.call_soon_threadsafe(done.set_result, row))
        )
        return JSONResponse({"tokens": await done})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    app = Starlette(
        routes=[Route("/completion", complete, methods=["POST"]), Route("/health", health)]
    )
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()

"""A jumok model as replicas of Ray Serve, on one machine or a cluster: `jumok[train,ray]`.

    JUMOK_MODEL=runs/nsmc serve run examples.ray_serve:app
    curl -s localhost:8000/ -d '{"texts": ["이 영화 정말 재미있어요"]}'

Each replica loads the model and computes on its own cores, so the answers are those of
`jumok predict` with that number of threads. Ray starts replicas as requests wait, and refuses more
than `max_queued_requests` with 503.
"""

import os
from typing import Any

from ray import serve
from starlette.requests import Request

CORES = 2  # of a replica


@serve.deployment(
    ray_actor_options={"num_cpus": CORES},
    autoscaling_config={"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 2},
    max_ongoing_requests=4,
    max_queued_requests=64,
)
class Model:
    """One replica."""

    def __init__(self, folder: str, cores: int = CORES) -> None:
        import torch

        import jumok

        torch.set_num_threads(cores)
        self.pipeline = jumok.load(folder)

    def predict(self, texts: list[str]) -> list[str]:
        """The lines of `jumok predict --json`."""
        from jumok.tasks.pipeline.outputs import to_json

        return [to_json(self.pipeline(text)) for text in texts]

    async def __call__(self, request: Request) -> dict[str, Any]:
        """`{"texts": [...]}` -> `{"answers": [...]}`."""
        import asyncio
        import json

        texts = (await request.json())["texts"]
        lines = await asyncio.to_thread(self.predict, texts)
        return {"answers": [json.loads(line) for line in lines]}


def application(folder: str) -> serve.Application:
    """The application of a trained run or an imported model."""
    return Model.bind(os.path.abspath(folder))


if "JUMOK_MODEL" in os.environ:
    app = application(os.environ["JUMOK_MODEL"])

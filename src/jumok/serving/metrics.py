"""The metrics of GET /metrics, in the text format of Prometheus.

Label values come from fixed sets: routes of the table, statuses, names of loaded models.
"""

import platform
from collections.abc import Callable, Iterable
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from jumok.serving.service import ServedModel, Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts of requests, and the state of the queues when they are read."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "jumok_requests", "Responses.", ["route", "status", "model"], registry=self._registry
        )
        self.seconds = Histogram(
            "jumok_request_seconds",
            "Seconds from the headers of a request to the end of its response.",
            ["route", "model"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_ModelCollector(service))
        ProcessCollector(registry=self._registry)
        build = Info("jumok_build", "The version of the server.", registry=self._registry)
        build.info({"version": version("jumok"), "python": platform.python_version()})
        self._children: dict[tuple[str, int, str], tuple[Counter, Histogram]] = {}

    def add(self, route: str, status: int, seconds: float, model: str = "") -> None:
        """Count a response; `model` is empty where none was asked."""
        key = route, status, model
        children = self._children.get(key)
        if children is None:
            counter = self.requests.labels(route, str(status), model)
            children = self._children[key] = counter, self.seconds.labels(route, model)
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)


Value = Callable[[ServedModel], float]

GAUGES: dict[str, tuple[str, Value]] = {
    "jumok_ready": ("1 if the model is loaded.", lambda m: m.ready),
    "jumok_waiting_texts": (
        "Texts that wait or are computed.",
        lambda m: sum(queue.waiting_texts for queue in m.queues),
    ),
    "jumok_waiting_bytes": (
        "Their work in bytes.",
        lambda m: sum(queue.waiting_work for queue in m.queues),
    ),
    "jumok_expected_wait_seconds": ("The wait of a new text.", lambda m: m.queue.expected_wait),
    "jumok_bytes_per_second": ("The measured speed.", lambda m: m.queue.speed.value),
}
COUNTERS: dict[str, tuple[str, Value]] = {
    "jumok_cancelled_texts": (
        "Texts whose client left.",
        lambda m: sum(queue.cancelled for queue in m.queues),
    ),
    "jumok_restarts": ("Computing threads or processes that were replaced.", lambda m: m.restarts),
    "jumok_reloads": ("Versions that replaced another one.", lambda m: m.reloads),
    "jumok_texts": ("Answered texts.", lambda m: m.queue.work["texts"]),
    "jumok_input_tokens": ("Tokens of answered texts.", lambda m: m.queue.work["tokens"]),
    "jumok_generated_tokens": ("Generated tokens.", lambda m: m.queue.work["new_tokens"]),
    "jumok_batches": ("Computations of one or more texts.", lambda m: m.queue.work["batches"]),
    "jumok_compute_seconds": ("Seconds of computations.", lambda m: m.queue.work["seconds"]),
}


class _ModelCollector(Collector):
    """Reads the state of the models."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """The current values."""
        models = list(self._service.models.values())
        for kind, rows in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, (text, value) in rows.items():
                family = kind(name, text, labels=["model"])
                for model in models:
                    family.add_metric([model.name], value(model))
                yield family
        info = InfoMetricFamily("jumok_model", "The newest version.", labels=["model"])
        for model in models:
            info.add_metric([model.name], {"hash": model.hash, "task": model.info.get("task", "")})
        yield info

"""The metrics of GET /metrics, in the text format of Prometheus.

Label values come from fixed sets: routes of the table, statuses, names of loaded models.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jumok.serving.service import Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts of requests, and the state of the queues when they are read."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "jumok_requests", "Responses.", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "jumok_request_seconds",
            "Seconds from the headers of a request to the end of its response.",
            ["route"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_QueueCollector(service))
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count a response."""
        children = self._children.get((route, status))
        if children is None:
            children = self.requests.labels(route, str(status)), self.seconds.labels(route)
            self._children[route, status] = children
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)


class _QueueCollector(Collector):
    """Reads the queues of the models."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """The current values."""
        yield from self._gauges()
        cancelled = CounterMetricFamily(
            "jumok_cancelled_texts", "Texts whose client left.", labels=["model"]
        )
        restarts = CounterMetricFamily(
            "jumok_restarts", "Computing processes that were replaced.", labels=["model"]
        )
        for model in self._service.models.values():
            cancelled.add_metric([model.name], model.queue.cancelled)
            restarts.add_metric([model.name], model.restarts)
        yield cancelled
        yield restarts

    def _gauges(self) -> Iterator[Metric]:
        rows = {
            "jumok_waiting_texts": ("Texts that wait or are computed.", "waiting_texts"),
            "jumok_waiting_bytes": ("Their work in bytes.", "waiting_work"),
            "jumok_expected_wait_seconds": ("The wait of a new text.", "expected_wait"),
        }
        for name, (text, attribute) in rows.items():
            family = GaugeMetricFamily(name, text, labels=["model"])
            for model in self._service.models.values():
                family.add_metric([model.name], getattr(model.queue, attribute))
            yield family
        speed = GaugeMetricFamily(
            "jumok_bytes_per_second", "The measured speed of a process.", labels=["model"]
        )
        for model in self._service.models.values():
            speed.add_metric([model.name], model.queue.speed.value)
        yield speed

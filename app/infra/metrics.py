"""Numbers for a monitoring system, in the form that Prometheus reads. Counted here, shown at /metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

registry = CollectorRegistry()
collectors = (ProcessCollector(registry=registry), PlatformCollector(registry=registry))

requests_total = Counter(
    "parley_requests_total", "Answered HTTP requests.", ["method", "endpoint", "status"], registry=registry
)
request_seconds = Histogram(
    "parley_request_seconds",
    "Time from the first byte read to the answer.",
    ["endpoint"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=registry,
)
events_lost_total = Counter(
    "parley_events_lost_total", "Verified events that could not be stored; the sender was told 503.", registry=registry
)
_inbox = Gauge("parley_inbox_events", "Rows of the inbox by state.", ["state"], registry=registry)
_jobs = Gauge("parley_jobs_queued", "Keyed jobs that wait.", registry=registry)
_worker = Gauge("parley_worker_up", "1 while a worker runs.", registry=registry)


def request_done(method: str, endpoint: str, status: int, *, seconds: float) -> None:
    """Counts one answered request; `endpoint` is the name of its view, never its address."""
    requests_total.labels(method, endpoint, str(status)).inc()
    request_seconds.labels(endpoint).observe(seconds)


def counter(method: str, endpoint: str, status: int) -> Callable[[float], None]:
    """What counts one kind of answer, called with its seconds: cheaper than `request_done` where there are many."""
    total, seconds = requests_total.labels(method, endpoint, str(status)), request_seconds.labels(endpoint)

    def count(took: float) -> None:
        total.inc()
        seconds.observe(took)

    return count


def event_lost() -> None:
    """Counts a verified event that could not be stored."""
    events_lost_total.inc()


def events_lost() -> float:
    """How many events this process has lost since it began."""
    return next(iter(events_lost_total.collect())).samples[0].value


def render(*, inbox: Mapping[str, int], queued: int, worker: bool) -> bytes:
    """The text of /metrics; what stands in the database is given by the caller."""
    _inbox.clear()
    for state, rows in inbox.items():
        _inbox.labels(state).set(rows)
    _jobs.set(queued)
    _worker.set(1 if worker else 0)
    return generate_latest(registry)

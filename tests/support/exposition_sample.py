"""An exporter with every metric of the table for two devices, growing with each reading."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import MetricFamily, MetricKind
from rightsizer.model.state import Cause, Condition, Resource, State

LABELS = {
    "uuid": ("GPU-0", "GPU-1"),
    "state": tuple(State),
    "condition": tuple(Condition),
    "cause": tuple(Cause),
    "resource": tuple(Resource),
    "window": ("24h", "7d", "current"),
    "name": ("recommend", "flush", "prune", "annotate", "label", "fleet"),
    "source": ("fleet",),
    "collector": ("nvml",),
    "id": ("a1b2c3",),
    "level": ("info",),
    "parent_uuid": ("",),
    "peer_uuid": ("GPU-0",),
    "workload": ("kubernetes:research/llama",),
    "nodename": ("node-7",),
}
"""Values of the relevant labels; any other label has one value."""


def page(reads: int) -> str:
    """The page at its n-th reading."""
    lines = [line for metric in METRICS.values() for line in _family(metric, reads)]
    lines.append('ALERTS{alertname="RightsizerGpuIdle",alertstate="firing",severity="info"} 1')
    lines += ["process_resident_memory_bytes 4e7", f"process_cpu_seconds_total {reads / 50}"]
    return "\n".join(lines) + "\n"


@contextmanager
def sample_exporter() -> Iterator[str]:
    """The page on loopback, as `host:port`."""
    reads = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Serve the next reading."""
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page(next(reads)).encode())

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _family(metric: MetricFamily, reads: int) -> Iterator[str]:
    choices = [LABELS.get(label, ("x",)) for label in metric.labels]
    if metric.kind is MetricKind.INFO:  # One identity for each device, and one workload.
        named = zip(metric.labels, choices, strict=True)
        choices = [values if label == "uuid" else values[:1] for label, values in named]
    value = float(reads) if metric.kind is MetricKind.COUNTER else 1.0
    for values in itertools.product(*choices):
        pairs = [f'{key}="{text}"' for key, text in zip(metric.labels, values, strict=True)]
        if metric.kind is MetricKind.HISTOGRAM:
            for bound in ("0.5", "1", "+Inf"):
                labels = ",".join([*pairs, f'le="{bound}"'])
                yield f"{metric.name}_bucket{{{labels}}} {reads}"
        else:
            yield f"{metric.name}{{{','.join(pairs)}}} {value}"

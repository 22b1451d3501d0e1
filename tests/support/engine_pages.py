"""Pages of serving engines by the library with which they write them, and a server of one."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["BOUNDS", "TOKEN_BOUNDS", "EnginePage", "engine_server", "vllm_page"]

BOUNDS = (0.1, 0.2, 0.4, 0.8)
TOKEN_BOUNDS = (100.0, 200.0, 500.0, 1000.0)
Label = dict[str, str]


class EnginePage:
    """Page of an engine, as vLLM, SGLang and others write it."""

    def __init__(self, prefix: str, model: Label) -> None:
        self.registry = CollectorRegistry()
        self.prefix = prefix
        self.model = model
        self._made: dict[str, Counter | Gauge | Histogram] = {}

    def count(self, name: str, number: float = 0.0, **labels: str) -> None:
        """Add to a counter."""
        every = {**self.model, **labels}
        made = self._made.setdefault(
            name, Counter(self.prefix + name, "x", [*every], registry=self._new(name))
        )
        assert isinstance(made, Counter)
        made.labels(**every).inc(number)

    def level(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        every = {**self.model, **labels}
        made = self._made.setdefault(
            name, Gauge(self.prefix + name, "x", [*every], registry=self._new(name))
        )
        assert isinstance(made, Gauge)
        made.labels(**every).set(value)

    def observe(
        self, name: str, *values: float, bounds: Sequence[float] = BOUNDS, **labels: str
    ) -> None:
        """Add to a histogram."""
        every = {**self.model, **labels}
        made = self._made.setdefault(
            name,
            Histogram(self.prefix + name, "x", [*every], registry=self._new(name), buckets=bounds),
        )
        assert isinstance(made, Histogram)
        for value in values:
            made.labels(**every).observe(value)

    def page(self) -> str:
        """The page as it is now."""
        return generate_latest(self.registry).decode()

    def _new(self, name: str) -> CollectorRegistry | None:
        return None if name in self._made else self.registry


def vllm_page(requests: int, *, engines: int = 1, model: str = "llama") -> EnginePage:
    """Engine version 1 after a number of requests on each of its data-parallel engines."""
    engine = EnginePage("vllm:", {"model_name": model})
    for number in map(str, range(engines)):
        engine.level("num_requests_running", 4, engine=number)
        engine.level("num_requests_waiting", 1, engine=number)
        engine.level("kv_cache_usage_perc", 0.5, engine=number)
        engine.count("num_preemptions", requests / 10, engine=number)
        engine.count("prompt_tokens", 400 * requests, engine=number)
        engine.count("generation_tokens", 100 * requests, engine=number)
        engine.count("prefix_cache_queries", 400 * requests, engine=number)
        engine.count("prefix_cache_hits", 100 * requests, engine=number)
        for reason, share in (("stop", 0.75), ("length", 0.25), ("abort", 0.0)):
            engine.count("request_success", share * requests, engine=number, finished_reason=reason)
        for name, values, bounds in (
            ("time_to_first_token_seconds", [0.15] * requests, BOUNDS),
            ("inter_token_latency_seconds", [0.05] * requests, BOUNDS),
            ("request_prompt_tokens", [400.0] * requests, TOKEN_BOUNDS),
            ("request_generation_tokens", [100.0] * requests, TOKEN_BOUNDS),
        ):
            engine.observe(name, *values, bounds=bounds, engine=number)
        Gauge(
            "vllm:cache_config_info",
            "x",
            ["block_size", "cache_dtype", "engine", "gpu_memory_utilization", "num_gpu_blocks"],
            registry=engine.registry if number == "0" else None,
        ).labels("16", "fp8", number, "0.9", "1000").set(1)
    return engine


@contextmanager
def engine_server(page: Callable[[], str]) -> Iterator[str]:
    """The address of a server on loopback that answers with a page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Metrics pages of a scenario's serving engines, on loopback."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.scenario import ScenarioEngine, SimulatedScenario, SimulatedTask
from rightsizer.simulator.workloads import SimulatedWorkloads
from rightsizer.telemetry.serving.settings import EngineName, ServingEndpoint

_HOST: Final = "127.0.0.1"
_STEP: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
"""Time over which load is taken for constant."""
_TIME_BOUNDS: Final = (0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6)
_TOKEN_BOUNDS: Final = (50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
_SHAPE: Final = 4
"""Of the gamma distribution of tokens and latencies: half the spread of an exponential one."""
_NAMES: Final = {
    EngineName.VLLM: {
        "requests": "vllm:request_success_total",
        "prompt": "vllm:request_prompt_tokens",
        "output": "vllm:request_generation_tokens",
        "first": "vllm:time_to_first_token_seconds",
        "next": "vllm:inter_token_latency_seconds",
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "cache": "vllm:kv_cache_usage_perc",
    },
    EngineName.SGLANG: {
        "requests": "sglang:num_requests_total",
        "prompt": "sglang:prompt_tokens_histogram",
        "output": "sglang:generation_tokens_histogram",
        "first": "sglang:time_to_first_token_seconds",
        "next": "sglang:inter_token_latency_seconds",
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "cache": "sglang:token_usage",
        "capacity": "sglang:max_total_num_tokens",
    },
}
_CACHE_BLOCK: Final = 16


class _EngineCounters:
    """One engine: what it has done since it started."""

    def __init__(
        self, task: SimulatedTask, engine: ScenarioEngine, workloads: SimulatedWorkloads
    ) -> None:
        self._task = task
        self._engine = engine
        self._workloads = workloads
        self._requests = 0.0
        self._counted: Nanoseconds | None = None
        self._lock = threading.Lock()

    def page(self, now: Nanoseconds) -> str:
        """Return its metrics at a time."""
        with self._lock:
            self._count(now)
            return engine_page(self._engine, self._requests, self._intensity(now))

    def _count(self, now: Nanoseconds) -> None:
        since = now if self._counted is None else self._counted
        while since < now:
            until = min(now, since + _STEP)
            rate = self._engine.requests_per_second * self._intensity(since)
            self._requests += rate * (until - since) / NANOSECONDS_PER_SECOND
            since = until
        self._counted = now

    def _intensity(self, now: Nanoseconds) -> float:
        return self._workloads.intensity(self._task.workload.key, now)


def engine_page(engine: ScenarioEngine, requests: float, intensity: float) -> str:
    """Return the page of an engine that has finished some requests, at a part of its load."""
    names = _NAMES[engine.name]
    labels = f'model_name="{engine.model}"'
    finished = int(requests)
    busy = engine.first_token_seconds + engine.output_tokens * engine.next_token_seconds
    running = engine.requests_per_second * intensity * busy
    held = running * (engine.prompt_tokens + engine.output_tokens / 2)
    lines = [
        f"{names['requests']}{{{labels}}} {finished}",
        f"{names['running']}{{{labels}}} {running:.0f}",
        f"{names['waiting']}{{{labels}}} {engine.waiting * intensity:.0f}",
        f"{names['cache']}{{{labels}}} {min(1.0, held / engine.cache_tokens):.4f}",
    ]
    if "capacity" in names:
        lines.append(f"{names['capacity']}{{{labels}}} {engine.cache_tokens}")
    else:
        blocks = engine.cache_tokens // _CACHE_BLOCK
        sizes = f'block_size="{_CACHE_BLOCK}",cache_dtype="auto",num_gpu_blocks="{blocks}"'
        lines.append(f"vllm:cache_config_info{{{sizes}}} 1")
    tokens = int(requests * engine.output_tokens)
    for name, mean, count, bounds in (
        ("prompt", engine.prompt_tokens, finished, _TOKEN_BOUNDS),
        ("output", engine.output_tokens, finished, _TOKEN_BOUNDS),
        ("first", engine.first_token_seconds, finished, _TIME_BOUNDS),
        ("next", engine.next_token_seconds, tokens, _TIME_BOUNDS),
    ):
        metric = names[name]
        lines += [
            f'{metric}_bucket{{{labels},le="{bound}"}} {int(count * _share_below(bound, mean))}'
            for bound in bounds
        ]
        lines += [
            f'{metric}_bucket{{{labels},le="+Inf"}} {count}',
            f"{metric}_sum{{{labels}}} {count * mean:.3f}",
            f"{metric}_count{{{labels}}} {count}",
        ]
    return "".join(f"{line}\n" for line in lines)


def _share_below(bound: float, mean: float) -> float:
    """Return the share of values up to a bound."""
    x = _SHAPE * bound / mean
    return 1.0 - math.exp(-x) * sum(x**k / math.factorial(k) for k in range(_SHAPE))


@contextmanager
def served_engines(
    scenario: SimulatedScenario, wall_time: Callable[[], Nanoseconds]
) -> Iterator[tuple[ServingEndpoint, ...]]:
    """Serve the pages of a scenario's engines, and name their addresses and GPUs."""
    tasks = [(task, task.engine) for task in scenario.tasks if task.engine is not None]
    if not tasks:
        yield ()
        return
    workloads = SimulatedWorkloads(scenario)
    engines = {
        f"/{task.workload.name}": _EngineCounters(task, engine, workloads) for task, engine in tasks
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            engine = engines.get(self.path)
            body = b"" if engine is None else engine.page(wall_time()).encode()
            self.send_response(HTTPStatus.NOT_FOUND if engine is None else HTTPStatus.OK)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer((_HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="engines", daemon=True)
        thread.start()
        try:
            yield tuple(
                ServingEndpoint(
                    f"http://{_HOST}:{server.server_port}/{task.workload.name}",
                    gpus=tuple(str(spot.gpu) for spot in task.spots),
                )
                for task, _ in tasks
            )
        finally:
            server.shutdown()
            thread.join()

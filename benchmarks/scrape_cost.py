"""A scrape over loopback: of a new report each time, and of one that is rendered already."""

import gc
import http.client
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from benchmarks.options import Options
from measured import Figure, quantile
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource
from rightsizer.web.server import WebServer

_SCRAPES: Final = 500
_MOST_AGAIN_MILLISECONDS: Final = 1.0
_MOST_MILLISECONDS: Final[Mapping[str, float]] = {
    "eight GPUs, text": 1.3,
    "eight GPUs at the default level, text": 1.3,
}
"""At the 99th of 100 scrapes."""
_FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "text": {},
    "text, gzip": {"Accept-Encoding": "gzip"},
}
_NODES: Final = (
    ("eight GPUs at the default level", 0, MetricsSettings().level, 5.0),
    ("eight GPUs", 0, Level.FULL, 5.0),
    ("eight GPUs with 56 MIG instances", 7, Level.FULL, 30.0),
)
"""Names, instances of each GPU, what is exported, and the most milliseconds of rendering it."""
_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_SLICED: Final = """name: sliced
seed: 8
boards: [{board: H100-SXM5-80GB, count: 8, mig: [%s]}]
workloads:
  - name: serving
    class: serving
    allocator: growing
    instances: [%s]
    memory_gib: 4
    phases: [{activity: request_serving, state: productive}]
"""


@dataclass
class _Node:
    """A node with a day behind it, one tick further at each scrape."""

    accounting: AccountingService
    source: SimulatedSource
    now: Nanoseconds = DEFAULT_START

    def tick(self) -> None:
        snapshot = self.source.read()
        assert snapshot is not None
        self.now = snapshot.wall_time
        self.accounting.post(snapshot, (), lambda: AgentReport("0", "bench", DEFAULT_START, 1.0))


def measure(_: Options) -> Iterator[Figure]:
    """Time and size by node and format; rendering as text and asking again are promised."""
    for name, instances, level, most_milliseconds in _NODES:
        yield from _of_node(name, simulated_node(instances), level, most_milliseconds)


def _of_node(name: str, node: _Node, level: Level, most_milliseconds: float) -> Iterator[Figure]:
    exposition = MetricsExposition(
        node.accounting.latest, MetricsSettings(level=level), wall_time=lambda: node.now
    )
    server = WebServer(
        ["127.0.0.1:0"],
        latest=node.accounting.latest,
        exposition=exposition,
        wall_time=lambda: node.now,
    )
    node.tick()
    server.start()
    # As the agent does once it has restored its history and listens.
    gc.collect()
    gc.freeze()
    try:
        connection = http.client.HTTPConnection(server.addresses[0])
        first = _scrape(connection, {})[0]
        yield Figure(f"{name}: first scrape after the start", 1e3 * first, "ms", is_row=True)
        for text_format, headers in _FORMATS.items():
            yield from _of_format(f"{name}, {text_format}", headers, node, connection)
        text = _scrape(connection, {})[1]
    finally:
        connection.close()
        server.stop()
    series = [line for line in text.decode().splitlines() if not line.startswith("#")]
    plain = _plain_seconds(len(series))
    rendered = _render_seconds(node, exposition)
    yield Figure(f"{name}: series", len(series))
    text_title = f"{name}: rendering as text, p50"
    yield Figure(text_title, 1e3 * rendered, "ms", most_milliseconds, is_row=True)
    plain_title = f"{name}: as many plain gauges by prometheus_client, p50"
    yield Figure(plain_title, 1e3 * plain, "ms", is_row=True)
    yield Figure(
        f"{name}: rendering, against as many gauges of prometheus_client",
        rendered / plain,
    )


def simulated_node(instances: int = 0) -> _Node:
    """A node of eight GPUs, whole ones or each cut into instances."""
    catalogue = built_in()
    scenario = load_scenario("eight-gpu-node", catalogue)
    if instances:
        profiles = ", ".join(["1g.10gb"] * instances)
        named = ", ".join(f'"{gpu}/{at}"' for gpu in range(8) for at in range(instances))
        with NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(_SLICED % (profiles, named))
            file.flush()
            scenario = load_scenario(file.name, catalogue)
    accounting = AccountingService(AccountingSettings())
    past = SimulatedSource(
        scenario,
        catalogue,
        start=DEFAULT_START - _DAY,
        interval=300 * NANOSECONDS_PER_SECOND,
        duration=_DAY,
    )
    accounting.backfill(iter(past.read, None))
    source = SimulatedSource(scenario, catalogue, interval=NANOSECONDS_PER_SECOND, duration=None)
    return _Node(accounting, source)


def _of_format(
    name: str, headers: Mapping[str, str], node: _Node, connection: http.client.HTTPConnection
) -> Iterator[Figure]:
    fresh = []
    again = []
    for _ in range(_SCRAPES):
        node.tick()
        fresh.append(1e3 * _scrape(connection, headers)[0])
        again.append(1e3 * _scrape(connection, headers)[0])
    size = len(_scrape(connection, headers)[1])
    p50 = quantile(fresh, 0.5)
    p99 = quantile(fresh, 0.99)
    p50_again = quantile(again, 0.5)
    ceiling = _MOST_MILLISECONDS.get(name)
    repeat = f"{name}: again in the same tick, p50"
    # Of a packed page the size alone tells more than the plain one.
    is_row = bool(headers)
    yield Figure(f"{name}: scrape, p50", p50, "ms", is_row=is_row)
    yield Figure(f"{name}: scrape, p99", p99, "ms", ceiling, is_row=is_row)
    yield Figure(repeat, p50_again, "ms", _MOST_AGAIN_MILLISECONDS, is_row=is_row)
    yield Figure(f"{name}: size", size / 1024, "KiB")


def _scrape(
    connection: http.client.HTTPConnection, headers: Mapping[str, str]
) -> tuple[float, bytes]:
    started = time.perf_counter()
    connection.request("GET", "/metrics", headers=dict(headers))
    body = connection.getresponse().read()
    return time.perf_counter() - started, body


def _render_seconds(node: _Node, exposition: MetricsExposition) -> float:
    times = []
    for _ in range(_SCRAPES):
        node.tick()
        started = time.perf_counter()
        exposition.render()
        times.append(time.perf_counter() - started)
    return quantile(times, 0.5)


def _plain_seconds(series: int) -> float:
    registry = CollectorRegistry()
    gauge = Gauge(
        "plain_ratio", "As many series, without any work behind them.", ["uuid"], registry=registry
    )
    for number in range(series):
        gauge.labels(f"GPU-{number:08d}-0000-0000-0000-000000000000").set(number / series)
    times = []
    for _ in range(_SCRAPES):
        started = time.perf_counter()
        generate_latest(registry)
        times.append(time.perf_counter() - started)
    return quantile(times, 0.5)

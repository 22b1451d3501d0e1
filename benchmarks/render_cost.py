"""Rendering the exposition: eight GPUs, and eight that are cut into 56 MIG instances."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.options import Options
from measured import Figure, quantile
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.metric_family import Level
from rightsizer.model.report import AgentReport
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

_OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"
_TICKS: Final = 100
_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_REPEATED_MILLISECONDS: Final = 1.0
_NODES: Final = (("8 GPUs", "eight-gpu-node", 5.0), ("8 GPUs and 56 MIG instances", "", 30.0))
"""What it is, its scenario (empty for the one below), and the most that rendering may take."""


def measure(_: Options) -> Iterator[Figure]:
    """Time in both formats and in dcgm-exporter's manner, and once more of the same tick."""
    with tempfile.TemporaryDirectory(prefix="divided-") as folder:
        divided = Path(folder) / "divided.yaml"
        divided.write_text(_divided(), "utf-8")
        for name, scenario, most in _NODES:
            yield from _of_node(name, scenario or str(divided), most)


def _divided() -> str:
    """A scenario: eight GPUs in seven instances each, every one of them held."""
    lines = ["name: divided", "seed: 7", "boards:"]
    cut = ", ".join(["1g.10gb"] * 7)
    lines += [f"  - {{board: H100-SXM5-80GB, mig: [{cut}]}}"] * 8
    lines.append("workloads:")
    for gpu in range(8):
        for instance in range(7):
            lines += [
                f"  - name: api-{gpu}-{instance}",
                "    class: serving",
                "    allocator: growing",
                f'    instances: ["{gpu}/{instance}"]',
                "    memory_gib: 4",
                "    phases: [{activity: request_serving, state: productive}]",
            ]
    return "\n".join(lines) + "\n"


def _of_node(name: str, scenario: str, most: float) -> Iterator[Figure]:
    catalogue = built_in()
    accounting = AccountingService(AccountingSettings())
    loaded = load_scenario(scenario, catalogue)
    past = SimulatedSource(
        loaded,
        catalogue,
        start=DEFAULT_START - _DAY,
        interval=600 * NANOSECONDS_PER_SECOND,
        duration=_DAY,
    )
    accounting.backfill(iter(past.read, None))
    source = SimulatedSource(loaded, catalogue, interval=NANOSECONDS_PER_SECOND, duration=None)
    agent = AgentReport("0", "bench", DEFAULT_START, 1.0)
    whole = MetricsSettings(level=Level.FULL)
    times: dict[str, list[float]] = {"text": [], "again": [], "OpenMetrics": [], "dcgm": []}
    for _ in range(_TICKS):
        snapshot = source.read()
        assert snapshot is not None
        report = accounting.post(snapshot, (), lambda: agent)
        # One exposition a format, so that neither finds what the other has collected.
        now = snapshot.wall_time
        for key, accept in (("text", ""), ("OpenMetrics", _OPEN_METRICS)):
            exposition = MetricsExposition(lambda: report, whole, wall_time=lambda: now)  # noqa: B023
            times[key].append(_milliseconds(exposition, accept))
            if not accept:
                times["again"].append(_milliseconds(exposition, accept))
        dcgm = MetricsExposition(
            lambda: report,  # noqa: B023
            MetricsSettings(dcgm=True),
            wall_time=lambda: now,  # noqa: B023
        )
        started = time.perf_counter()
        dcgm.render_dcgm()
        times["dcgm"].append(1e3 * (time.perf_counter() - started))
    body = exposition.render().body
    series = sum(not line.startswith(b"#") for line in body.splitlines())
    yield Figure(f"series of {name}", series, is_row=True)
    yield Figure(f"rendering {name} as text, p50", quantile(times["text"], 0.5), "ms", most)
    for text_format, other in (("OpenMetrics", "OpenMetrics"), ("dcgm-exporter", "dcgm")):
        p50 = quantile(times[other], 0.5)
        yield Figure(f"rendering {name} as {text_format}, p50", p50, "ms", is_row=True)
    yield Figure(
        f"rendering {name} once more, p50",
        quantile(times["again"], 0.5),
        "ms",
        _REPEATED_MILLISECONDS,
    )


def _milliseconds(exposition: MetricsExposition, accept: str) -> float:
    started = time.perf_counter()
    exposition.render(accept)
    return 1e3 * (time.perf_counter() - started)

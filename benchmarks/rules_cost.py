"""Recording rules over many nodes: how long a real Prometheus takes for each group.

Every node is the simulated one as its agent's page tells it, with names of its own. The store has
what a group reads of it: six minutes of scrapes, and six hours of what other groups recorded.
"""

import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, TextIO

from benchmarks.options import Options
from benchmarks.scrape_cost import simulated_node
from measured import Figure
from prometheus_server import Prometheus, prometheus_server, promtool, scrape_config
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.yaml import load_yaml

__all__ = ["measure"]

_RULES: Final = Path(__file__).parents[1] / "config" / "prometheus" / "rules.yaml"
_SIZES: Final = (125, 1_000)
"""Nodes of eight GPUs."""
_MOST: Final = 0.1
"""Of a group's interval, at the largest size."""
_SCRAPE: Final = range(0, 360, 15)
_RECORDED: Final = range(0, 6 * 3600 + 300, 300)
"""Seconds before the end at which there are samples."""
_FILL_SECONDS_A_NODE: Final = 0.4
"""Samples reach as far ahead as it takes to write them, so that they are fresh by then."""
_BLOCK: Final = "--max-block-duration=18h"
_EVERY: Final = "30s"
"""In place of each group's interval: the first evaluation would come after as long."""
_EVALUATIONS: Final = 3
_PATIENCE_SECONDS: Final = 600.0
_LINE: Final = re.compile(r"(rightsizer_\w+)(?:\{(.*)\})? (\S+)")
_UNIT_SECONDS: Final = {"s": 1, "m": 60}
_READ: Final = (
    ("uuid_state:rightsizer_state_seconds:increase5m", "rightsizer_state_seconds_total", ""),
    ("uuid:rightsizer_state_seconds:increase5m", "rightsizer_state_seconds_total", "state"),
    (
        "uuid_condition:rightsizer_condition_seconds:increase5m",
        "rightsizer_condition_seconds_total",
        "",
    ),
    ("instance:rightsizer_used_seconds:increase5m", "rightsizer_used_seconds_total", "uuid"),
    (
        "instance_cause:rightsizer_waste_seconds:increase5m",
        "rightsizer_waste_seconds_total",
        "uuid",
    ),
)
"""What groups read of what others recorded, of which metric, and which label it lacks."""


class _Series(NamedTuple):
    name: str
    labels: str
    value: float


def measure(_: Options) -> Iterator[Figure]:
    """The time of each group at two sizes of a fleet, as a part of its interval at the larger."""
    rules = _RULES.read_text("utf-8")
    groups = load_yaml(rules, "rules").data["groups"]
    page = _page()
    yield Figure("series of a node at the default level", len(page))
    took = {nodes: _evaluated(page, nodes, rules) for nodes in _SIZES}
    fewer, most = _SIZES
    for group in groups:
        name, every = group["name"], group["interval"]
        yield Figure(
            f"`{name}`, every {every}, {most:,} nodes",
            took[most][name],
            "s",
            _MOST * float(every[:-1]) * _UNIT_SECONDS[every[-1]],
            f"{took[fewer][name]:.2f} s of {fewer:,} nodes",
        )


def _page() -> Sequence[_Series]:
    """What an agent exports of one node."""
    node = simulated_node()
    node.tick()
    exposition = MetricsExposition(
        node.accountant.latest, MetricsSettings(), wall_time=lambda: node.now
    )
    found = map(_LINE.fullmatch, exposition.render().body.decode().splitlines())
    return [_Series(each[1], each[2] or "", float(each[3])) for each in found if each]


def _evaluated(page: Sequence[_Series], nodes: int, rules: str) -> Mapping[str, float]:
    """Seconds of an evaluation of each group, by its name."""
    end = int(time.time() + _FILL_SECONDS_A_NODE * nodes)
    with tempfile.TemporaryDirectory(prefix="rules-cost-") as name:
        folder = Path(name)
        with (folder / "past").open("w", encoding="ascii") as sink:
            _write(sink, page, nodes, end)
        filled = promtool(
            *("tsdb", "create-blocks-from", "openmetrics", "--quiet", _BLOCK),
            *(folder / "past", folder / "data"),
            timeout_seconds=_PATIENCE_SECONDS,
        )
        assert not filled.returncode, filled.stderr
        (folder / "past").unlink()
        time.sleep(max(0.0, end - time.time()))
        files = {"rules.yaml": re.sub(r"interval: \w+", f"interval: {_EVERY}", rules)}
        config = scrape_config(rule_files=("rules.yaml",))
        with prometheus_server(config, files, data=folder / "data") as server:
            return _times(server, end)


def _write(sink: TextIO, page: Sequence[_Series], nodes: int, end: int) -> None:
    """All samples as OpenMetrics, each metric once."""
    by_name: dict[str, list[_Series]] = defaultdict(list)
    for each in page:
        by_name[each.name].append(each)
    for name, found in by_name.items():
        _write_metric(sink, name, found, nodes, [end - ago for ago in reversed(_SCRAPE)])
    for name, metric, summed in _READ:
        without = re.compile(f'(?<!\\w){summed}="[^"]*",?' if summed else "(?!)")
        labels = sorted({without.sub("", each.labels) for each in by_name[metric]})
        recorded = [_Series(name, each, 1.0) for each in labels]
        _write_metric(sink, name, recorded, nodes, [end - ago for ago in reversed(_RECORDED)])
    sink.write("# EOF\n")


def _write_metric(
    sink: TextIO, name: str, found: Sequence[_Series], nodes: int, times: Sequence[int]
) -> None:
    grows = 1.0 if name.endswith("_total") else 0.0
    sink.write(f"# TYPE {name} unknown\n")
    for node in range(nodes):
        place = f'instance="node-{node}:19400",job="rightsizer"'
        for each in found:
            labels = each.labels.replace("GPU-", f"GPU-{node:04x}")
            inside = ",".join(filter(None, (labels.strip(","), place)))
            sink.writelines(
                f"{name}{{{inside}}} {each.value + grows * (at - times[0])} {at}\n" for at in times
            )


def _times(server: Prometheus, since: float) -> Mapping[str, float]:
    """The median of several evaluations, after the first, which opens what the disk has."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    took: dict[str, dict[str, float]] = defaultdict(dict)
    while time.monotonic() < deadline:
        groups = server.get("rules")["groups"]
        for group in groups:
            faults = [rule["lastError"] for rule in group["rules"] if rule.get("lastError")]
            assert not faults, faults
            at = group["lastEvaluation"]
            if datetime.fromisoformat(f"{at[:19]}+00:00").timestamp() >= since - 1:
                took[group["name"]][at] = group["evaluationTime"]
        if groups and all(len(took[group["name"]]) > _EVALUATIONS for group in groups):
            return {name: median(list(found.values())[1:]) for name, found in took.items()}
        time.sleep(1.0)
    raise AssertionError(f"of each group {_EVALUATIONS} evaluations were not done in time: {took}")

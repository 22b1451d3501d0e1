"""Recording rules over many nodes: how long a real Prometheus takes for each group.

Every node is the simulated one as its agent's page tells it, with names of its own. The store has
what a group reads of it: six minutes of scrapes, and six hours of what other groups recorded.
"""

import json
import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TextIO

from benchmarks.options import Options
from benchmarks.scrape_cost import simulated_node
from measured import Figure
from prometheus_server import Prometheus, prometheus_server, promtool, scrape_config
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.yaml import load_yaml

_RULES: Final = Path(__file__).parents[1] / "config" / "prometheus" / "rules.yaml"
_SIZES: Final = (125, 1_000)
"""Nodes of eight GPUs."""
_MOST: Final = 0.1
"""Of a group's interval, at the largest size."""
_SCRAPE: Final = range(0, 360, 15)
"""Seconds before the beginning, after which groups are evaluated one by one."""
_RECORDED: Final = range(0, 6 * 3600 + 300, 300)
_FILL_SECONDS_A_NODE: Final = 0.25
"""The beginning is as far ahead as it takes to write them, so that they are fresh by then."""
_BLOCK: Final = "--max-block-duration=18h"
_EVERY: Final = "1s"
"""In place of a group's interval: its first evaluation would come after as long."""
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
    """The time of each group at two sizes of a fleet, alone, and of all on one core."""
    groups = load_yaml(_RULES.read_text("utf-8"), "rules").data["groups"]
    page = _page()
    yield Figure("series of a node at the default level", len(page))
    took = {nodes: _evaluated(page, nodes, groups) for nodes in _SIZES}
    fewer, most = _SIZES
    busy = 0.0
    for group in groups:
        name = group["name"]
        every = group["interval"]
        seconds = float(every[:-1]) * _UNIT_SECONDS[every[-1]]
        busy += took[most][name] / seconds
        yield Figure(
            f"`{name}`, every {every}, {most:,} nodes",
            took[most][name],
            "s",
            _MOST * seconds,
            f"{took[fewer][name]:.2f} s of {fewer:,} nodes",
            is_row=True,
        )
    yield Figure(f"all groups, {most:,} nodes", 100 * busy, "%", note="of the time, one by one")


def _page() -> Sequence[_Series]:
    """Exported page of one node."""
    node = simulated_node()
    node.tick()
    exposition = MetricsExposition(
        node.accounting.latest, MetricsSettings(), wall_time=lambda: node.now
    )
    found = map(_LINE.fullmatch, exposition.render().body.decode().splitlines())
    return [_Series(each[1], each[2] or "", float(each[3])) for each in found if each]


def _evaluated(
    page: Sequence[_Series], nodes: int, groups: Sequence[Mapping[str, Any]]
) -> Mapping[str, float]:
    """Seconds of an evaluation of each group, by its name."""
    begin = int(time.time() + _FILL_SECONDS_A_NODE * nodes)
    with tempfile.TemporaryDirectory(prefix="rules-cost-") as name:
        folder = Path(name)
        with (folder / "past").open("w", encoding="ascii") as sink:
            _write(sink, page, nodes, begin)
        filled = promtool(
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "--quiet",
            _BLOCK,
            folder / "past",
            folder / "data",
            timeout_seconds=_PATIENCE_SECONDS,
        )
        assert not filled.returncode, filled.stderr
        (folder / "past").unlink()
        # The first groups of the file read hours, and the others what is fresh.
        return {group["name"]: _alone(folder, group, begin) for group in reversed(groups)}


def _alone(folder: Path, group: Mapping[str, Any], begin: int) -> float:
    """Time of a group on its own server, with samples as fresh as scrapes.

    What it records is removed, and what the store has is the same for the next.
    """
    files = {"rules.yaml": json.dumps({"groups": [{**group, "interval": _EVERY}]})}
    config = scrape_config(rule_files=("rules.yaml",))
    time.sleep(max(0.0, begin - time.time()))
    with prometheus_server(config, files, data=folder / "data") as server:
        took = _time(server)
    for wal in ("wal", "chunks_head"):
        shutil.rmtree(folder / "data" / wal, ignore_errors=True)
    return took


def _write(sink: TextIO, page: Sequence[_Series], nodes: int, begin: int) -> None:
    """All samples as OpenMetrics, each metric once."""
    by_name: dict[str, list[_Series]] = defaultdict(list)
    for each in page:
        by_name[each.name].append(each)
    for name, found in by_name.items():
        _write_metric(sink, name, found, nodes, [begin - ago for ago in reversed(_SCRAPE)])
    for name, metric, summed in _READ:
        without = re.compile(f'(?<!\\w){summed}="[^"]*",?' if summed else "(?!)")
        labels = sorted({without.sub("", each.labels) for each in by_name[metric]})
        recorded = [_Series(name, label, 1.0) for label in labels]
        _write_metric(sink, name, recorded, nodes, [begin - ago for ago in reversed(_RECORDED)])
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


def _time(server: Prometheus) -> float:
    """The median of several evaluations, after the first, which opens what the disk has."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    took: dict[str, float] = {}
    while time.monotonic() < deadline:
        (group,) = server.get("rules")["groups"]
        faults = [rule["lastError"] for rule in group["rules"] if rule.get("lastError")]
        assert not faults, faults
        if group["evaluationTime"]:
            took[group["lastEvaluation"]] = group["evaluationTime"]
        if len(took) > _EVALUATIONS:
            return median(list(took.values())[1:])
        time.sleep(0.5)
    raise AssertionError(f"{_EVALUATIONS} evaluations were not done in time: {took}")

"""A day of each character, simulated, accounted for and exported by the product's own code."""

import pickle
import re
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from msgspec.structs import replace

from estate.layout import JOBS
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.catalogue.catalogue import built_in
from rightsizer.exposition.dcgm import DcgmLabelEncoder, dcgm_page
from rightsizer.exposition.device_metrics import add_device
from rightsizer.exposition.families import Families
from rightsizer.exposition.settings import DcgmLabels
from rightsizer.model.device import Device
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import Collector, MetricKind
from rightsizer.model.report import AgentReport, DeviceReport, NodeReport, Report
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.model.workload import Workload
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource
from source_cache import source_folder

__all__ = [
    "EMPTY",
    "SLOTS",
    "STEP_SECONDS",
    "Character",
    "Key",
    "characters",
    "workload",
    "written",
]

STEP_SECONDS: Final = 300
SLOTS: Final = 86400 // STEP_SECONDS
EMPTY: Final = "empty:"
"""Prefix of a board's key: a board without a holder."""

_FILE: Final = Path(__file__).with_name("characters.yaml")
_SOURCES: Final = ("daemon", "tests/support/estate")
_STEP: Final = STEP_SECONDS * NANOSECONDS_PER_SECOND
_COLLECTORS: Final = frozenset(
    {
        Collector.STATES,
        Collector.WASTE,
        Collector.DISTRIBUTIONS,
        Collector.ACTIVITY,
        Collector.MEMORY,
        Collector.POWER,
        Collector.PCIE,
        Collector.NVLINK,
        Collector.PROVISIONING,
    }
)
_AGENT: Final = AgentReport("0", "simulated", 0, 60.0)


_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name, and its labels except those of the device."""
Values: TypeAlias = "array[float]"


@dataclass(slots=True)
class Character:
    """A day of one GPU, slot by slot. A value belongs to the slot that ends with it."""

    device: Device
    grown: dict[Key, Values] = field(default_factory=dict)
    """Growth of each of the agent's counters."""
    gauges: dict[Key, Values] = field(default_factory=dict)
    dcgm_grown: dict[str, Values] = field(default_factory=dict)
    dcgm_gauges: dict[str, Values] = field(default_factory=dict)


def written() -> SimulatedScenario:
    """The definitions of the characters, each with the workload's key in the agent."""
    scenario = load_scenario(str(_FILE), built_in())
    tasks = (
        replace(task, workload=replace(task.workload, key=JOBS[name].key, name=name))
        for task in scenario.tasks
        for name in [task.workload.name.removesuffix("-slow")]
    )
    return replace(scenario, tasks=tuple(tasks))


@cache
def workload(name: str) -> Workload:
    """The workload of a job's pods."""
    of = JOBS[name].like or name
    return next(task.workload for task in written().tasks if task.workload.name == of)


@cache
def characters(tick_seconds: int = 60, variant: int = 0) -> Mapping[str, Character]:
    """A day of each by name; that of a free board is named after the board.

    Args:
        tick_seconds: Simulated time between two readings; slots are multiples of it.
        variant: Another day of the same.
    """
    # A day takes seconds, and many test modules begin with the same.
    with source_folder("characters", _SOURCES) as folder:
        file = folder / f"{tick_seconds}-{variant}.pickle"
        if not file.exists():
            file.write_bytes(pickle.dumps(_lived(tick_seconds, variant)))
        found: Mapping[str, Character] = pickle.loads(file.read_bytes())
    return found


def _lived(tick_seconds: int, variant: int) -> dict[str, Character]:
    scenario = replace(written(), seed=977 + variant)
    source = SimulatedSource(
        scenario,
        built_in(),
        start=DEFAULT_START - _STEP,
        interval=tick_seconds * NANOSECONDS_PER_SECOND,
        duration=86400 * NANOSECONDS_PER_SECOND + _STEP + 1,
    )
    pages = list(_pages(iter(source.read, None)))
    names = _names(scenario)
    return {
        names[device.index]: _character(device, [page[device.uuid] for page in pages])
        for device in source.node.devices
    }


def _names(scenario: SimulatedScenario) -> dict[int, str]:
    raw = load_scenario(str(_FILE), built_in())
    names = {slot.index: f"{EMPTY}{slot.board.key}" for slot in scenario.slots}
    return names | {task.spots[0].gpu: task.workload.name for task in raw.tasks}


_Page = dict[Key, float]


def _pages(snapshots: Iterator[Snapshot]) -> Iterator[dict[str, tuple[_Page, dict[str, float]]]]:
    """Exports of each device at the end of each slot, and before the first."""
    accounts = NodeAccounts()
    for snapshot in snapshots:
        accounts.post(snapshot)
        accounts.drain_closed()
        if snapshot.wall_time % _STEP == 0 and snapshot.wall_time >= DEFAULT_START:
            reports = [_report(accounts, snapshot, device) for device in snapshot.devices]
            yield {
                report.device.uuid: (_own(report), _dcgm(report, snapshot)) for report in reports
            }


def _report(accounts: NodeAccounts, snapshot: Snapshot, device: Device) -> DeviceReport:
    uuid = device.uuid
    entry = accounts.device(device.uuid).last
    assert entry is not None
    is_last = snapshot.wall_time == DEFAULT_START + 86400 * NANOSECONDS_PER_SECOND
    return DeviceReport(
        device=device,
        down=None,
        last_sample=snapshot.wall_time,
        reading=snapshot.readings[uuid],
        signals=entry.signals,
        state=entry.state,
        conditions=entry.conditions,
        tier=entry.tier,
        totals=accounts.device(uuid).totals.totals(),
        provisioning=accounts.provisioning(uuid) if is_last else {},
    )


def _own(report: DeviceReport) -> _Page:
    families = Families(_COLLECTORS)
    add_device(families, report, is_fresh=True)
    lines = (line.rpartition(" ") for family in families for line in family.lines)
    return {_key(series): float(value) for series, _, value in lines}


@cache
def _key(series: str) -> Key:
    name, _, labels = series.partition("{")
    return name, tuple((key, value) for key, value in _LABEL.findall(labels) if key != "uuid")


def _dcgm(report: DeviceReport, snapshot: Snapshot) -> dict[str, float]:
    whole = Report(0, snapshot.wall_time, (report,), (), _AGENT, NodeReport())
    page = dcgm_page(whole, {report.device.uuid}, DcgmLabelEncoder(DcgmLabels.CURRENT, "node"))
    lines = (line for line in page.splitlines() if not line.startswith("#"))
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}


def _character(device: Device, pages: list[tuple[_Page, dict[str, float]]]) -> Character:
    found = Character(device)
    own = [page[0] for page in pages]
    dcgm = [page[1] for page in pages]
    for key in {key: None for page in own for key in page}:
        if _is_counter(key[0]):
            values = [page.get(key, 0.0) for page in own]
            found.grown[key] = array("d", (max(0.0, b - a) for a, b in pairwise(values)))
        else:
            last = own[-1].get(key, 0.0)
            found.gauges[key] = array("d", (page.get(key, last) for page in own[1:]))
    _add_dcgm(found, dcgm)
    return found


_DCGM_COUNTERS: Final[Collection[str]] = (
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
)


def _add_dcgm(found: Character, pages: list[dict[str, float]]) -> None:
    for name in {name: None for page in pages for name in page}:
        values = [page.get(name, 0.0) for page in pages]
        if name in _DCGM_COUNTERS:
            grown = array("d", (max(0.0, b - a) for a, b in pairwise(values)))
            found.dcgm_grown[name] = grown
        else:
            found.dcgm_gauges[name] = array("d", values[1:])


@cache
def _is_counter(name: str) -> bool:
    metric = METRICS.get(name)
    return metric is None or metric.kind is MetricKind.COUNTER

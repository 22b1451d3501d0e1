"""A node of eight GPUs whose parts fail, judged by the rules of faults into a ledger."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from cases import NOW, after, case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.engine import judge_all
from rightsizer.advice.incident import open_incidents, watched_places, with_incidents
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules import (
    hardware_unhealthy,
    pcie_link_degraded,
    power_throttled,
    thermal_throttled,
)
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Case, Node
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down
from rightsizer.model.state import Condition, State
from rightsizer.model.topology import Bridge, GpuLink, LinkKind, Placement, Topology
from standing_cases import HEALTHY

EIGHT: Final = range(8)
FABRIC: Final = {Signal.FABRIC_STATE: 1.0}
BUS: Final = XidLog({79: 1}, 79, NOW - HOUR)
ROWS: Final = {Signal.REMAPPED_ROWS_FAILED: 1.0}
FAULTY: Final[tuple[Rule[Any], ...]] = (
    hardware_unhealthy.RULE,
    pcie_link_degraded.RULE,
    power_throttled.RULE,
    thermal_throttled.RULE,
)


def machine() -> Topology:
    """Eight GPUs, two below each of four switches, two switches below each root port; NVLink."""
    placements = {
        f"GPU-{index}": Placement(
            f"GPU-{index}",
            bridges=(
                Bridge(f"0000:{index}1:00.0"),
                Bridge(f"0000:a{index // 2}:00.0"),
                Bridge(f"0000:b{index // 4}:00.0"),
            ),
        )
        for index in EIGHT
    }
    links = tuple(
        GpuLink(f"GPU-{one}", f"GPU-{other}", LinkKind.NVLINK, 18)
        for one in EIGHT
        for other in range(one + 1, 8)
    )
    return Topology(placements=placements, links=links)


def node(  # noqa: PLR0913 - what may fail, and who holds it.
    values: Mapping[int, Mapping[Signal, float]] | None = None,
    *,
    xids: Mapping[int, XidLog] | None = None,
    down: Mapping[int, str | Down] | None = None,
    conditions: Mapping[int, float] | None = None,
    held: Sequence[Sequence[int]] | None = None,
    indices: Sequence[int] = tuple(EIGHT),
    topology: Topology | None = None,
) -> tuple[Case, ...]:
    """An hour of eight GPUs, each of a workload of its own or as held, some with faults."""
    devices = {index: gpu(index) for index in indices}
    readings = {
        device.uuid: Reading(device.uuid, 0, {**HEALTHY, **(values or {}).get(index, {})})
        for index, device in devices.items()
    }
    around = Node(
        devices=tuple(devices.values()),
        readings=readings,
        xids={f"GPU-{index}": log for index, log in (xids or {}).items()},
        down={
            f"GPU-{index}": Down(Missing.LOST, why) if isinstance(why, str) else why
            for index, why in (down or {}).items()
        },
        topology=machine() if topology is None else topology,
    )
    found = []
    for group in held or [[index] for index in indices]:
        windows = []
        for index in group:
            share = (conditions or {}).get(index, 0.0)
            state = State.UNKNOWN if index in (down or {}) else State.PRODUCTIVE
            throttled = {Condition.HARDWARE_SLOWDOWN: round(share * HOUR)} if share else {}
            windows.append(window({state: 1.0}, conditions=throttled))
        job = workload(f"job-{group[0]}")
        judged = case(windows, job, [devices[index] for index in group])
        found.append(replace(judged, node=around))
    return tuple(found)


def judged(cases: Sequence[Case], advice: Sequence[Advice] = ()) -> tuple[Judgement, ...]:
    """One run of the rules of faults."""
    watched = watched_places(open_incidents(advice), cases)
    judgements = judge_all(lambda _: cases, FAULTY, watched)
    return with_incidents(
        judgements,
        FAULTY,
        lambda _: cases,
        lambda rule, _: rule,
        advice,
    )


def run(ledger: Ledger, cases: Sequence[Case], minutes: float = 0.0) -> list[AdviceEvent]:
    """A run into a ledger; return its events."""
    return ledger.update(judged(cases, ledger.advice()), after(minutes))


def opened(events: Sequence[AdviceEvent]) -> list[AdviceEvent]:
    """The events that open advice."""
    return [event for event in events if event.kind is AdviceEventKind.OPENED]


def closed(events: Sequence[AdviceEvent]) -> list[AdviceEvent]:
    """The events that close advice."""
    return [event for event in events if event.kind is AdviceEventKind.CLOSED]


def uuids(*indices: int) -> tuple[str, ...]:
    """Uuids of GPUs."""
    return tuple(f"GPU-{index}" for index in indices)


def faulty(faults: Mapping[int, str], groups: Sequence[int]) -> tuple[Case, ...]:
    """A node whose GPUs have faults and are held by up to four workloads."""
    held = [[index for index in EIGHT if groups[index] == group] for group in sorted(set(groups))]
    return node(
        {
            index: {**FABRIC, **ROWS} if fault == "both" else FABRIC if fault == "fabric" else ROWS
            for index, fault in faults.items()
            if fault in ("fabric", "both", "rows")
        },
        xids={index: BUS for index, fault in faults.items() if fault == "bus"},
        down={index: "lost" for index, fault in faults.items() if fault == "down"},
        held=held,
    )

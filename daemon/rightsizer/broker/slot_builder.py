"""Builder of slots from a report: GPUs, MIG instances, holders, faults and headroom."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.board_status import BoardStatus
from rightsizer.advice.rules.hardware_unhealthy import (
    RULE,
    HardwareFaultSettings,
    InspectedBoard,
    driver_faults,
    link_faults,
    memory_faults,
)
from rightsizer.broker.slot import LeaseSlot, SlotHolder
from rightsizer.model.values import (
    IDLE_STATES,
    Condition,
    Device,
    DeviceReport,
    Nanoseconds,
    Node,
    Placement,
    Report,
    Severity,
    Signal,
    StripCell,
    Topology,
    seconds,
)
from rightsizer.report.freshness import FreshnessSettings, is_fresh

_BARRING: Final = frozenset({Severity.HIGH, Severity.CRITICAL})
"""Severities that make a GPU unusable; it may still work with lesser faults."""
_OF_THE_BOARD: Final = {
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
    Condition.PCIE_LINK_DEGRADED,
}
"""Conditions that a MIG instance shares with its GPU."""
_CURRENT: Final = "current"


class SlotView(Struct, frozen=True):
    """Parameters for building slots from a report."""

    now: Nanoseconds
    """Wall time."""
    freshness: FreshnessSettings = FreshnessSettings()
    trouble: HardwareFaultSettings = HardwareFaultSettings()
    leased_pids: Collection[int] = frozenset()
    """Processes of leases, which do not count as holders."""


def slots_of(report: Report, view: SlotView) -> tuple[LeaseSlot, ...]:
    """Build a slot for every device of a report."""
    by_uuid = {device.device.uuid: device for device in report.devices}
    boards = (by_uuid.get(device.device.board_uuid, device) for device in report.devices)
    pairs = zip(report.devices, boards, strict=True)
    return tuple(_slot(device_report, board, report, view) for device_report, board in pairs)


def _slot(
    slot_report: DeviceReport, board: DeviceReport, report: Report, view: SlotView
) -> LeaseSlot:
    topology = report.node.topology or Topology()
    signals = board.signals
    limit = signals.get(Signal.POWER_LIMIT_WATTS, board.device.power_limit_watts)
    if (margin := signals.get(Signal.TEMPERATURE_MARGIN_CELSIUS)) is None:
        hottest = board.device.temperature_slowdown_celsius
        margin = _difference(hottest, signals.get(Signal.TEMPERATURE_CELSIUS))
    window = slot_report.provisioning.get(_CURRENT)
    needs = {} if window is None else window.resources
    return LeaseSlot(
        device=slot_report.device,
        placement=_placement(slot_report.device, topology),
        state=slot_report.state,
        conditions=slot_report.conditions | (board.conditions & _OF_THE_BOARD),
        trouble=_trouble(slot_report, board, report, view),
        holders=tuple(_holders(slot_report, view.leased_pids)),
        memory_used_bytes=slot_report.signals.get(Signal.MEMORY_USED_BYTES),
        power_headroom_watts=_difference(limit, signals.get(Signal.POWER_WATTS)),
        temperature_headroom_celsius=None if margin is None else max(0.0, margin),
        idle_seconds=_idle_seconds(slot_report.strip),
        demand={
            name: provisioning.demand
            for name, provisioning in needs.items()
            if provisioning.demand is not None
        },
    )


def _placement(device: Device, topology: Topology) -> Placement | None:
    """Placement of its GPU, with the CPUs of its NUMA node if the bus reports none."""
    if (placement := topology.placements.get(device.board_uuid)) is None:
        return None
    if not (cpus := placement.cpus) and placement.numa_node is not None:
        cpus = topology.numa_nodes.get(placement.numa_node, ())
    return replace(placement, uuid=device.uuid, cpus=cpus)


def _trouble(
    slot_report: DeviceReport, board: DeviceReport, report: Report, view: SlotView
) -> str | None:
    """First reason why it is unusable, as a clause."""
    for device_report in (slot_report, board):
        if device_report.down is not None:
            return f"down: {device_report.down.detail}"
    if not is_fresh(slot_report, report, view.now, view.freshness):
        return "gives no fresh reading"
    return next(_hardware_troubles(board, report, view), None)


def _hardware_troubles(board: DeviceReport, report: Report, view: SlotView) -> Iterator[str]:
    """Faults reported by the driver now, then by open advice."""
    if (reading := board.reading) is not None:
        devices = report.devices
        readings = {
            device.device.uuid: device.reading for device in devices if device.reading is not None
        }
        node = Node(tuple(device.device for device in devices), readings)
        status = BoardStatus(board.device, reading, board.xids)
        stands = InspectedBoard(status, node, report.wall_time)
        # Other links are covered by the topology.
        links = [e for e in link_faults(stands, view.trouble) if "fabric_state" in e.evidence]
        faults = (*driver_faults(stands, view.trouble), *memory_faults(stands, view.trouble))
        yield from (fault.what for fault in (*faults, *links) if fault.severity in _BARRING)
    for advice in report.advice:
        finding = advice.finding
        is_about = advice.is_open and finding.rule == RULE.name
        if is_about and finding.severity in _BARRING and board.device.uuid in finding.culprits:
            yield f"unhealthy by advice {advice.id}: see `rightsizer explain {advice.id}`"


def _holders(slot_report: DeviceReport, leased_pids: Collection[int]) -> Iterator[SlotHolder]:
    """Workloads and processes without a lease; a running workload accounts for all processes."""
    processes = () if slot_report.reading is None else slot_report.reading.processes or ()
    unleased = sorted({process.pid for process in processes} - set(leased_pids))
    are_leased = bool(processes) and not unleased
    running = [
        holding for holding in slot_report.holdings if holding.has_process and not are_leased
    ]
    if unleased and not running:
        more = f" and {len(unleased) - 1} more" if len(unleased) > 1 else ""
        yield SlotHolder(f"process {unleased[0]}{more}", True)
    for holding in (
        *running,
        *(holding for holding in slot_report.holdings if not holding.has_process),
    ):
        yield SlotHolder(holding.workload.name, holding.has_process)


def _difference(maximum: float | None, now: float | None) -> float | None:
    return None if maximum is None or now is None else max(0.0, maximum - now)


def _idle_seconds(strip: Iterable[StripCell]) -> float | None:
    """Duration of the idle cells at the end of the day's strip."""
    idle: Nanoseconds = 0
    for cell in reversed(tuple(strip)):
        here = sum(cell.states.get(state, 0) for state in IDLE_STATES)
        if here < sum(cell.states.values()):
            break
        idle += here
    return seconds(idle) if idle else None

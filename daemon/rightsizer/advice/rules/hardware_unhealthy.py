"""Rule: GPUs with hardware that needs repair: memory, links, or as reported by the driver.

Judges facts, not statistics: confidence depends on how lasting and how well dated a fact is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.board_status import BoardStatus, board_status_of, metrics_of
from rightsizer.advice.instructions import drain_instructions, instruction
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, too_little, unmeasured, well
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.io.codec import convert
from rightsizer.io.yaml import load_beside
from rightsizer.model.values import (
    CONSTANT,
    CRITICAL_XIDS,
    XID_MEANINGS,
    Action,
    Case,
    Device,
    Down,
    Finding,
    Nanoseconds,
    Node,
    Reading,
    Reason,
    Risk,
    Severity,
    SharedPart,
    Signal,
    Spec,
    State,
    format_duration,
    nanoseconds,
    seconds,
)

SURE: Final = 1.0
"""The driver keeps the fact until repair; a single reading suffices."""


class HardwareFaultSettings(Struct, frozen=True):
    """Thresholds for hardware faults.

    Attributes:
        xid_recent_seconds: How long an Xid counts as a fault.
            Source: assumed; hardware faults recur within a day
        retired_pages_maximum: Retired memory pages from which a board should be replaced.
            Source: NVIDIA, Dynamic Page Retirement: boards with 60 or more are replaced
        nvlink_errors_maximum: NVLink errors since the driver was loaded from which to check the
            links.
            Source: assumed; single errors are repeated and cost nothing
        pcie_replays_maximum: PCIe replays since the driver was loaded from which to check the slot.
            Source: assumed; DCGM's health watch warns at 8 a minute, two hours of which are 960
        momentary_ratio: Confidence in a single reading that may be transient.
            Source: assumed; links are retrained within seconds
        silent_seconds: How long a GPU that is down must have given no reading.
            Source: the alert RightsizerDeviceDown: a driver reload or a reset takes minutes
        unclear_time_ratio: Confidence in a critical Xid whose time is unknown because others
            followed.
            Source: assumed; most often the later one is its consequence
    """

    xid_recent_seconds: Annotated[float, Spec(within=(600, None))] = 86400.0
    retired_pages_maximum: Annotated[int, Spec(within=(1, 64)), CONSTANT] = 60
    nvlink_errors_maximum: Annotated[int, Spec(within=(1, None)), CONSTANT] = 1000
    pcie_replays_maximum: Annotated[int, Spec(within=(1, None)), CONSTANT] = 1000
    momentary_ratio: Annotated[float, CONSTANT] = 0.9
    silent_seconds: Annotated[float, Spec(within=(60, None))] = 300.0
    unclear_time_ratio: Annotated[float, CONSTANT] = 0.6


class InspectedBoard(Struct, frozen=True):
    """GPU with the inputs of its health checks."""

    status: BoardStatus
    node: Node
    now: Nanoseconds
    """End of the window, wall time."""
    down: Down | None = None
    """Why it gives no reading, or `None` if it does."""
    unknown_seconds: float = 0.0
    """Time without a reading in the window."""


class HardwareFault(Struct, frozen=True):
    """Single hardware fault."""

    what: str
    """Display text: `remapping a memory row has failed`."""
    means: str
    severity: Severity
    remedy: str
    """Name of the instruction in `instructions.yaml`."""
    certainty: float = SURE
    evidence: Mapping[str, object] = {}
    shared_by: tuple[SharedPart, ...] = ()
    """Parts of the node, larger than a GPU, that may be the cause."""


class HardwareFaultText(Struct, frozen=True):
    """What a hardware fault is called and how it is repaired; evidence stands in braces."""

    what: str
    means: str
    severity: Severity
    remedy: str
    shared_by: tuple[SharedPart, ...] = ()


_FAULTS: Final[Mapping[str, HardwareFaultText]] = convert(
    load_beside(__file__, "hardware_faults.yaml"), dict[str, HardwareFaultText]
)


def _fault(
    name: str,
    evidence: Mapping[str, object],
    certainty: float = SURE,
    remedy: str = "",
    severity: str = "",
    **words: object,
) -> HardwareFault:
    """Fault by name from `hardware_faults.yaml`, its texts filled with evidence and words."""
    text = _FAULTS[name]
    return HardwareFault(
        text.what.format(**evidence, **words),
        text.means.format(**evidence, **words),
        Severity(severity or text.severity),
        remedy or text.remedy,
        certainty,
        evidence,
        text.shared_by,
    )


def memory_faults(
    board: InspectedBoard, settings: HardwareFaultSettings
) -> Iterator[HardwareFault]:
    """Uncorrectable errors, and memory repairs that failed or are pending."""
    get = board.status.reading.get
    if get(Signal.REMAPPED_ROWS_FAILED):
        yield _fault("remapping_failed", {"remapped_rows_failed": 1})
    pages = (Signal.RETIRED_PAGES_CORRECTABLE, Signal.RETIRED_PAGES_UNCORRECTABLE)
    if (retired := sum(get(page) or 0.0 for page in pages)) >= settings.retired_pages_maximum:
        yield _fault("pages_retired", {"retired_pages": retired})
    if (errors := get(Signal.ECC_UNCORRECTED_ERRORS) or 0.0) > 0:
        noun = "error" if errors == 1 else "errors"
        yield _fault("memory_errors", {"ecc_uncorrected_errors": errors}, errors=noun)
    if get(Signal.REMAPPED_ROWS_PENDING):
        yield _fault("remapping_pending", {"remapped_rows_pending": 1})
    if get(Signal.RETIRED_PAGES_PENDING):
        yield _fault("retirement_pending", {"retired_pages_pending": 1})


_FABRIC_COMPLETED: Final = 3


def link_faults(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """Links that are down or have errors."""
    get = board.status.reading.get
    momentary = settings.momentary_ratio
    yield from _down(board, settings)
    recoveries = sum(link.recovery_errors or 0 for link in board.status.reading.nvlinks)
    errors = get(Signal.NVLINK_ERRORS) or 0.0
    if recoveries:
        yield _fault("nvlink_recoveries", {"nvlink_recoveries": recoveries})
    elif errors >= settings.nvlink_errors_maximum:
        yield _fault("nvlink_errors", {"nvlink_errors": errors})
    if (state := get(Signal.FABRIC_STATE)) is not None and 0 < state < _FABRIC_COMPLETED:
        yield _fault("fabric_not_joined", {"fabric_state": state}, momentary)
    if (replays := get(Signal.PCIE_REPLAYS) or 0.0) >= settings.pcie_replays_maximum:
        yield _fault("pcie_replays", {"pcie_replays": replays}, momentary)


def _down(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """Compare with GPUs of the same model, and with the GPU before: all may be down alike.

    How many links a board has says nothing: those of boards without bridges lead nowhere.
    """
    device = board.status.device
    get = board.status.reading.get
    links = get(Signal.NVLINK_LINKS)
    up = get(Signal.NVLINK_LINKS_UP)
    readings = (
        board.node.readings.get(neighbor.uuid)
        for neighbor in board.node.devices
        if neighbor.uuid != device.uuid and neighbor.mig is None and neighbor.name == device.name
    )
    peers = (reading.get(Signal.NVLINK_LINKS_UP) for reading in readings if reading is not None)
    elsewhere = max((value for value in peers if value is not None), default=0.0)
    before = board.node.nvlinks_up.get(device.uuid, 0.0)
    expected = max(elsewhere, before)
    if links is None or up is None or up >= expected:
        return
    numbers = [link.number for link in board.status.reading.nvlinks if not link.is_up]
    evidence = {
        "nvlink_links": links,
        "nvlink_links_up": up,
        "nvlink_links_up_elsewhere": elsewhere,
        "nvlink_links_up_before": before,
    }
    yield _fault(
        "nvlinks_down",
        evidence,
        settings.momentary_ratio,
        down=expected - up,
        named=f" ({', '.join(map(str, numbers))})" if numbers else "",
        where="other GPUs of its kind have" if elsewhere == expected else "it had",
        expected=expected,
    )


def _silence(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """No reading for long, unless the GPU is released or asleep."""
    down = board.down
    if down is None or not down.reason.is_fault:
        return
    if board.unknown_seconds < settings.silent_seconds:
        return
    evidence = {"unknown_seconds": round(board.unknown_seconds)}
    name = "driver_away" if down.is_of_driver else "silent"
    yield _fault(name, evidence, settings.momentary_ratio, detail=down.detail)


_OFF_THE_BUS: Final = 79
_NVLINK: Final = 74
_REMAPPING_FAILED: Final = 64
_REMEDIES: Final = {
    _OFF_THE_BUS: "reseat_board",
    _NVLINK: "diagnose_links",
    _REMAPPING_FAILED: "replace_board",
}
SHARED_XIDS: Final = {
    62: (SharedPart.NODE,),
    _NVLINK: (SharedPart.NVLINK, SharedPart.NODE),
    _OFF_THE_BUS: (SharedPart.PCIE, SharedPart.NODE),
    119: (SharedPart.NODE,),
    120: (SharedPart.NODE,),
    143: (SharedPart.NODE,),
}
"""Parts that may cause an Xid on several GPUs at once; the memory of each fails by itself."""
_RECOVERIES: Final = {
    1: ("a reset", "high", "reset_gpu"),
    2: ("a reboot", "high", "reboot_node"),
    3: ("to be drained", "medium", "reset_gpu"),
    4: ("to be drained and reset", "high", "reset_gpu"),
}
_UNKNOWN_RECOVERY: Final = (
    "a recovery that only a newer driver's manual names",
    "high",
    "reset_gpu",
)


def driver_faults(
    board: InspectedBoard, settings: HardwareFaultSettings
) -> Iterator[HardwareFault]:
    """Silence, recent critical Xids, and recovery actions requested by the driver."""
    yield from _silence(board, settings)
    if action := int(board.status.reading.get(Signal.RECOVERY_ACTION) or 0):
        what, severity, remedy = _RECOVERIES.get(action, _UNKNOWN_RECOVERY)
        evidence = {"recovery_action": action}
        yield _fault("recovery_asked", evidence, SURE, remedy, severity, recovery=what)
    yield from _xids(board, settings)


def _xids(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """Only the last Xid has a known time; earlier ones may be its cause."""
    if (log := board.status.xids) is None or log.last is None or log.last_wall_time is None:
        return
    age = board.now - log.last_wall_time
    if age > nanoseconds(settings.xid_recent_seconds) and not log.is_standing:
        return
    ago = f"{format_duration(max(0.0, seconds(age)))} ago"
    for code in sorted(CRITICAL_XIDS & log.counts.keys()):
        is_last = code == log.last
        is_fatal = code in (_OFF_THE_BUS, _REMAPPING_FAILED)
        severity = Severity.CRITICAL if is_fatal else Severity.HIGH
        when = ago if is_last else f"before Xid {log.last}, which came {ago}"
        times = log.counts[code]
        yield HardwareFault(
            f"Xid {code} {'once' if times == 1 else f'{times} times'}, {'last ' * is_last}{when}",
            XID_MEANINGS.get(code, "hardware error"),
            severity if is_last else Severity.MEDIUM,
            _REMEDIES.get(code, "reset_gpu"),
            SURE if is_last else settings.unclear_time_ratio,
            {f"xid_{code}": times},
            SHARED_XIDS.get(code, ()),
        )


_CHECKS: Final[
    tuple[Callable[[InspectedBoard, HardwareFaultSettings], Iterator[HardwareFault]], ...]
] = (driver_faults, memory_faults, link_faults)
_SHOWN: Final = (Signal.REMAPPED_ROWS_FAILED, Signal.PCIE_REPLAYS)
_HEALTH: Final = frozenset(
    {
        *_SHOWN,
        Signal.REMAPPED_ROWS_PENDING,
        Signal.ECC_UNCORRECTED_ERRORS,
        Signal.RETIRED_PAGES_CORRECTABLE,
        Signal.RETIRED_PAGES_UNCORRECTABLE,
        Signal.RETIRED_PAGES_PENDING,
        Signal.RECOVERY_ACTION,
        Signal.FABRIC_STATE,
        Signal.NVLINK_LINKS_UP,
        Signal.NVLINK_ERRORS,
    }
)
_HEALTHY: Final = {"fact": 0.95}
"""The driver does not detect every fault."""


class HardwareUnhealthySettings(RuleSettings, frozen=True):
    """Thresholds for unhealthy hardware.

    Attributes:
        on_ratio: Share of the workload's GPUs that must have a fault.
            Source: a workload is as healthy as its worst GPU
        minimum_known_seconds: Known time below which the rule abstains.
            Source: a GPU that has fallen off the bus gives no readings at all
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.01
    minimum_known_seconds: Annotated[float, CONSTANT] = 0.0
    trouble: HardwareFaultSettings = HardwareFaultSettings()
    conduct: OpeningPolicy = OpeningPolicy(minimum_known_seconds=0.0)


def judge(subject: CaseSubject, settings: HardwareUnhealthySettings) -> Finding:
    """Whether the workload's hardware needs an operator, and which repair it needs."""
    case = subject.case
    if (early := subject.abstain_early(settings.minimum_known_seconds)) is not None:
        return early
    boards = {device.uuid: _board(case, device) for device in case.devices}
    if not any(boards.values()):
        return subject.abstain("only a history is known, not the state of the hardware")
    # Whether any signal that could reveal a fault was read.
    statuses = [inspected_board.status for inspected_board in boards.values() if inspected_board]
    is_blind = not any(
        status.xids or not _HEALTH.isdisjoint(status.reading.values) for status in statuses
    )
    if is_blind and not any(
        inspected_board.down for inspected_board in boards.values() if inspected_board
    ):
        return subject.abstain(_unread_health())
    faults: dict[str, list[HardwareFault]] = {}
    for uuid, board in boards.items():
        hardware_faults = [
            fault for check in _CHECKS if board for fault in check(board, settings.trouble)
        ]
        # Worst first.
        faults[uuid] = sorted(hardware_faults, key=lambda fault: -fault.severity.rank)
    sick = tuple(device for device in case.devices if faults[device.uuid])
    if len(sick) < max(1.0, settings.on_ratio * len(case.devices)):
        summary = f"{subject.name}: the driver knows of no trouble."
        return subject.find_nothing(summary, _HEALTHY)
    return _problem(subject, sick, {device.uuid: faults[device.uuid] for device in sick})


def _board(case: Case, device: Device) -> InspectedBoard | None:
    """Board to inspect; one that never gave a reading may still have Xids, or be down."""
    node = case.node
    uuid = device.board_uuid
    if node is None:
        return None
    down = node.down.get(device.uuid)
    status = board_status_of(case, device)
    if status is None and (uuid in node.xids or down is not None):
        status = BoardStatus(device, Reading(uuid, 0, {}), node.xids.get(uuid))
    if status is None:
        return None
    # A holder that has just come has no time in its windows yet.
    now = max(window.end for window in case.windows) or node.wall_time
    unknown = sum(
        window.states.get(State.UNKNOWN, 0) for window in case.windows if window.uuid == device.uuid
    )
    return InspectedBoard(status, node, now, down, seconds(unknown))


def _problem(
    subject: CaseSubject, sick: Sequence[Device], faults: Mapping[str, list[HardwareFault]]
) -> Finding:
    hardware_faults = [fault for device_faults in faults.values() for fault in device_faults]
    by_sentence: dict[str, list[Device]] = {}
    for device in sick:
        by_sentence.setdefault(_sentence(faults[device.uuid]), []).append(device)
    # Drain first, then apply each remedy once per GPU.
    remedies = dict.fromkeys(
        instruction(fault.remedy, device.board_uuid)
        for device in sick
        for fault in faults[device.uuid]
    )
    drain = drain_instructions(subject.case, f"{names_of(sick)} unhealthy")
    facts = [f"{names_of(devices)}: {sentence}" for sentence, devices in by_sentence.items()]
    return subject.find_problem(
        reasons=(Reason.HARDWARE_UNHEALTHY,),
        action=Action.RESEAT_OR_DRAIN,
        summary=f"{'; '.join(facts)}.",
        # One certain fact suffices.
        factors={"fact": max(fault.certainty for fault in hardware_faults)},
        risk=Risk.LOW,
        evidence={
            "troubles": {
                uuid: {fault.what: fault.means for fault in some} for uuid, some in faults.items()
            },
            "numbers": {
                uuid: {name: value for fault in some for name, value in fault.evidence.items()}
                for uuid, some in faults.items()
            },
        },
        culprits=tuple(faults),
        savings="healthy hardware saves work that would be lost",
        instructions=(*drain, *remedies),
        severity=max((fault.severity for fault in hardware_faults), key=attrgetter("rank")),
        shared_by={uuid: _shared_by(some) for uuid, some in faults.items()},
    )


def _shared_by(faults: Sequence[HardwareFault]) -> tuple[SharedPart, ...]:
    causes = {SharedPart.BOARD, *(part for fault in faults for part in fault.shared_by)}
    return tuple(part for part in SharedPart if part in causes)


def _sentence(faults: list[HardwareFault]) -> str:
    worst, *others = faults
    more = f" (and {', '.join(fault.what for fault in others)})" if others else ""
    return f"{worst.what}: {worst.means}{more}"


def screen(table: SubjectTable, settings: HardwareUnhealthySettings) -> Screen:
    """Settle which subjects have no fault, or cannot be told to."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    yield unmeasured(~table.has_xids & ~table.reads(*_HEALTH), _unread_health())
    trouble = settings.trouble
    limits = trouble.retired_pages_maximum, trouble.nvlink_errors_maximum
    if min(*limits, trouble.pcie_replays_maximum) > 0:
        is_quiet = table.largest(*_HEALTH) <= 0.0
        yield well(is_quiet & ~table.has_xids & ~table.reads(Signal.NVLINK_LINKS))


def _unread_health() -> str:
    return f"no counter of its health is read: no {metrics_of(_SHOWN)}"


RULE: Final = Rule("hardware_unhealthy", HardwareUnhealthySettings(), judge, screen)

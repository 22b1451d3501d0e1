"""Hardware faults of a GPU: memory, links, driver; what each means, and what repairs it."""

from collections.abc import Iterator, Mapping
from typing import Final

from rightsizer.advice.board_status import BoardStatus
from rightsizer.model.driver_codes import CRITICAL_XIDS, XID_MEANINGS
from rightsizer.model.finding import Severity
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.node import Node
from rightsizer.model.settings import setting
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, format_duration, nanoseconds, seconds

SURE: Final = 1.0
"""The driver keeps it until it is repaired; one look is enough."""


@dataclass(frozen=True, slots=True)
class HardwareFaultSettings:
    """From when on something counts as a fault."""

    xid_recent_seconds: float = setting(
        86400.0,
        help="How long an Xid counts after it came.",
        within=(600, None),
        source="assumed; what is wrong with the hardware shows again within a day",
    )
    retired_pages_maximum: int = setting(
        60,
        help="Retired memory pages from which on a board is due for replacement.",
        within=(1, 64),
        source="NVIDIA, Dynamic Page Retirement: boards with 60 or more are replaced",
    )
    nvlink_errors_maximum: int = setting(
        1000,
        help="NVLink errors since the driver was loaded from which on the links are looked at.",
        within=(1, None),
        source="assumed; single errors are sent again and cost nothing",
    )
    pcie_replays_maximum: int = setting(
        1000,
        help="PCIe packets sent again since the driver was loaded from which on the slot is "
        "looked at.",
        within=(1, None),
        source="assumed; DCGM's health watch warns at 8 a minute, two hours of which are 960",
    )
    momentary_ratio: float = setting(
        0.9,
        help="Confidence in what a single reading shows and may pass by itself.",
        source="assumed; links are trained anew within seconds",
    )
    unclear_time_ratio: float = setting(
        0.6,
        help="Confidence in a critical Xid whose time is not known, for others came after it.",
        source="assumed; most often the later one is its consequence",
    )


@dataclass(frozen=True, slots=True)
class InspectedBoard:
    """A GPU with all signals of its health."""

    status: BoardStatus
    node: Node
    now: Nanoseconds
    """The end of the window, wall time."""


@dataclass(frozen=True, slots=True)
class HardwareFault:
    """One thing that is wrong."""

    what: str
    """For a person: `remapping a memory row has failed`."""
    means: str
    severity: Severity
    remedy: str
    """The instruction's name in `instructions.toml`."""
    certainty: float = SURE
    evidence: Mapping[str, object] = field(default_factory=dict, hash=False)


def memory_faults(
    board: InspectedBoard, settings: HardwareFaultSettings
) -> Iterator[HardwareFault]:
    """Errors that could not be corrected, and repairs that failed or wait."""
    get = board.status.get
    if get(Signal.REMAPPED_ROWS_FAILED):
        yield HardwareFault(
            "remapping a memory row has failed",
            "spare rows have run out in a part of the memory; the next error there ends work",
            Severity.CRITICAL,
            "replace_board",
            evidence={"remapped_rows_failed": 1},
        )
    retired = (get(Signal.RETIRED_PAGES_CORRECTABLE) or 0.0) + (
        get(Signal.RETIRED_PAGES_UNCORRECTABLE) or 0.0
    )
    if retired >= settings.retired_pages_maximum:
        yield HardwareFault(
            f"{retired:.0f} memory pages are retired",
            "so many mean that the memory wears out; no more than 64 can be retired",
            Severity.HIGH,
            "replace_board",
            evidence={"retired_pages": retired},
        )
    errors = get(Signal.ECC_UNCORRECTED_ERRORS) or 0.0
    if errors > 0:
        yield HardwareFault(
            f"{errors:.0f} uncorrected memory {'error' if errors == 1 else 'errors'}",
            "since the driver was loaded; the work that met them ended or went wrong",
            Severity.HIGH,
            "reset_gpu",
            evidence={"ecc_uncorrected_errors": errors},
        )
    if get(Signal.REMAPPED_ROWS_PENDING):
        yield HardwareFault(
            "memory rows wait to be remapped",
            "a reset replaces them by spare ones; until then the bad places are kept out of use, "
            "and what runs may go on",
            Severity.MEDIUM,
            "reset_gpu",
            evidence={"remapped_rows_pending": 1},
        )
    if get(Signal.RETIRED_PAGES_PENDING):
        yield HardwareFault(
            "memory pages wait to be retired",
            "they stay in use until the driver is loaded anew",
            Severity.MEDIUM,
            "reboot_node",
            evidence={"retired_pages_pending": 1},
        )


_FABRIC_COMPLETED: Final = 3


def link_faults(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """Links that are down or make mistakes."""
    yield from _down(board, settings)
    yield from _mistakes(board, settings)
    state = board.status.get(Signal.FABRIC_STATE)
    if state is not None and 0 < state < _FABRIC_COMPLETED:
        yield HardwareFault(
            "the GPU has not joined the NVLink fabric",
            "CUDA does not start on it, or sees no other GPU",
            Severity.HIGH,
            "diagnose_fabric",
            settings.momentary_ratio,
            {"fabric_state": state},
        )
    replays = board.status.get(Signal.PCIE_REPLAYS) or 0.0
    if replays >= settings.pcie_replays_maximum:
        yield HardwareFault(
            f"{replays:.0f} PCIe packets were sent again",
            "since the driver was loaded; a contact, a riser or the slot makes mistakes",
            Severity.LOW,
            "reseat_board",
            settings.momentary_ratio,
            {"pcie_replays": replays},
        )


def _down(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """By comparison with GPUs of its kind: boards without bridges have links that lead nowhere."""
    own, get = board.status.device, board.status.get
    links, up = get(Signal.NVLINK_LINKS), get(Signal.NVLINK_LINKS_UP)
    readings = (
        board.node.readings.get(each.uuid)
        for each in board.node.devices
        if each.uuid != own.uuid and each.mig is None and each.name == own.name
    )
    known = (reading.get(Signal.NVLINK_LINKS_UP) for reading in readings if reading is not None)
    most = max((value for value in known if value is not None), default=None)
    if links is None or up is None or most is None or up >= most:
        return
    numbers = [link.number for link in board.status.reading.nvlinks if not link.is_up]
    named = f" ({', '.join(map(str, numbers))})" if numbers else ""
    yield HardwareFault(
        f"{most - up:.0f} of {links:.0f} NVLinks are down{named}",
        f"other GPUs of its kind have {most:.0f} up; collectives are as fast as the slowest",
        Severity.HIGH,
        "diagnose_links",
        settings.momentary_ratio,
        {"nvlink_links": links, "nvlink_links_up": up, "nvlink_links_up_elsewhere": most},
    )


def _mistakes(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    recoveries = sum(link.recovery_errors or 0 for link in board.status.reading.nvlinks)
    if recoveries:
        yield HardwareFault(
            f"NVLinks had to be trained anew {recoveries} times",
            "since the driver was loaded; each time traffic stood still",
            Severity.MEDIUM,
            "diagnose_links",
            evidence={"nvlink_recoveries": recoveries},
        )
        return
    errors = board.status.get(Signal.NVLINK_ERRORS) or 0.0
    if errors >= settings.nvlink_errors_maximum:
        yield HardwareFault(
            f"{errors:.0f} NVLink errors",
            "since the driver was loaded; what was hit was sent again",
            Severity.LOW,
            "diagnose_links",
            evidence={"nvlink_errors": errors},
        )


_OFF_THE_BUS: Final = 79
_NVLINK: Final = 74
_REMAPPING_FAILED: Final = 64
_REMEDIES: Final = {
    _OFF_THE_BUS: "reseat_board",
    _NVLINK: "diagnose_links",
    _REMAPPING_FAILED: "replace_board",
}
_RECOVERIES: Final = {
    1: ("a reset", Severity.HIGH, "reset_gpu"),
    2: ("a reboot", Severity.HIGH, "reboot_node"),
    3: ("to be drained", Severity.MEDIUM, "reset_gpu"),
    4: ("to be drained and reset", Severity.HIGH, "reset_gpu"),
}
_UNKNOWN_RECOVERY: Final = "a recovery that only a newer driver's manual names"


def driver_faults(
    board: InspectedBoard, settings: HardwareFaultSettings
) -> Iterator[HardwareFault]:
    """Recent critical Xids, and what the driver asks for."""
    action = int(board.status.get(Signal.RECOVERY_ACTION) or 0)
    if action:
        what, severity, remedy = _RECOVERIES.get(
            action, (_UNKNOWN_RECOVERY, Severity.HIGH, "reset_gpu")
        )
        yield HardwareFault(
            f"the driver asks for {what}",
            "until then it may refuse new work on the GPU",
            severity,
            remedy,
            evidence={"recovery_action": action},
        )
    yield from _xids(board, settings)


def _xids(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """Only the last one's time is known; others that came before it may be its cause."""
    log = board.status.xids
    if log is None or log.last is None or log.last_wall_time is None:
        return
    age = board.now - log.last_wall_time
    if age > nanoseconds(settings.xid_recent_seconds):
        return
    ago = f"{format_duration(max(0.0, seconds(age)))} ago"
    for code in sorted(CRITICAL_XIDS & log.counts.keys()):
        is_last, is_fatal = code == log.last, code in (_OFF_THE_BUS, _REMAPPING_FAILED)
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
        )

"""Hardware faults of a GPU: memory, links, driver; what each means, and what repairs it."""

from collections.abc import Iterator, Mapping
from typing import Final

from rightsizer.advice.board_status import BoardStatus
from rightsizer.advice.instructions import read_table
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
    """From when on something counts as a fault.

    Attributes:
        xid_recent_seconds: How long an Xid counts after it came.
            Source: assumed; what is wrong with the hardware shows again within a day
        retired_pages_maximum: Retired memory pages from which on a board is due for replacement.
            Source: NVIDIA, Dynamic Page Retirement: boards with 60 or more are replaced
        nvlink_errors_maximum: NVLink errors since the driver was loaded from which on the links are
            looked at.
            Source: assumed; single errors are sent again and cost nothing
        pcie_replays_maximum: PCIe packets sent again since the driver was loaded from which on the
            slot is looked at.
            Source: assumed; DCGM's health watch warns at 8 a minute, two hours of which are 960
        momentary_ratio: Confidence in what a single reading shows and may pass by itself.
            Source: assumed; links are retrained within seconds
        unclear_time_ratio: Confidence in a critical Xid whose time is not known, for others came
            after it.
            Source: assumed; most often the later one is its consequence
    """

    xid_recent_seconds: float = setting(86400.0, within=(600, None))
    retired_pages_maximum: int = setting(60, within=(1, 64))
    nvlink_errors_maximum: int = setting(1000, within=(1, None))
    pcie_replays_maximum: int = setting(1000, within=(1, None))
    momentary_ratio: float = setting(0.9)
    unclear_time_ratio: float = setting(0.6)


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


def _fault(
    name: str,
    evidence: Mapping[str, object],
    certainty: float = SURE,
    remedy: str = "",
    severity: str = "",
    **words: object,
) -> HardwareFault:
    """The fault of a name in `hardware_faults.toml`, with evidence and words for its texts."""
    form = read_table("hardware_faults.toml")[name]
    return HardwareFault(
        form["what"].format(**evidence, **words),
        form["means"].format(**evidence, **words),
        Severity(severity or form["severity"]),
        remedy or form["remedy"],
        certainty,
        evidence,
    )


def memory_faults(
    board: InspectedBoard, settings: HardwareFaultSettings
) -> Iterator[HardwareFault]:
    """Errors that could not be corrected, and repairs that failed or wait."""
    get = board.status.get
    if get(Signal.REMAPPED_ROWS_FAILED):
        yield _fault("remapping_failed", {"remapped_rows_failed": 1})
    correctable, uncorrectable = (
        Signal.RETIRED_PAGES_CORRECTABLE,
        Signal.RETIRED_PAGES_UNCORRECTABLE,
    )
    retired = (get(correctable) or 0.0) + (get(uncorrectable) or 0.0)
    if retired >= settings.retired_pages_maximum:
        yield _fault("pages_retired", {"retired_pages": retired})
    errors = get(Signal.ECC_UNCORRECTED_ERRORS) or 0.0
    if errors > 0:
        noun = "error" if errors == 1 else "errors"
        yield _fault("memory_errors", {"ecc_uncorrected_errors": errors}, errors=noun)
    if get(Signal.REMAPPED_ROWS_PENDING):
        yield _fault("remapping_pending", {"remapped_rows_pending": 1})
    if get(Signal.RETIRED_PAGES_PENDING):
        yield _fault("retirement_pending", {"retired_pages_pending": 1})


_FABRIC_COMPLETED: Final = 3


def link_faults(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """Links that are down or make mistakes."""
    get, momentary = board.status.get, settings.momentary_ratio
    yield from _down(board, settings)
    recoveries = sum(link.recovery_errors or 0 for link in board.status.reading.nvlinks)
    errors = get(Signal.NVLINK_ERRORS) or 0.0
    if recoveries:
        yield _fault("nvlink_recoveries", {"nvlink_recoveries": recoveries})
    elif errors >= settings.nvlink_errors_maximum:
        yield _fault("nvlink_errors", {"nvlink_errors": errors})
    state = get(Signal.FABRIC_STATE)
    if state is not None and 0 < state < _FABRIC_COMPLETED:
        yield _fault("fabric_not_joined", {"fabric_state": state}, momentary)
    replays = get(Signal.PCIE_REPLAYS) or 0.0
    if replays >= settings.pcie_replays_maximum:
        yield _fault("pcie_replays", {"pcie_replays": replays}, momentary)


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
    evidence = {"nvlink_links": links, "nvlink_links_up": up, "nvlink_links_up_elsewhere": most}
    yield _fault("nvlinks_down", evidence, settings.momentary_ratio, down=most - up, named=named)


_OFF_THE_BUS: Final = 79
_NVLINK: Final = 74
_REMAPPING_FAILED: Final = 64
_REMEDIES: Final = {
    _OFF_THE_BUS: "reseat_board",
    _NVLINK: "diagnose_links",
    _REMAPPING_FAILED: "replace_board",
}
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
    """Recent critical Xids, and what the driver asks for."""
    action = int(board.status.get(Signal.RECOVERY_ACTION) or 0)
    if action:
        what, severity, remedy = _RECOVERIES.get(action, _UNKNOWN_RECOVERY)
        evidence = {"recovery_action": action}
        yield _fault("recovery_asked", evidence, SURE, remedy, severity, recovery=what)
    yield from _xids(board, settings)


def _xids(board: InspectedBoard, settings: HardwareFaultSettings) -> Iterator[HardwareFault]:
    """Only the last one's time is known; others that came before it may be its cause."""
    log = board.status.xids
    if log is None or log.last is None or log.last_wall_time is None:
        return
    age = board.now - log.last_wall_time
    if age > nanoseconds(settings.xid_recent_seconds) and not log.is_standing:
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

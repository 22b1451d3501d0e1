"""What the driver itself says is wrong: Xids, and the recovery that it asks for.

Xids 13, 31, 43 and 45 are a program's own, and no trouble of the hardware.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.advice.trouble import SURE, Board, Remedy, Trouble, TroubleSettings
from rightsizer.advice.trouble_remedies import DIAGNOSE_LINKS, REBOOT, REPLACE, RESEAT, RESET
from rightsizer.domain.finding import Severity
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import format_duration, nanoseconds, seconds
from rightsizer.domain.xid import CRITICAL_XIDS, XID_MEANINGS

__all__ = ["driver_troubles"]

_OFF_THE_BUS: Final = 79
_NVLINK: Final = 74
_REMAPPING_FAILED: Final = 64
_REMEDIES: Final[Mapping[int, Remedy]] = MappingProxyType(
    {_OFF_THE_BUS: RESEAT, _NVLINK: DIAGNOSE_LINKS, _REMAPPING_FAILED: REPLACE}
)
_RECOVERIES: Final[Mapping[int, tuple[str, Severity, Remedy]]] = MappingProxyType(
    {
        1: ("a reset", Severity.HIGH, RESET),
        2: ("a reboot", Severity.HIGH, REBOOT),
        3: ("to be drained", Severity.MEDIUM, RESET),
        4: ("to be drained and reset", Severity.HIGH, RESET),
    }
)
_OTHER_RECOVERY: Final = (
    "a recovery that only a newer driver's manual names",
    Severity.HIGH,
    RESET,
)


def driver_troubles(board: Board, settings: TroubleSettings) -> Iterator[Trouble]:
    """Recent critical Xids, and what the driver asks for."""
    action = int(board.standing.get(Signal.RECOVERY_ACTION) or 0)
    if action:
        what, severity, remedy = _RECOVERIES.get(action, _OTHER_RECOVERY)
        yield Trouble(
            f"the driver asks for {what}",
            "until then it may refuse new work on the GPU",
            severity,
            remedy,
            evidence={"recovery_action": action},
        )
    yield from _xids(board, settings)


def _xids(board: Board, settings: TroubleSettings) -> Iterator[Trouble]:
    """Only the last one's time is known; others that came before it may be its cause."""
    log = board.standing.xids
    if log is None or log.last is None or log.last_wall_time is None:
        return
    age = board.now - log.last_wall_time
    if age > nanoseconds(settings.xid_recent_seconds):
        return
    for code in sorted(CRITICAL_XIDS & log.counts.keys()):
        is_last = code == log.last
        ago = f"{format_duration(max(0.0, seconds(age)))} ago"
        when = ago if is_last else f"before Xid {log.last}, which came {ago}"
        times = log.counts[code]
        yield Trouble(
            f"Xid {code} {'once' if times == 1 else f'{times} times'}, {'last ' * is_last}{when}",
            XID_MEANINGS.get(code, "hardware error"),
            _severity(code, is_last=is_last),
            _REMEDIES.get(code, RESET),
            SURE if is_last else settings.unclear_time_ratio,
            {f"xid_{code}": times},
        )


def _severity(code: int, *, is_last: bool) -> Severity:
    if not is_last:
        return Severity.MEDIUM
    return Severity.CRITICAL if code in (_OFF_THE_BUS, _REMAPPING_FAILED) else Severity.HIGH

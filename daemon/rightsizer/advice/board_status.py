"""Status of the board under a device: its facts and the last reading."""

from dataclasses import dataclass

from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Case
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal


@dataclass(frozen=True, slots=True)
class BoardStatus:
    """A whole GPU; a MIG instance stands as its parent does."""

    device: Device
    reading: Reading
    xids: XidLog | None = None

    def get(self, signal: Signal) -> float | None:
        """The last value of a signal, `None` where it is missing."""
        return self.reading.get(signal)

    def stated(self, name: str) -> float | None:
        """A capacity of the GPU, `None` where nobody states it: assumptions do not count."""
        value: float | None = getattr(self.device, name)
        return None if name in self.device.assumed else value

    @property
    def default_limit_watts(self) -> float | None:
        """The power limit that the board comes with."""
        return self.stated("power_limit_watts")

    @property
    def limit_watts(self) -> float | None:
        """The power limit that is enforced now."""
        return self.get(Signal.POWER_LIMIT_WATTS)

    @property
    def clock_ratio(self) -> float | None:
        """The SM clock at the last reading, of its maximum."""
        clock = self.get(Signal.SM_CLOCK_HERTZ)
        highest = self.get(Signal.SM_CLOCK_MAXIMUM_HERTZ) or self.device.sm_clock_maximum_hertz
        return None if clock is None or not highest else clock / highest


def board_uuid(device: Device) -> str:
    """The GPU that a device is, or is a part of."""
    return device.uuid if device.mig is None else device.mig.parent_uuid


def board_status_of(case: Case, device: Device) -> BoardStatus | None:
    """How the GPU of a device stands; `None` where only a history is known, or nothing was read."""
    node, uuid = case.node, board_uuid(device)
    if node is None or uuid not in node.readings:
        return None
    board = next((each for each in node.devices if each.uuid == uuid), device)
    return BoardStatus(board, node.readings[uuid], node.xids.get(uuid))


def board_statuses(case: Case) -> tuple[BoardStatus, ...]:
    """Those of a case's GPUs that something was read of, each once, in the order of the case."""
    found = {board_uuid(each): board_status_of(case, each) for each in case.devices}
    return tuple(each for each in found.values() if each is not None)

"""How the GPU under a device stands now: its facts and the last that was read of it."""

from dataclasses import dataclass

from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case
from rightsizer.domain.reading import Reading
from rightsizer.domain.signal import Signal
from rightsizer.domain.xid import XidLog

__all__ = ["BoardStanding", "board_uuid", "standing_of", "standings"]


@dataclass(frozen=True, slots=True)
class BoardStanding:
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


def standing_of(case: Case, device: Device) -> BoardStanding | None:
    """How the GPU of a device stands; `None` where only a history is known, or nothing was read."""
    node, uuid = case.node, board_uuid(device)
    if node is None or uuid not in node.readings:
        return None
    board = next((each for each in node.devices if each.uuid == uuid), device)
    return BoardStanding(board, node.readings[uuid], node.xids.get(uuid))


def standings(case: Case) -> tuple[BoardStanding, ...]:
    """Those of a case's GPUs that something was read of, each once, in the order of the case."""
    found = {board_uuid(each): standing_of(case, each) for each in case.devices}
    return tuple(each for each in found.values() if each is not None)

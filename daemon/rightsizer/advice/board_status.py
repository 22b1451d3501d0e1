"""Status of the board under a device, and cases that a rule cannot judge."""

from collections.abc import Collection
from typing import Final

from rightsizer.advice.verdict import abstain
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Case, Finding, Reason
from rightsizer.model.frozen import dataclass
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Placement


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
        """A capacity of the GPU, `None` where it is only assumed."""
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


def placement_of(case: Case, device: Device) -> Placement | None:
    """Where the GPU of a device is plugged in; `None` where that is not known."""
    topology = None if case.node is None else case.node.topology
    return None if topology is None else topology.placements.get(board_uuid(device))


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


def readings_of(case: Case) -> list[Reading]:
    """The last readings of its devices."""
    readings = case.node.readings if case.node else {}
    return [readings[device.uuid] for device in case.devices if device.uuid in readings]


def is_shared(case: Case) -> bool:
    """Whether others hold a part of its GPUs: their size is then not one workload's affair."""
    if case.node is None:
        return False
    return any(len(case.node.holdings.get(device.uuid, ())) > 1 for device in case.devices)


_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG, Signal.OFA)
_LEAST_RATIO: Final = 0.05
"""Below it is noise of the driver's."""


def works_on_media(case: Case) -> bool:
    """Whether the engines for video and pictures were busy just now on any of the GPUs.

    A smaller board, or a slice, may have none of them, whatever room its SMs have.
    """
    return any(
        (reading.get(engine) or 0.0) >= _LEAST_RATIO
        for reading in readings_of(case)
        for engine in _ENGINES
    )


MEDIA_NEED_UNKNOWN: Final = (
    "it works on the media engines, and how much of them it needs is unknown"
)
"""Why nothing is said of what does."""


def why_unmeasured(case: Case) -> str:
    """Why the need of a workload's GPUs is not known."""
    if any(each.memory_is_preallocated for each in case.provisioning):
        return "memory looks preallocated, so the memory needed is not known"
    return "compute or memory use is not measured"


def abstain_unobserved(found: Finding, case: Case, signals: Collection[Signal]) -> Finding:
    """What was found, or an abstention where none of the signals that it takes is read."""
    own = readings_of(case)
    is_blind = own and not any(signal in each.values for each in own for signal in signals)
    shares = found.evidence.get("active_share_ratio")
    was_seen = isinstance(shares, dict) and any(shares.values())
    if found.abstained is not None or not is_blind or was_seen:
        return found
    names = " and ".join(str(signal) for signal in signals)
    why = f"the host is not observed: no {names} of the workload"
    return abstain(found.rule, case, Reason.UNSUPPORTED_TELEMETRY, why)

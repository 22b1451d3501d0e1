"""Status of the board under a device, and cases that a rule cannot judge."""

from collections.abc import Collection
from typing import Final

from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.dcgm_fields import DCGM_FIELDS, DcgmField
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Case, Finding
from rightsizer.model.frozen import dataclass
from rightsizer.model.reading import Reading
from rightsizer.model.signal import MEDIA_ENGINES, Signal
from rightsizer.model.state import Resource
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

    @property
    def default_limit_watts(self) -> float | None:
        """The power limit that the board comes with."""
        return self.device.stated("power_limit_watts")

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


def placement_of(case: Case, device: Device) -> Placement | None:
    """Where the GPU of a device is plugged in; `None` where that is not known."""
    topology = None if case.node is None else case.node.topology
    return None if topology is None else topology.placements.get(device.board_uuid)


def board_status_of(case: Case, device: Device) -> BoardStatus | None:
    """How the GPU of a device stands; `None` where only a history is known, or nothing was read."""
    node, uuid = case.node, device.board_uuid
    if node is None or uuid not in node.readings:
        return None
    board = next((each for each in node.devices if each.uuid == uuid), device)
    return BoardStatus(board, node.readings[uuid], node.xids.get(uuid))


def board_statuses(case: Case) -> tuple[BoardStatus, ...]:
    """Those of a case's GPUs that something was read of, each once, in the order of the case."""
    found = {each.board_uuid: board_status_of(case, each) for each in case.devices}
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


_ENGINES: Final = (*MEDIA_ENGINES, Signal.OFA)
_LEAST_RATIO: Final = 0.05
"""Below it is noise of the driver's."""


def works_on_media(case: Case) -> bool:
    """Whether the engines for video and pictures are needed, or were busy just now, on any GPU.

    A smaller board, or a slice, may have none of them, whatever room its SMs have.
    """
    needs = (fit.resources.get(Resource.MEDIA) for fit in case.provisioning)
    return any((fit.demand or 0.0) >= _LEAST_RATIO for fit in needs if fit is not None) or any(
        (reading.get(engine) or 0.0) >= _LEAST_RATIO
        for reading in readings_of(case)
        for engine in _ENGINES
    )


def why_media_is_needed(case: Case) -> str:
    """Why nothing is said of other boards and slices; empty where something can be."""
    if not works_on_media(case):
        return ""
    return "it works on the media engines, of which another board or a slice may have none"


def why_unmeasured(case: Case) -> str:
    """Why the need of a workload's GPUs is not known."""
    if any(each.memory_is_preallocated for each in case.provisioning):
        return "memory looks preallocated, so the memory needed is not known"
    return "compute or memory use is not measured"


def hides_why_clocks_are_low(case: Case, violation: Signal) -> str:
    """Why it is unknown whether something holds the clocks down; empty where it is known.

    Beside the reasons for low clocks, the time that one of them held tells.
    """
    signals = (Signal.CLOCK_EVENT_REASONS, violation)
    found = board_statuses(case)
    if not found or any(signal in each.reading.values for each in found for signal in signals):
        return ""
    return f"the driver does not say why clocks are low: no {metrics_of(signals)}"


def metrics_of(signals: Collection[Signal]) -> str:
    """The metrics of dcgm-exporter and of our agent that tell of some signals, for a person."""
    of_exporter: dict[Signal, DcgmField] = {}
    for each in DCGM_FIELDS.values():
        if each.signal is not None and each.signal in signals:
            known = of_exporter.setdefault(each.signal, each)
            of_exporter[each.signal] = max(known, each, key=lambda field: field.rank)
    names = sorted(field.name for field in of_exporter.values())
    own = sorted({_NAMED.get(each, each.metric_name) for each in signals})
    return " or ".join([*names, " or ".join(own)])


_NAMED: Final = {Signal.CLOCK_EVENT_REASONS: "rightsizer_clock_event_reason"}


def abstain_unobserved(
    found: Finding,
    subject: CaseSubject,
    signals: Collection[Signal],
    what: str = "the host",
    evidence_name: str = "active_share_ratio",
) -> Finding:
    """What was found, or an abstention where none of the signals that it takes is read.

    It names the metrics that would tell. What was seen nevertheless is believed.
    """
    own = readings_of(subject.case)
    is_blind = own and not any(signal in each.values for each in own for signal in signals)
    shares = found.evidence.get(evidence_name)
    was_seen = isinstance(shares, dict) and any(shares.values())
    if found.abstained is not None or not is_blind or was_seen:
        return found
    return subject.abstain(f"{what} is not observed: no {metrics_of(signals)}")

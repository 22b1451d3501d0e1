"""Status of a device's board, and the limits of what rules can judge."""

from functools import cache
from typing import Final

from msgspec import Struct

from rightsizer.advice.screen import Column, Settled, SubjectTable, unmeasured
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.dcgm_fields import DCGM_FIELDS, DcgmField
from rightsizer.model.values import (
    MEDIA_ENGINES,
    Case,
    Device,
    Finding,
    Placement,
    Reading,
    Resource,
    Signal,
    XidLog,
)


class BoardStatus(Struct, frozen=True):
    """Status of a whole GPU; a MIG instance has its parent's."""

    device: Device
    reading: Reading
    xids: XidLog | None = None

    @property
    def default_limit_watts(self) -> float | None:
        """Default power limit of the board."""
        return self.device.stated("power_limit_watts")

    @property
    def limit_watts(self) -> float | None:
        """Enforced power limit."""
        return self.reading.get(Signal.POWER_LIMIT_WATTS)

    @property
    def clock_ratio(self) -> float | None:
        """SM clock at the last reading, relative to its maximum."""
        clock = self.reading.get(Signal.SM_CLOCK_HERTZ)
        highest = (
            self.reading.get(Signal.SM_CLOCK_MAXIMUM_HERTZ) or self.device.sm_clock_maximum_hertz
        )
        return None if clock is None or not highest else clock / highest


def placement_of(case: Case, device: Device) -> Placement | None:
    """PCIe placement of a device's GPU, or `None` if unknown."""
    topology = None if case.node is None else case.node.topology
    return None if topology is None else topology.placements.get(device.board_uuid)


def board_status_of(case: Case, device: Device) -> BoardStatus | None:
    """Status of a device's GPU; `None` without a node or a reading."""
    node = case.node
    uuid = device.board_uuid
    if node is None or uuid not in node.readings:
        return None
    board = next((candidate for candidate in node.devices if candidate.uuid == uuid), device)
    return BoardStatus(board, node.readings[uuid], node.xids.get(uuid))


def board_statuses(case: Case) -> tuple[BoardStatus, ...]:
    """Statuses of a case's GPUs that were read, each once, in the case's order."""
    statuses = {device.board_uuid: board_status_of(case, device) for device in case.devices}
    return tuple(status for status in statuses.values() if status is not None)


def readings_of(case: Case) -> list[Reading]:
    """Last readings of a case's devices."""
    readings = case.node.readings if case.node else {}
    return [readings[device.uuid] for device in case.devices if device.uuid in readings]


def is_shared(case: Case) -> bool:
    """Whether others share its GPUs, whose size then does not depend on one workload."""
    if case.node is None:
        return False
    return any(len(case.node.holdings.get(device.uuid, ())) > 1 for device in case.devices)


_ENGINES: Final = (*MEDIA_ENGINES, Signal.OFA)
_LEAST_RATIO: Final = 0.05
"""Below this it is driver noise."""


def works_on_media(case: Case) -> bool:
    """Whether a GPU needs its media engines, or was using them at the last reading.

    A smaller board or a slice may have none, regardless of the room on its SMs.
    """
    needs = (fit.resources.get(Resource.MEDIA) for fit in case.provisioning)
    return any((fit.demand or 0.0) >= _LEAST_RATIO for fit in needs if fit is not None) or any(
        (reading.get(engine) or 0.0) >= _LEAST_RATIO
        for reading in readings_of(case)
        for engine in _ENGINES
    )


def why_media_is_needed(case: Case) -> str:
    """Reason not to propose other boards and slices; empty if they may be."""
    if not works_on_media(case):
        return ""
    return "it works on the media engines, of which another board or a slice may have none"


def why_unmeasured(case: Case) -> str:
    """Reason why the need of a workload's GPUs is unknown."""
    if any(provisioning.memory_is_preallocated for provisioning in case.provisioning):
        return PREALLOCATED
    return UNMEASURED


PREALLOCATED: Final = "memory looks preallocated, so the memory needed is not known"
UNMEASURED: Final = "compute or memory use is not measured"


def hides_why_clocks_are_low(case: Case, violation: Signal) -> str:
    """Reason why clock limits cannot be diagnosed; empty if they can.

    Accepts the clock event reasons or the violation counter of one of them.
    """
    signals = _clock_signals(violation)
    statuses = board_statuses(case)
    if not statuses or any(
        signal in status.reading.values for status in statuses for signal in signals
    ):
        return ""
    return _hidden_clocks(violation)


def _clock_signals(violation: Signal) -> tuple[Signal, ...]:
    return Signal.CLOCK_EVENT_REASONS, violation


def _hidden_clocks(violation: Signal) -> str:
    names = metrics_of(_clock_signals(violation))
    return f"the driver does not say why clocks are low: no {names}"


def screen_hidden_clocks(table: SubjectTable, violation: Signal, share: Column) -> Settled:
    """Settle what `hides_why_clocks_are_low` would, where no low clock was seen."""
    is_blind = ~table.reads(*_clock_signals(violation))
    return unmeasured(is_blind & (share <= 0.0), _hidden_clocks(violation))


@cache
def metrics_of(signals: tuple[Signal, ...]) -> str:
    """Metrics of dcgm-exporter and of the agent for some signals, for display."""
    of_exporter: dict[Signal, DcgmField] = {}
    for dcgm_field in DCGM_FIELDS.values():
        if dcgm_field.signal is not None and dcgm_field.signal in signals:
            previous = of_exporter.setdefault(dcgm_field.signal, dcgm_field)
            of_exporter[dcgm_field.signal] = max(previous, dcgm_field, key=lambda field: field.rank)
    names = sorted(field.name for field in of_exporter.values())
    agent_metrics = sorted({_NAMED.get(signal, signal.metric_name) for signal in signals})
    return " or ".join([*names, " or ".join(agent_metrics)])


_NAMED: Final = {Signal.CLOCK_EVENT_REASONS: "rightsizer_clock_event_reason"}


def abstain_unobserved(
    finding: Finding,
    subject: CaseSubject,
    signals: tuple[Signal, ...],
    what: str = "the host",
    evidence_name: str = "active_share_ratio",
) -> Finding:
    """Return the finding, or abstain if none of its required signals is read.

    The abstention names the metrics needed. A positive observation is always returned.
    """
    readings = readings_of(subject.case)
    is_blind = readings and not any(
        signal in reading.values for reading in readings for signal in signals
    )
    shares = finding.evidence.get(evidence_name)
    was_seen = isinstance(shares, dict) and any(shares.values())
    if finding.abstained is not None or not is_blind or was_seen:
        return finding
    return subject.abstain(is_not_observed(what, signals))


def is_not_observed(what: str, signals: tuple[Signal, ...]) -> str:
    """Reason to abstain where none of some signals is read."""
    return f"{what} is not observed: no {metrics_of(signals)}"

"""GPUs whose hardware needs repair: memory, links, or what the driver says of them.

These are facts that the driver states and no statistics: confidence comes from how long a fact
lasts and whether its time is known, not from how much of the window was seen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rightsizer.advice.board_status import BoardStatus, board_status_of, board_uuid, metrics_of
from rightsizer.advice.hardware_faults import (
    HardwareFault,
    HardwareFaultSettings,
    InspectedBoard,
    driver_faults,
    link_faults,
    memory_faults,
)
from rightsizer.advice.instructions import instruction
from rightsizer.advice.observation import minimum_known, on_ratio
from rightsizer.advice.operator_commands import drain_instructions
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, Reason, Risk, Severity
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal

_CHECKS: Final[
    tuple[Callable[[InspectedBoard, HardwareFaultSettings], Iterator[HardwareFault]], ...]
] = (driver_faults, memory_faults, link_faults)
_SHOWN: Final = (Signal.REMAPPED_ROWS_FAILED, Signal.PCIE_REPLAYS)
_HEALTH: Final = frozenset(
    {
        *(*_SHOWN, Signal.REMAPPED_ROWS_PENDING, Signal.ECC_UNCORRECTED_ERRORS),
        *(Signal.RETIRED_PAGES_CORRECTABLE, Signal.RETIRED_PAGES_UNCORRECTABLE),
        *(Signal.RETIRED_PAGES_PENDING, Signal.RECOVERY_ACTION, Signal.FABRIC_STATE),
        *(Signal.NVLINK_LINKS_UP, Signal.NVLINK_ERRORS),
    }
)
_ORDER: Final = tuple(Severity)
_HEALTHY: Final = {"fact": 0.95}
"""The driver does not know every fault."""


@dataclass(frozen=True, slots=True)
class HardwareUnhealthySettings:
    """From when on hardware is a finding."""

    on_ratio: float = on_ratio(
        0.01,
        "Part of the workload's GPUs that must be in trouble.",
        "a workload is as healthy as its worst GPU",
    )
    minimum_known_seconds: float = minimum_known(
        0.0, "a GPU that has fallen off the bus gives no readings at all"
    )
    trouble: HardwareFaultSettings = field(default_factory=HardwareFaultSettings)
    conduct: OpeningPolicy = field(default_factory=lambda: OpeningPolicy(minimum_known_seconds=0.0))


def judge(subject: CaseSubject, settings: HardwareUnhealthySettings) -> Finding:
    """Whether the hardware under the workload needs an operator, and what would repair it."""
    case = subject.case
    too_little = subject.abstain_early(settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    boards = {each.uuid: _board(case, each) for each in case.devices}
    if not any(boards.values()):
        return subject.abstain("only a history is known, not the state of the hardware")
    if not any(map(_tells, boards.values())):
        return subject.abstain(f"no counter of its health is read: no {metrics_of(_SHOWN)}")
    faults: dict[str, list[HardwareFault]] = {}
    for uuid, board in boards.items():
        found = [each for check in _CHECKS if board for each in check(board, settings.trouble)]
        # Worst first.
        faults[uuid] = sorted(found, key=lambda each: -_ORDER.index(each.severity))
    sick = tuple(device for device in case.devices if faults[device.uuid])
    if len(sick) < max(1.0, settings.on_ratio * len(case.devices)):
        summary = f"{subject.name}: the driver knows of no trouble."
        return subject.find_nothing(summary, _HEALTHY)
    return _complaint(subject, sick, {device.uuid: faults[device.uuid] for device in sick})


def _board(case: Case, device: Device) -> InspectedBoard | None:
    """A GPU that fell off the bus before anything was read of it still has its Xids."""
    node, uuid = case.node, board_uuid(device)
    if node is None:
        return None
    status = board_status_of(case, device)
    if status is None and uuid in node.xids:
        status = BoardStatus(device, Reading(uuid, 0, {}), node.xids[uuid])
    now = max(window.end for window in case.windows)
    return None if status is None else InspectedBoard(status, node, now)


def _tells(board: InspectedBoard | None) -> bool:
    """Whether anything was read that could be a fault."""
    if board is None:
        return False
    return board.status.xids is not None or not _HEALTH.isdisjoint(board.status.reading.values)


def _complaint(
    subject: CaseSubject, sick: Sequence[Device], faults: Mapping[str, list[HardwareFault]]
) -> Finding:
    found = [fault for each in faults.values() for fault in each]
    # Drain first; then each remedy once for each GPU.
    remedies = dict.fromkeys(
        instruction(fault.remedy, board_uuid(device))
        for device in sick
        for fault in faults[device.uuid]
    )
    drain = drain_instructions(subject.case, f"{names_of(sick)} unhealthy")
    return subject.complain(
        reasons=(Reason.HARDWARE_UNHEALTHY,),
        action=Action.RESEAT_OR_DRAIN,
        summary=f"{'; '.join(_sentence(each, faults[each.uuid]) for each in sick)}.",
        # The surest fact decides: one is enough.
        factors={"fact": max(each.certainty for each in found)},
        risk=Risk.LOW,
        evidence={
            "troubles": {
                uuid: {each.what: each.means for each in some} for uuid, some in faults.items()
            },
            "numbers": {
                uuid: {name: value for each in some for name, value in each.evidence.items()}
                for uuid, some in faults.items()
            },
        },
        culprits=tuple(faults),
        savings="healthy hardware saves work that would be lost",
        instructions=(*drain, *remedies),
        severity=max((each.severity for each in found), key=_ORDER.index),
    )


def _sentence(device: Device, faults: list[HardwareFault]) -> str:
    worst, *others = faults
    more = f" (and {', '.join(each.what for each in others)})" if others else ""
    return f"{names_of([device])}: {worst.what}: {worst.means}{more}"


RULE: Final = Rule("hardware_unhealthy", HardwareUnhealthySettings(), judge)

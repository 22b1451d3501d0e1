"""GPUs whose PCIe link is narrower or slower than board and slot allow, while they work.

At rest links train down to save power (NVSentinel#890), so that only time at work counts. A slot
that allows less than the board is no fault of either.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.drain import drain_instructions
from rightsizer.advice.market import Market
from rightsizer.advice.observation import Observation, Question, minimum_known, observe, on_ratio
from rightsizer.advice.pcie_link import LinkState, link_state
from rightsizer.advice.rules.rule import Conduct, Rule
from rightsizer.advice.standing import board_uuid
from rightsizer.advice.verdict import Complaint, abstain, complain, find_nothing, names_of
from rightsizer.domain.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.domain.settings import setting
from rightsizer.domain.state import IDLE_STATES, Condition
from rightsizer.domain.units import seconds
from rightsizer.domain.window import Window
from rightsizer.domain.workload import Workload

__all__ = ["RULE", "PcieLinkDegradedSettings"]

NAME: Final = "pcie_link_degraded"


@dataclass(frozen=True, slots=True)
class PcieLinkDegradedSettings:
    """From when on a link is a finding."""

    on_ratio: float = on_ratio(
        0.5,
        "Share of the time at work in which the link must be below what board and slot allow.",
        "assumed; a link is good or bad, and half rules out one that only trains up late",
    )
    minimum_known_seconds: float = minimum_known()
    minimum_active_seconds: float = setting(
        60.0,
        help="Time at work within the span under which the link is not judged.",
        unit="seconds",
        minimum=1,
        source="docs/definitions.md, conditions: a generation is believed after a minute",
    )
    conduct: Conduct = field(default_factory=Conduct)


def judge(case: Case, settings: PcieLinkDegradedSettings, market: Market) -> Finding:
    """Whether a GPU of the workload works on less of a link than it could have."""
    del market
    links = {each.uuid: link_state(case, each) for each in case.devices}
    known = {uuid: link for uuid, link in links.items() if link is not None}
    if not known:
        why = "the PCIe link, or what board and slot allow, is not known"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if _nobody_works(case):
        return find_nothing(NAME, case, f"{names_of(case.devices)}: nobody works on it.", {}, {})
    if _hardly_works(case, known.values(), settings):
        why = "it hardly worked, and at rest links train down to save power"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    shares = {
        window.uuid: _share(window, known.get(window.uuid), settings) for window in case.windows
    }
    seen = observe(
        NAME,
        case,
        Question(
            shares=shares,
            on_ratio=settings.on_ratio,
            minimum_known_seconds=settings.minimum_known_seconds,
            what="PCIe link below what board and slot allow",
            why_unsupported="without telemetry nobody can tell when the GPU is at work",
            evidence_name="degraded_at_work_ratio",
        ),
    )
    if isinstance(seen, Finding):
        return seen
    return _complaint(case, seen, [known[each.uuid] for each in seen.devices])


def conduct(_: Workload | None, settings: PcieLinkDegradedSettings) -> Conduct:
    """The same for every class."""
    return settings.conduct


def _nobody_works(case: Case) -> bool:
    """Whether a GPU that no workload holds is known to have no process either."""
    if case.workload is not None or case.node is None:
        return False
    readings = [case.node.readings.get(device.uuid) for device in case.devices]
    return all(each is not None and each.processes == () for each in readings)


def _hardly_works(
    case: Case, links: Iterable[LinkState], settings: PcieLinkDegradedSettings
) -> bool:
    """Whether a workload's link is below what it could be, and only work would tell why."""
    active = max((seconds(window.active) for window in case.windows), default=0.0)
    return (
        case.workload is not None
        and active < settings.minimum_active_seconds
        and any(link.lost_ratio > 0.0 for link in links)
    )


def _share(window: Window, link: LinkState | None, settings: PcieLinkDegradedSettings) -> float:
    """The share of the time at work, at the least; 0 where it hardly worked.

    A slow link counts at work only; a narrow one counts at rest too, which is taken off.
    """
    if link is None or seconds(window.active) < settings.minimum_active_seconds:
        return 0.0
    degraded = window.conditions.get(Condition.PCIE_LINK_DEGRADED, 0)
    if link.is_narrow:
        degraded -= sum(window.states.get(state, 0) for state in IDLE_STATES)
    return min(1.0, max(0, degraded) / window.active)


def _complaint(case: Case, seen: Observation, links: Sequence[LinkState]) -> Finding:
    # The same number of seconds means more where more of the link is gone.
    lost = [link.lost_ratio for link in links]
    return complain(
        NAME,
        case,
        Complaint(
            finding=FindingKind.DEGRADED,
            reasons=(Reason.PCIE_LINK_DEGRADED,),
            action=Action.RESEAT_OR_DRAIN,
            summary=f"{_shortened(seen)}: {'; '.join(dict.fromkeys(map(str, links)))}.",
            factors=seen.factors,
            risk=Risk.LOW,
            evidence=seen.evidence
            | {
                "links": {
                    device.uuid: link.evidence()
                    for device, link in zip(seen.devices, links, strict=True)
                }
            },
            culprits=tuple(device.uuid for device in seen.devices),
            savings=Savings(reason="a whole link saves time, not GPUs"),
            instructions=_instructions(case, seen, links),
            affected_gpus=sum(
                seen.share * part * device.capacity_ratio
                for device, part in zip(seen.devices, lost, strict=True)
            ),
        ),
    )


def _shortened(seen: Observation) -> str:
    """The share is one of the time at work, not of the window."""
    start, _, _ = seen.summary.partition(" of the last ")
    return f"{start} of the time at work"


def _instructions(
    case: Case, seen: Observation, links: Sequence[LinkState]
) -> tuple[Instruction, ...]:
    uuids = dict.fromkeys(board_uuid(device) for device in seen.devices)
    fields = "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
    ask = [f"nvidia-smi -i {uuid} --query-gpu={fields} --format=csv" for uuid in uuids]
    places = dict.fromkeys(place for link in links for place in link.places)
    ask += [f"sudo lspci -vv -s {place} | grep -E 'LnkCap:|LnkSta:'" for place in places]
    return (
        Instruction("See the link again while the GPU works", "\n".join(ask), "sh"),
        *drain_instructions(case, f"PCIe link of {names_of(seen.devices)} is degraded"),
        Instruction(
            "Then, at the server",
            "Reseat the board and its riser or cable, try another slot, and look for bent pins and "
            "dust; check the slot's lanes (bifurcation) and its generation in the firmware setup. "
            "If the trouble moves with the board, have it replaced.",
        ),
    )


RULE: Final = Rule(NAME, PcieLinkDegradedSettings(), judge, conduct)

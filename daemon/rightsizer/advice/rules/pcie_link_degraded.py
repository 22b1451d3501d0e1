"""Rule: GPUs whose PCIe link is narrower or slower than board and slot allow, while they work."""

from collections.abc import Iterable, Sequence
from typing import Final

from rightsizer.advice.board_status import BoardStatus, board_status_of, board_uuid
from rightsizer.advice.market import Market
from rightsizer.advice.observation import TimeShare, minimum_known, observe, on_ratio
from rightsizer.advice.operator_commands import drain_instructions
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import abstain, complain, find_nothing, names_of
from rightsizer.model.device import Device
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.signal import Signal
from rightsizer.model.state import IDLE_STATES, Condition
from rightsizer.model.topology import Bridge, Placement, link_bytes_per_second
from rightsizer.model.units import seconds
from rightsizer.model.window import Window


@dataclass(frozen=True, slots=True)
class LinkState:
    """The link at the last reading, against what board and slot allow together."""

    generation: int
    width: int
    generation_maximum: int
    width_maximum: int
    placement: Placement | None = None
    """`None` without topology."""

    @property
    def is_narrow(self) -> bool:
        """Whether lanes are missing."""
        return self.width < self.width_maximum

    @property
    def lost_ratio(self) -> float:
        """The part of the possible bandwidth that is gone, 0 to 1."""
        now = link_bytes_per_second(self.generation, self.width)
        possible = link_bytes_per_second(self.generation_maximum, self.width_maximum)
        return 0.0 if now is None or not possible else max(0.0, 1.0 - now / possible)

    @property
    def narrowed(self) -> tuple[Bridge, ...]:
        """Bridges above the GPU with fewer lanes than they have; speeds at rest say nothing."""
        above = () if self.placement is None else self.placement.bridges
        return tuple(
            bridge
            for bridge in above
            if bridge.width and bridge.width_maximum and bridge.width < bridge.width_maximum
        )

    @property
    def limiting(self) -> tuple[Bridge, ...]:
        """Bridges that allow less than the GPU itself could do: the slot's nature, no fault."""
        placement = self.placement
        own = None if placement is None else placement.generation_maximum
        if placement is None or own is None:
            return ()
        return tuple(
            bridge
            for bridge in placement.bridges
            if bridge.generation_maximum and bridge.generation_maximum < own
        )

    @property
    def places(self) -> tuple[str, ...]:
        """The PCI addresses of both ends, then of what else is narrow."""
        placement = self.placement
        if placement is None:
            return ()
        own = (placement.pci_bus_id,) if placement.pci_bus_id else ()
        ends = tuple(bridge.pci_bus_id for bridge in placement.bridges[:1])
        return (*own, *ends, *(bridge.pci_bus_id for bridge in self.narrowed))

    def evidence(self) -> dict[str, object]:
        """The numbers."""
        found: dict[str, object] = {
            "generation": self.generation,
            "width": self.width,
            "generation_maximum": self.generation_maximum,
            "width_maximum": self.width_maximum,
            "lost_bandwidth_ratio": round(self.lost_ratio, 4),
        }
        if self.placement is not None:
            found["gpu_generation_maximum"] = self.placement.generation_maximum
            found["narrow_bridges"] = [bridge.pci_bus_id for bridge in self.narrowed]
            found["limiting_bridges"] = [bridge.pci_bus_id for bridge in self.limiting]
        return found

    def __str__(self) -> str:
        """For a person: `x8 instead of x16, at generation 3 instead of 5`."""
        parts = []
        if self.is_narrow:
            parts.append(f"x{self.width} instead of x{self.width_maximum}")
        if self.generation < self.generation_maximum:
            parts.append(f"generation {self.generation} instead of {self.generation_maximum}")
        text = ", ".join(parts) or (
            f"x{self.width} at generation {self.generation} at the last reading"
        )
        if self.narrowed:
            text += f"; narrow at bridge {self.narrowed[0].pci_bus_id}"
        if self.limiting:
            text += (
                f"; bridge {self.limiting[0].pci_bus_id} allows generation "
                f"{self.limiting[0].generation_maximum} at most, which is no fault"
            )
        return text


def link_state(case: Case, device: Device) -> LinkState | None:
    """The link of a device's GPU; `None` unless both ends of the comparison are known."""
    status = board_status_of(case, device)
    if status is None:
        return None
    now = status.get(Signal.PCIE_LINK_GENERATION), status.get(Signal.PCIE_LINK_WIDTH)
    most = _most(status)
    if now[0] is None or now[1] is None or most is None:
        return None
    topology = None if case.node is None else case.node.topology
    placement = None if topology is None else topology.placements.get(board_uuid(device))
    return LinkState(int(now[0]), int(now[1]), *most, placement)


def _most(status: BoardStatus) -> tuple[int, int] | None:
    generation = status.stated("pcie_generation_maximum")
    width = status.stated("pcie_width_maximum")
    return None if generation is None or width is None else (int(generation), int(width))


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
        within=(1, None),
        source="docs/definitions.md, conditions: a generation is believed after a minute",
    )
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(case: Case, settings: PcieLinkDegradedSettings, market: Market) -> Finding:
    """Whether a GPU of the workload works on less of a link than it could have."""
    del market
    links = {each.uuid: link_state(case, each) for each in case.devices}
    known = {uuid: link for uuid, link in links.items() if link is not None}
    if not known:
        why = "the PCIe link, or what board and slot allow, is not known"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if _nobody_works(case):
        return find_nothing(NAME, case, f"{names_of(case.devices)}: nobody works on it.")
    if _hardly_works(case, known.values(), settings):
        why = "it hardly worked, and at rest links train down to save power"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    shares = {
        window.uuid: _share(window, known.get(window.uuid), settings) for window in case.windows
    }
    seen = observe(
        NAME,
        case,
        settings,
        shares,
        "PCIe link below what board and slot allow",
        why_unsupported="without telemetry nobody can tell when the GPU is at work",
        evidence_name="degraded_at_work_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    return _complaint(case, seen, [known[each.uuid] for each in seen.devices])


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


def _complaint(case: Case, seen: TimeShare, links: Sequence[LinkState]) -> Finding:
    # The same number of seconds means more where more of the link is gone.
    lost = [link.lost_ratio for link in links]
    return complain(
        NAME,
        case,
        kind=FindingKind.DEGRADED,
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
    )


def _shortened(seen: TimeShare) -> str:
    """The share is one of the time at work, not of the window."""
    start, _, _ = seen.summary.partition(" of the last ")
    return f"{start} of the time at work"


def _instructions(
    case: Case, seen: TimeShare, links: Sequence[LinkState]
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


RULE: Final = Rule(NAME, PcieLinkDegradedSettings(), judge)

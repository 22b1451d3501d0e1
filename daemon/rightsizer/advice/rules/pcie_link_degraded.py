"""Rule: GPUs with a PCIe link narrower or slower than board and slot allow while they work."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.board_status import board_status_of, placement_of
from rightsizer.advice.instructions import drain_instructions, instruction, nvidia_smi_id
from rightsizer.advice.observation import observe
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, unmeasured
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    IDLE_STATES,
    Action,
    Bridge,
    Case,
    Condition,
    Device,
    Finding,
    Instruction,
    Placement,
    Reason,
    Risk,
    SharedPart,
    Signal,
    Spec,
    Window,
    link_bytes_per_second,
    seconds,
)
from rightsizer.owners.owner import shell


class LinkState(Struct, frozen=True):
    """Link at the last reading, and the limits of board and slot."""

    generation: int
    width: int
    generation_maximum: int
    width_maximum: int
    placement: Placement | None = None
    """`None` without a topology."""

    @property
    def is_narrow(self) -> bool:
        """Whether lanes are missing."""
        return self.width < self.width_maximum

    @property
    def lost_ratio(self) -> float:
        """Share of the possible bandwidth that is lost, 0 to 1."""
        now = link_bytes_per_second(self.generation, self.width)
        possible = link_bytes_per_second(self.generation_maximum, self.width_maximum)
        return 0.0 if now is None or not possible else max(0.0, 1.0 - now / possible)

    @property
    def narrowed(self) -> tuple[Bridge, ...]:
        """Upstream bridges with fewer lanes than their maximum; idle speeds are not conclusive."""
        above = self.placement.bridges if self.placement else ()
        return tuple(
            bridge
            for bridge in above
            if (bridge.width or 0) < (bridge.width_maximum or 0) and bridge.width
        )

    @property
    def limiting(self) -> tuple[Bridge, ...]:
        """Upstream bridges that allow less than the GPU, a property of the slot and no fault."""
        above = self.placement.bridges if self.placement else ()
        gpu_generation = self.placement and self.placement.generation_maximum
        return tuple(
            bridge
            for bridge in above
            if 0 < (bridge.generation_maximum or 0) < (gpu_generation or 0)
        )

    @property
    def places(self) -> tuple[str, ...]:
        """PCI addresses of both ends, then of other narrowed bridges."""
        if (placement := self.placement) is None:
            return ()
        gpu_places = (placement.pci_bus_id,) if placement.pci_bus_id else ()
        ends = tuple(bridge.pci_bus_id for bridge in placement.bridges[:1])
        return (*gpu_places, *ends, *(bridge.pci_bus_id for bridge in self.narrowed))

    def evidence(self) -> dict[str, object]:
        """Figures for the finding."""
        evidence: dict[str, object] = {
            "generation": self.generation,
            "width": self.width,
            "generation_maximum": self.generation_maximum,
            "width_maximum": self.width_maximum,
            "lost_bandwidth_ratio": round(self.lost_ratio, 4),
        }
        if self.placement is not None:
            evidence["gpu_generation_maximum"] = self.placement.generation_maximum
            evidence["narrow_bridges"] = [bridge.pci_bus_id for bridge in self.narrowed]
            evidence["limiting_bridges"] = [bridge.pci_bus_id for bridge in self.limiting]
        return evidence

    def __str__(self) -> str:
        """Display text: `x8 instead of x16, at generation 3 instead of 5`."""
        now = self.generation
        maximum = self.generation_maximum
        parts = [f"x{self.width} instead of x{self.width_maximum}"] if self.is_narrow else []
        parts += [f"generation {now} instead of {maximum}"] if now < maximum else []
        text = ", ".join(parts) or f"x{self.width} at generation {now} at the last reading"
        if self.narrowed:
            text += f"; narrow at bridge {self.narrowed[0].pci_bus_id}"
        if self.limiting:
            bridge = self.limiting[0].pci_bus_id
            allowed = self.limiting[0].generation_maximum
            text += f"; bridge {bridge} allows generation {allowed} at most, which is no fault"
        return text


def link_state(case: Case, device: Device) -> LinkState | None:
    """Link of a device's GPU; `None` unless its state and limits are known."""
    if (status := board_status_of(case, device)) is None:
        return None
    ends = (
        status.reading.get(Signal.PCIE_LINK_GENERATION),
        status.reading.get(Signal.PCIE_LINK_WIDTH),
        status.device.stated("pcie_generation_maximum"),
        status.device.stated("pcie_width_maximum"),
    )
    numbers = [int(end) for end in ends if end is not None]
    if len(numbers) < len(ends):
        return None
    return LinkState(numbers[0], numbers[1], numbers[2], numbers[3], placement_of(case, device))


class PcieLinkDegradedSettings(RuleSettings, frozen=True):
    """Thresholds for degraded PCIe links.

    Attributes:
        on_ratio: Share of active time with the link below what board and slot support.
            Source: assumed; a link is good or bad, and half rules out one that only trains up late
        minimum_active_seconds: Active time within the span required to judge the link.
            Source: docs/definitions.md, conditions: a generation is believed after a minute
    """

    minimum_active_seconds: Annotated[float, Spec(within=(1, None)), CONSTANT] = 60.0
    conduct: OpeningPolicy = OpeningPolicy()


_UNKNOWN_LINK: Final = "the PCIe link, or what board and slot allow, is not known"


def judge(subject: CaseSubject, settings: PcieLinkDegradedSettings) -> Finding:
    """Whether a GPU of the workload runs on a slower PCIe link than it supports."""
    case = subject.case
    link_states = {device.uuid: link_state(case, device) for device in case.devices}
    if not (links := {uuid: link for uuid, link in link_states.items() if link is not None}):
        return subject.abstain(_UNKNOWN_LINK)
    if _is_unused(case):
        return subject.find_nothing(f"{subject.name}: no process works on it.")
    least = settings.minimum_active_seconds
    active = max((seconds(window.active) for window in case.windows), default=0.0)
    is_less = any(link.lost_ratio > 0.0 for link in links.values())
    if case.workload is not None and active < least and is_less:
        why = "it hardly worked, and at rest links train down to save power"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    seen = observe(
        subject,
        settings,
        lambda window: _share(window, links.get(window.uuid), least),
        "PCIe link below what board and slot allow",
        why_unsupported="without telemetry, when the GPU is at work is unknown",
        evidence_name="degraded_at_work_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    # The share refers to the time at work, not to the window.
    start, _, _ = seen.summary.partition(" of the last ")
    seen = replace(seen, summary=f"{start} of the time at work")
    links = {device.uuid: links[device.uuid] for device in seen.devices}
    return seen.find_problem(
        f": {'; '.join(dict.fromkeys(map(str, links.values())))}",
        reasons=(Reason.PCIE_LINK_DEGRADED,),
        action=Action.RESEAT_OR_DRAIN,
        risk=Risk.LOW,
        evidence={"links": {uuid: link.evidence() for uuid, link in links.items()}},
        culprits=tuple(links),
        savings="a whole link saves time, not GPUs",
        instructions=_instructions(case, seen.devices, tuple(links.values())),
        # Lost time scales with the lost share of the link.
        affected_gpus=max(seen.shares.values())
        * sum(links[device.uuid].lost_ratio * device.capacity_ratio for device in seen.devices),
        shared_by=dict.fromkeys(links, (SharedPart.PCIE, SharedPart.NODE)),
    )


def _is_unused(case: Case) -> bool:
    """Whether a GPU without a workload is known to have no process either."""
    if case.workload is not None or case.node is None:
        return False
    readings = [case.node.readings.get(device.uuid) for device in case.devices]
    return all(reading is not None and reading.processes == () for reading in readings)


def _share(window: Window, link: LinkState | None, minimum_active_seconds: float) -> float:
    """Lower bound of the degraded share of the time at work; 0 if it hardly worked.

    A slow link is counted only at work; a narrow one also at rest, which is subtracted.
    """
    if link is None or seconds(window.active) < minimum_active_seconds:
        return 0.0
    degraded = window.conditions.get(Condition.PCIE_LINK_DEGRADED, 0)
    if link.is_narrow:
        degraded -= sum(window.states.get(state, 0) for state in IDLE_STATES)
    return min(1.0, max(0, degraded) / window.active)


def _instructions(
    case: Case, devices: Sequence[Device], links: Sequence[LinkState]
) -> tuple[Instruction, ...]:
    ids = dict.fromkeys(nvidia_smi_id(device.board_uuid) for device in devices)
    fields = "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
    ask = [f"nvidia-smi -i {identifier} --query-gpu={fields} --format=csv" for identifier in ids]
    places = dict.fromkeys(place for link in links for place in link.places)
    ask += [f"sudo lspci -vv -s {place} | grep -E 'LnkCap:|LnkSta:'" for place in places]
    return (
        *shell("Check the link again under load", "\n".join(ask)),
        *drain_instructions(case, f"PCIe link of {names_of(devices)} is degraded"),
        instruction("check_slot"),
    )


def screen(table: SubjectTable, _: PcieLinkDegradedSettings) -> Screen:
    """Settle of which subjects the link is not known."""
    is_read = table.reads(Signal.PCIE_LINK_GENERATION) & table.reads(Signal.PCIE_LINK_WIDTH)
    yield unmeasured(~is_read, _UNKNOWN_LINK)


RULE: Final = Rule("pcie_link_degraded", PcieLinkDegradedSettings(), judge, screen)

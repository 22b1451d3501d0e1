"""Rule: GPUs that alternate between work and pause at a steady pace, starved by their input."""

from typing import Annotated, Final

from rightsizer.advice.instructions import dump_stacks, instructions
from rightsizer.advice.observation import observe, observed_seconds
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.screen import Screen, SubjectTable, left, too_little, unmeasured
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Case,
    Device,
    Finding,
    Observation,
    Reason,
    Spec,
    Tier,
    Window,
    WorkloadClass,
    format_duration,
    percent_text,
)


class PeriodicStarvationSettings(RuleSettings, frozen=True):
    """Thresholds for periodic pauses.

    Attributes:
        on_ratio: Share of known time in periodic cycles of work and pause.
            Source: as for the other limits: over half of the time
        busy_ratio: Busy share of a cycle from which its pauses are ignored.
            Source: docs/definitions.md, states: above it nothing waits for the host
    """

    busy_ratio: Annotated[float, Spec(within=(0, 1)), CONSTANT] = 0.7
    conduct: OpeningPolicy = OpeningPolicy.slow()


_UNSEEN: Final = (
    "the load from second to second is not observed: that takes rightsizer_gpu_busy_ratio, which "
    "the agent reads each second, or a recording that has utilization at least every 2 s"
)


def judge(subject: CaseSubject, settings: PeriodicStarvationSettings) -> Finding:
    """Whether a GPU of the workload pauses periodically, how often, and for how long."""
    case = subject.case
    seen = observe(
        subject,
        settings,
        lambda window: _starved_share(window, settings.busy_ratio),
        "fed too little",
        evidence_name="cycles_ratio",
        why_unsupported=_UNSEEN,
        observation=Observation.LOAD_CYCLES,
        absent="cycles of work and pause at a steady pace for {share} of the {time}",
    )
    if isinstance(seen, Finding):
        return seen
    paces = {window.uuid: _pace(window) for window in case.windows if window.cycles}
    evidence = {
        "period_seconds": {uuid: round(period, 3) for uuid, (period, _) in paces.items()},
        "busy_ratio": {uuid: round(busy, 4) for uuid, (_, busy) in paces.items()},
    }
    period, busy = paces[max(seen.devices, key=lambda device: seen.shares[device.uuid]).uuid]
    length = f"{period:.2g} s" if period < 10 else format_duration(period)  # noqa: PLR2004
    pace = f", busy {percent_text(busy)} of each {length}"
    if case.workload_class is WorkloadClass.SERVING:
        return seen.find_nothing(f"{pace}; a service works as its requests come", evidence)
    return seen.find_problem(
        pace,
        reasons=(Reason.PERIODIC_STARVATION,),
        action=Action.FIX_INPUT_PIPELINE,
        evidence=evidence,
        savings=release_savings(
            case, subject.market, 0.0, _lost_gpus(case, seen.devices) / case.gpus
        ),
        instructions=(
            dump_stacks(seen.devices, "Check what the process waits for between two bursts"),
            *instructions("read_ahead"),
        ),
        affected_gpus=_lost_gpus(case, seen.devices),
    )


def _starved_share(window: Window, busy_ratio: float) -> float:
    if not window.cycles or _pace(window)[1] > busy_ratio:
        return 0.0
    judged_seconds = observed_seconds(window, Observation.LOAD_CYCLES)
    return min(1.0, window.cycle_seconds / max(judged_seconds, window.cycle_seconds))


def _pace(window: Window) -> tuple[float, float]:
    """Mean cycle length in seconds, and its busy share."""
    return window.cycle_seconds / window.cycles, window.cycle_busy_seconds / window.cycle_seconds


def _lost_gpus(case: Case, devices: tuple[Device, ...]) -> float:
    uuids = {device.uuid for device in devices}
    return sum(
        device.capacity_ratio
        * min(1.0, (window.cycle_seconds - window.cycle_busy_seconds) / window.known_seconds)
        for window, device in zip(case.windows, case.devices, strict=True)
        if window.uuid in uuids
    )


def screen(table: SubjectTable, settings: PeriodicStarvationSettings) -> Screen:
    """Settle of which subjects the load of each second is not known."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    yield left(~table.is_read_on(frozenset(Tier) - {Tier.NONE}))
    observed = table.observed_seconds(Observation.LOAD_CYCLES)
    yield unmeasured(observed < settings.minimum_known_seconds, _UNSEEN)


RULE: Final = Rule("periodic_starvation", PeriodicStarvationSettings(), judge, screen)

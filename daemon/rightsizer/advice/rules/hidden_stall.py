"""Rule: GPUs that spin: busy according to NVML, but drawing little power and computing nothing.

Ranks waiting in a collective look 100 % busy; the GPU that does not spin is the one they wait for
(NVIDIA/nccl#968; docs/definitions.md, sources).
"""

from typing import Annotated, Final

from msgspec.structs import replace

from rightsizer.advice.instructions import instructions
from rightsizer.advice.observation import (
    WITH_POWER,
    hypotheses,
    lost_gpus,
    observe,
    saved_at_most,
    screen_observed,
)
from rightsizer.advice.rules.rank_imbalance import follow_up, is_awaited, straggler_group
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import CONSTANT, Action, Case, Finding, Reason, Signal, Spec, State

_LOOKS_ALIKE: Final = "without power or profiling a spinning GPU looks like a working one"
_TRAFFIC: Final = {Signal.MEMORY_CONTROLLER_BUSY, Signal.DRAM_ACTIVE, Signal.SM_ACTIVE}


class HiddenStallSettings(RuleSettings, frozen=True):
    """Thresholds for spinning GPUs.

    Attributes:
        on_ratio: Share of the span that a GPU must spin.
            Source: docs/definitions.md, conduct
        unseen_traffic_ratio: Confidence when neither memory traffic nor SM activity is known.
            Source: evaluation/RESULTS.md, stalls and culprits of logs: below the share of
            right ones
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.3
    unseen_traffic_ratio: Annotated[float, Spec(within=(0.01, 1)), CONSTANT] = 0.85
    conduct: OpeningPolicy = OpeningPolicy()


def judge(subject: CaseSubject, settings: HiddenStallSettings) -> Finding:
    """Whether a GPU of the workload spins, and which GPU the others wait for."""
    case = subject.case
    seen = observe(
        subject,
        settings,
        lambda window: window.share(State.HIDDEN_STALL),
        "busy without working",
        tiers=WITH_POWER,
        why_unsupported=_LOOKS_ALIKE,
        evidence_name="stalled_ratio",
        absent="stalled for {share} of the time",
    )
    if isinstance(seen, Finding):
        return seen
    seen = seen.attributed(State.HIDDEN_STALL)
    waited_for = [
        device
        for device in case.devices
        if device not in seen.devices and is_awaited(device.uuid, seen.shares)
    ]
    ending = ""
    if not _sees_kernels(case):
        factors = {**seen.factors, "traffic": settings.unseen_traffic_ratio}
        seen = replace(seen, factors=factors)
        ending = ", or with small kernels, which look alike where memory traffic is not read"
        if len(seen.devices) == 1:
            waited_for = []  # A single GPU may launch small kernels, and wait for no other.
    of_peers = "stall_without_peer" if case.workload else "stall_with_unknown_peers"
    alone = (of_peers,) if len(case.devices) == 1 else ()
    finding = seen.find_problem(
        f"{ending}; they wait for {names_of(waited_for)}" if waited_for else ending,
        reasons=(Reason.HIDDEN_STALL,),
        action=Action.INVESTIGATE_STRAGGLER,
        evidence={"hypotheses": hypotheses(case)},
        culprits=tuple(device.uuid for device in waited_for),
        # The cost of the stall is known, but not how much of it a fix recovers.
        savings=saved_at_most(case, subject.market, State.HIDDEN_STALL),
        instructions=(*instructions(*alone), *follow_up(case, waited_for)),
        affected_gpus=lost_gpus(case, State.HIDDEN_STALL),
    )
    return replace(finding, exclusive_group=straggler_group(case)) if waited_for else finding


def _sees_kernels(case: Case) -> bool:
    """Whether signals that distinguish small kernels from spinning were read, if readings exist."""
    readings = case.node.readings if case.node else {}
    known_values = [
        readings[device.uuid].values for device in case.devices if device.uuid in readings
    ]
    of_power = [values for values in known_values if Signal.POWER_WATTS in values]
    return not of_power or not all(_TRAFFIC.isdisjoint(values) for values in of_power)


def screen(table: SubjectTable, settings: HiddenStallSettings) -> Screen:
    """Settle which subjects do not spin."""
    yield from screen_observed(
        table,
        settings,
        table.share(State.HIDDEN_STALL),
        tiers=WITH_POWER,
        why_unsupported=_LOOKS_ALIKE,
    )


RULE: Final = Rule("hidden_stall", HiddenStallSettings(), judge, screen)

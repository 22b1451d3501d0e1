"""Rule: serving limited by streaming its weights; a larger batch would cost no more traffic.

Applies only to services: a batch job at that limit is well used.
"""

from collections.abc import Iterable
from typing import Annotated, Final

from msgspec.structs import replace

from rightsizer.advice.instructions import instructions
from rightsizer.advice.observation import observe, screen_observed
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import TOO_SMALL
from rightsizer.advice.screen import ROUNDING, Screen, SubjectTable, left, too_little
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    FindingKind,
    Reason,
    Resource,
    Risk,
    Savings,
    State,
    Tier,
    Window,
    WorkloadClass,
)

_MEASURED: Final = frozenset({Tier.PROFILING})
_SUSPECTED: Final = frozenset({Tier.PROFILING, Tier.POWER, Tier.BASIC})
_UNMEASURED: Final = "without profiling, memory traffic is not measured"
_NOTHING_FREED: Final = Savings(reason="the same GPUs serve more")


class MemoryBandwidthBoundSettings(RuleSettings, frozen=True):
    """Thresholds for memory bandwidth limits.

    Attributes:
        on_ratio: Share of the span, idle time included, limited by memory traffic.
            Source: docs/definitions.md, conduct: as for the other limits
        compute_ratio: Median compute utilization above which a larger batch does not help.
            Source: docs/definitions.md, states: a pipe at .5 is a limit of its own
        pressed_ratio: Share of the span with users waiting from which the service is
            under-provisioned.
            Source: docs/definitions.md, provisioning
        controller_ratio: Confidence where only the memory controller's utilization says so.
            Source: evaluation/RESULTS.md, memory limits of logs: right for seven of seven
            programs that were left out, by the rule of succession
    """

    compute_ratio: Annotated[float, CONSTANT] = 0.5
    pressed_ratio: Annotated[float, CONSTANT] = 0.05
    controller_ratio: Annotated[float, CONSTANT] = 0.89
    conduct: OpeningPolicy = OpeningPolicy.slow()


def judge(subject: CaseSubject, settings: MemoryBandwidthBoundSettings) -> Finding:
    """Whether a service is bound by memory bandwidth with compute to spare."""
    case = subject.case
    is_measured = any(window.tier is Tier.PROFILING for window in case.windows)
    # The memory controller suggests a limit; that there is none, it cannot tell.
    is_suspected = not is_measured and max(map(_limited_share, case.windows)) >= settings.on_ratio
    seen = observe(
        subject,
        settings,
        _limited_share,
        "probably bound by memory traffic" if is_suspected else "bound by memory traffic",
        tiers=_SUSPECTED if is_suspected else _MEASURED,
        why_unsupported=_UNMEASURED,
    )
    if isinstance(seen, Finding):
        return seen
    if is_suspected:
        tier = max(case.windows, key=_limited_share).tier
        summary = f"{seen.summary} by the memory controller's utilization alone ({tier} tier)"
        factors = {**seen.factors, "memory_controller": settings.controller_ratio}
        seen = replace(seen, summary=summary, factors=factors)
    # Lower bound of the used compute, on the device with the highest.
    medians = (window.compute_at_least.quantile(0.5) for window in case.windows)
    compute = max((median for median in medians if median is not None), default=None)
    pressed = _pressed_share(case.windows, Resource.MEMORY_BANDWIDTH)
    evidence = {"compute_median_ratio": compute, "pressed_ratio": pressed}
    if case.workload_class is WorkloadClass.BATCH:
        return seen.find_nothing(": a job at a limit of its GPU is well used", evidence)
    if case.workload_class is not WorkloadClass.SERVING:
        return seen.find_nothing(": no service is known", evidence)
    if compute is not None and compute > settings.compute_ratio:
        return seen.find_nothing(": a larger batch would find no compute", evidence)
    full = _pressed_share(case.windows, Resource.MEMORY)
    if full >= settings.pressed_ratio:
        return seen.find_problem(
            ": users wait for its full cache, so a larger batch has no room",
            kind=FindingKind.UNDERPROVISIONED,
            reasons=(Reason.MEMORY_BANDWIDTH_BOUND,),
            action=Action.CHANGE_GPU_TYPE,
            risk=Risk.LOW,
            evidence=evidence | {"cache_full_ratio": full},
            savings=TOO_SMALL,
            instructions=instructions("shrink_weights"),
        )
    is_short = pressed >= settings.pressed_ratio
    pressure = "users wait, and " if is_short else ""
    return seen.find_problem(
        f": {pressure}a larger batch would serve more for the same traffic",
        kind=FindingKind.UNDERPROVISIONED if is_short else FindingKind.INEFFICIENT,
        reasons=(Reason.MEMORY_BANDWIDTH_BOUND,),
        action=Action.RAISE_BATCH,
        risk=Risk.LOW,
        evidence=evidence,
        savings=_NOTHING_FREED,
        instructions=instructions("raise_batch", "shrink_weights", "merge_replicas"),
        # If no user waits, nothing is lost.
        affected_gpus=seen.gpus if is_short else 0.0,
    )


def _pressed_share(windows: Iterable[Window], resource: Resource) -> float:
    """Return the share of the known time with users waiting, on the device with the highest."""
    waits = ((window.pressed.get(resource, 0), window.known) for window in windows)
    return max(
        (round(time / known_time, 4) for time, known_time in waits if known_time), default=0.0
    )


def _limited_share(window: Window) -> float:
    if window.tier is Tier.PROFILING:
        return window.share(State.MEMORY_BANDWIDTH_BOUND)
    suspected = window.second_causes.get(State.MEMORY_BANDWIDTH_BOUND, 0)
    return suspected / window.known if window.known else 0.0


def screen(table: SubjectTable, settings: MemoryBandwidthBoundSettings) -> Screen:
    """Settle which subjects are not bound by memory traffic."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    suspected = table.second_cause_share(State.MEMORY_BANDWIDTH_BOUND)
    yield left(~table.is_read_on(_MEASURED) & (suspected >= settings.on_ratio - ROUNDING))
    yield from screen_observed(
        table,
        settings,
        table.share(State.MEMORY_BANDWIDTH_BOUND),
        tiers=_MEASURED,
        why_unsupported=_UNMEASURED,
    )


RULE: Final = Rule("memory_bandwidth_bound", MemoryBandwidthBoundSettings(), judge, screen)

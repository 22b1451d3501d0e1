"""Rule: serving limited by streaming its weights; a larger batch would cost no more traffic.

Applies only to services: a batch job at that limit is well used.
"""

from typing import Annotated, Final

from rightsizer.advice.instructions import instructions
from rightsizer.advice.observation import observe
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.finding import Action, Finding, FindingKind, Reason, Risk, Savings
from rightsizer.model.settings import CONSTANT
from rightsizer.model.state import Resource, State, Tier
from rightsizer.model.workload import WorkloadClass

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
    """

    compute_ratio: Annotated[float, CONSTANT] = 0.5
    pressed_ratio: Annotated[float, CONSTANT] = 0.05
    conduct: OpeningPolicy = OpeningPolicy.slow()


def judge(subject: CaseSubject, settings: MemoryBandwidthBoundSettings) -> Finding:
    """Whether a service is bound by memory bandwidth with compute to spare."""
    case = subject.case
    seen = observe(
        subject,
        settings,
        lambda window: window.share(State.MEMORY_BANDWIDTH_BOUND),
        "bound by memory traffic",
        tiers=frozenset({Tier.PROFILING}),
        why_unsupported="without profiling, memory traffic is not measured",
    )
    if isinstance(seen, Finding):
        return seen
    # Lower bound of the used compute, on the device with the highest.
    medians = (window.compute_at_least.quantile(0.5) for window in case.windows)
    compute = max((each for each in medians if each is not None), default=None)
    # Share of the known time with users waiting, on the device with the highest.
    waits = ((w.pressed.get(Resource.MEMORY_BANDWIDTH, 0), w.known) for w in case.windows)
    pressed = max((round(time / known, 4) for time, known in waits if known), default=0.0)
    evidence = {"compute_median_ratio": compute, "pressed_ratio": pressed}
    if case.workload_class is WorkloadClass.BATCH:
        return seen.find_nothing(": a job at a limit of its GPU is well used", evidence)
    if case.workload_class is not WorkloadClass.SERVING:
        return seen.find_nothing(": no service is known", evidence)
    if compute is not None and compute > settings.compute_ratio:
        return seen.find_nothing(": a larger batch would find no compute", evidence)
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


RULE: Final = Rule("memory_bandwidth_bound", MemoryBandwidthBoundSettings(), judge)

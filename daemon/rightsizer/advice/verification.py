"""Did it pay off? A workload before and after, beside others to whom nothing was advised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.measurement import Measurement
from rightsizer.domain.finding import Action, Finding
from rightsizer.domain.settings import setting

__all__ = ["Baseline", "Outcome", "VerificationSettings", "baseline_of", "has_changed", "verify"]

_RELEASING: Final = frozenset(
    {Action.RELEASE, Action.SCALE_TO_ZERO, Action.REDUCE_GPU_COUNT, Action.REDUCE_REPLICAS}
)
_REPLACING: Final = frozenset(
    {Action.CHANGE_GPU_TYPE, Action.SHARE_MIG, Action.SHARE_MPS, Action.SHARE_TIMESLICE}
)
_MOVING: Final = frozenset({Action.MOVE_GPUS, Action.REBIND_NUMA, Action.RESEAT_OR_DRAIN})


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """When advice that somebody followed counts as a success."""

    span_seconds: float = setting(
        7 * 86400.0,
        help="Time that is compared before and after, at most.",
        unit="seconds",
        minimum=600,
        source="a week holds every day of it",
    )
    long_spans: float = setting(
        12.0,
        help="The same for rules that look at short spans, in spans of the rule.",
        minimum=1,
        maximum=1000,
        source="a day for what is seen within two hours",
    )
    least_savings_ratio: float = setting(
        0.5,
        help="Part of the lower estimate that must have been saved.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, conduct",
    )
    tolerated_harm_ratio: float = setting(
        0.1,
        help="How much worse a signal of harm may be, of what it was.",
        unit="ratio",
        minimum=0,
        source="docs/definitions.md, conduct",
    )
    noticeable_harm_ratio: float = setting(
        0.01,
        help="Share of time below which a rise of a signal of harm is no harm.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="a minute in a hundred",
    )

    def span_for(self, long_seconds: float) -> float:
        """The time to compare for a rule that looks at a span, in seconds."""
        return min(self.span_seconds, self.long_spans * long_seconds)


@dataclass(frozen=True, slots=True)
class Baseline:
    """How things were before anybody acted."""

    workload: Measurement
    peers: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Waste ratios of others of the same class, by key."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    has_succeeded: bool
    why: str
    saved_gpus: float
    """GPUs' worth of time, less what would have been saved anyhow."""
    saved_watts: float | None
    has_harmed: bool = False


def baseline_of(
    key: str, measured: Mapping[str, Measurement], followed: frozenset[str] = frozenset()
) -> Baseline | None:
    """How a workload and its peers stand; `None` where nothing is known of it.

    Args:
        key: The workload's.
        measured: All workloads of the node.
        followed: Keys of those who are following advice themselves.
    """
    own = measured.get(key)
    if own is None:
        return None
    peers = {
        other: each.waste_ratio
        for other, each in sorted(measured.items())
        if other != key and other not in followed and each.workload_class == own.workload_class
    }
    return Baseline(own, peers)


def has_changed(finding: Finding, before: Measurement, now: Measurement | None) -> bool:
    """Whether the thing that is advised has come about, whoever did it.

    A bottleneck that is gone is what was asked for. Idle GPUs that are used again are not: the
    advice was to let go of them. A workload that left may just have ended.
    """
    if now is None:
        return False
    if finding.action in _RELEASING:
        return now.gpus < before.gpus
    if finding.action in _REPLACING:
        return now.boards != before.boards
    if finding.action in _MOVING and finding.action is not Action.REBIND_NUMA:
        return now.devices != before.devices
    return True


def verify(  # noqa: PLR0913 - before, after, and what was to come of it.
    finding: Finding,
    before: Baseline,
    measured: Mapping[str, Measurement],
    key: str,
    *,
    is_quiet: bool,
    settings: VerificationSettings,
) -> Outcome | None:
    """Before against after; `None` where the workload left and that was not what was advised.

    Args:
        finding: What was advised.
        before: The workload before.
        measured: All workloads of the node, after.
        key: The workload's.
        is_quiet: Whether the rule has ceased to complain.
        settings: What counts as success.
    """
    after = measured.get(key)
    if after is None:
        if finding.action not in _RELEASING:
            return None
        after = Measurement(gpus=0.0, waste_ratio=0.0, watts=0.0)
    saved = _saved_gpus(before, after, measured)
    harm = _harm(before.workload.harms, after.harms, settings)
    watts = before.workload.watts
    saved_watts = None if watts is None or after.watts is None else watts - after.watts
    least = settings.least_savings_ratio * (finding.savings.gpus_low or 0.0)
    has_saved = saved >= least and saved > 0.0
    figures = f"{before.workload.wasted_gpus:.2f} GPUs wasted before, {after.wasted_gpus:.2f} after"
    if harm is not None:
        return Outcome(
            has_succeeded=False,
            why=f"{harm}; {figures}",
            saved_gpus=saved,
            saved_watts=saved_watts,
            has_harmed=True,
        )
    why = figures
    if not (has_saved or is_quiet):
        why = f"saved {saved:.2f} GPUs where at least {least:.2f} were to be saved; {figures}"
    return Outcome(
        has_succeeded=has_saved or is_quiet, why=why, saved_gpus=saved, saved_watts=saved_watts
    )


def _saved_gpus(before: Baseline, after: Measurement, measured: Mapping[str, Measurement]) -> float:
    """The difference in differences: what changed for everybody is nobody's merit."""
    changes = [
        measured[peer].waste_ratio - ratio
        for peer, ratio in before.peers.items()
        if peer in measured
    ]
    drift = sum(changes) / len(changes) if changes else 0.0
    without = min(1.0, max(0.0, before.workload.waste_ratio + drift))
    return before.workload.gpus * without - after.wasted_gpus


def _harm(
    before: Mapping[str, float], after: Mapping[str, float], settings: VerificationSettings
) -> str | None:
    """The signal of harm that rose most, where one did."""
    rises = {
        name: ratio - before.get(name, 0.0)
        for name, ratio in after.items()
        if ratio > before.get(name, 0.0) * (1.0 + settings.tolerated_harm_ratio)
        and ratio - before.get(name, 0.0) >= settings.noticeable_harm_ratio
    }
    if not rises:
        return None
    name = max(sorted(rises), key=lambda each: rises[each])
    words = name.replace("_", " ")
    return f"{words} {before.get(name, 0.0):.1%} of the time before, {after[name]:.1%} after"

"""Frame of the rules of bottlenecks: what limits a workload while it is at work."""

from typing import Any, Protocol

from rightsizer.advice.attribution import (
    hypotheses,
    lost_gpus,
    lost_share,
    saved_at_most,
    strongest,
)
from rightsizer.advice.observation import TimeShare, minimum_known, observe, on_ratio
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.finding import Finding, Reason
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.state import State, Tier
from rightsizer.model.units import Nanoseconds, format_duration, seconds
from rightsizer.model.window import Window


def slow_opening_policy() -> OpeningPolicy:
    """That of limits which come and go with the phases of a job: six hours and half an hour."""
    return OpeningPolicy(
        long_seconds=6 * 3600.0,
        short_seconds=1800.0,
        minimum_known_seconds=3600.0,
        close_after_seconds=7200.0,
    )


def minimum_active() -> Any:
    """The setting of the active time that a rule abstains under."""
    return setting(
        600.0,
        help="Active time of a GPU under which the rule says nothing of it.",
        unit="seconds",
        within=(0, None),
        source="docs/definitions.md, provisioning; jobs below ten minutes are start-up",
    )


def lost_ratio() -> Any:
    """The setting of what must be lost to a limit."""
    return setting(
        0.1,
        help="Part of all time that must be lost to it, idle time included.",
        unit="ratio",
        within=(0, 1),
        source="a tenth of a GPU is less than the work of mending it is worth",
    )


class BottleneckThresholds(RuleSettings, Protocol):
    """What the settings of all these rules have."""

    @property
    def minimum_active_seconds(self) -> float:
        """Active time under which it does."""

    @property
    def lost_ratio(self) -> float:
        """Part of all time that must be lost."""


@dataclass(frozen=True, slots=True)
class BottleneckSettings:
    """From when on a limit is a finding."""

    on_ratio: float = on_ratio(
        0.5,
        "Share of the active time for which it must limit a GPU.",
        "SageMaker Debugger's CPUBottleneck and IOBottleneck: over half of the time",
    )
    minimum_known_seconds: float = minimum_known()
    minimum_active_seconds: float = minimum_active()
    lost_ratio: float = lost_ratio()
    conduct: OpeningPolicy = field(default_factory=slow_opening_policy)


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """One of the limits, and how it is named."""

    state: State
    reason: Reason
    what: str
    """What was seen, for a person: `bound by launches`."""
    tiers: frozenset[Tier] = frozenset({Tier.PROFILING, Tier.POWER, Tier.BASIC})
    why_unsupported: str = ""


def active_share(window: Window, time: Nanoseconds, minimum_active_seconds: float) -> float:
    """A time's part of the active time; 0 where that is too short to speak of."""
    if seconds(window.active) < minimum_active_seconds or window.active <= 0:
        return 0.0
    return min(1.0, time / window.active)


def abstain_inactive(
    found: Finding, subject: CaseSubject, minimum_active_seconds: float
) -> Finding:
    """What was found, unless no device was at work for long enough to tell."""
    longest = max((seconds(window.active) for window in subject.case.windows), default=0.0)
    if found.abstained is not None or longest >= minimum_active_seconds:
        return found
    why = f"only {format_duration(longest)} of activity"
    return subject.abstain(why, Reason.INSUFFICIENT_DATA)


def find_bottleneck(
    bottleneck: Bottleneck, subject: CaseSubject, settings: BottleneckThresholds
) -> TimeShare | Finding:
    """What limited the workload, or the finding that nothing of this kind did."""
    case, state = subject.case, bottleneck.state
    seen = observe(
        subject,
        settings,
        lambda window: active_share(
            window, window.states.get(state, 0), settings.minimum_active_seconds
        ),
        bottleneck.what,
        tiers=bottleneck.tiers,
        why_unsupported=bottleneck.why_unsupported,
        evidence_name="active_share_ratio",
        is_of_active_time=True,
    )
    if isinstance(seen, Finding):
        return abstain_inactive(seen, subject, settings.minimum_active_seconds)
    lost = {window.uuid: lost_share(window, state) for window in case.windows}
    seen.evidence["lost_ratio"] = {uuid: round(each, 4) for uuid, each in lost.items()}
    seen.evidence["hypotheses"] = hypotheses(case)
    best = strongest(case)
    if best not in (None, state):
        return seen.find_nothing(f"; more is lost to {str(best).replace('_', ' ')}")
    most = max(lost[device.uuid] for device in seen.devices)
    if most < settings.lost_ratio:
        where = names_of(seen.devices)
        return seen.find_nothing(
            f"; that costs {most:.0%} of all time on {where}, too little to matter"
        )
    return seen


def complain_of(
    bottleneck: Bottleneck,
    seen: TimeShare,
    ending: str,
    *,
    reasons: tuple[Reason, ...] = (),
    **parts: Any,
) -> Finding:
    """The complaint that a limit costs the workload time; arguments as `TimeShare` has them."""
    case, market = seen.subject.case, seen.subject.market
    return seen.complain(
        ending,
        reasons=(bottleneck.reason, *reasons),
        savings=saved_at_most(case, market, bottleneck.state),
        affected_gpus=lost_gpus(case, bottleneck.state),
        **parts,
    )

"""Frame of the rules of bottlenecks: what limits a workload while it is at work."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from rightsizer.advice.attribution import (
    hypotheses,
    lost_gpus,
    lost_share,
    saved_at_most,
    strongest,
)
from rightsizer.advice.market import Market
from rightsizer.advice.observation import TimeShare, minimum_known, observe, on_ratio
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.advice.verdict import abstain, complain, find_nothing, names_of
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Instruction, Reason, Risk
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.state import State, Tier
from rightsizer.model.units import Nanoseconds, format_duration, seconds
from rightsizer.model.window import Window

_NOTHING_MORE: Final[Mapping[str, Any]] = MappingProxyType({})


def slow_opening_policy() -> OpeningPolicy:
    """That of limits which come and go with the phases of a job: six hours and half an hour."""
    return OpeningPolicy(
        long_seconds=6 * 3600.0,
        short_seconds=1800.0,
        minimum_known_seconds=3600.0,
        close_after_seconds=7200.0,
    )


def minimum_active() -> float:
    """The setting of the active time that a rule abstains under."""
    result: float = setting(
        600.0,
        help="Active time of a GPU under which the rule says nothing of it.",
        unit="seconds",
        within=(0, None),
        source="docs/definitions.md, provisioning; jobs below ten minutes are start-up",
    )
    return result


def lost_ratio() -> float:
    """The setting of what must be lost to a limit."""
    result: float = setting(
        0.1,
        help="Part of all time that must be lost to it, idle time included.",
        unit="ratio",
        within=(0, 1),
        source="a tenth of a GPU is less than the work of mending it is worth",
    )
    return result


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

    name: str
    """The rule's."""
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


def abstain_inactive(found: Finding, case: Case, minimum_active_seconds: float) -> Finding:
    """What was found, unless no device was at work for long enough to tell."""
    longest = max((seconds(window.active) for window in case.windows), default=0.0)
    if found.abstained is not None or longest >= minimum_active_seconds:
        return found
    why = f"only {format_duration(longest)} of activity"
    return abstain(found.rule, case, Reason.INSUFFICIENT_DATA, why)


def find_bottleneck(
    bottleneck: Bottleneck, case: Case, settings: BottleneckThresholds
) -> TimeShare | Finding:
    """What limited the workload, or the finding that nothing of this kind did."""
    active = {window.uuid: seconds(window.active) for window in case.windows}

    seen = observe(
        bottleneck.name,
        case,
        settings,
        {
            window.uuid: active_share(
                window, window.states.get(bottleneck.state, 0), settings.minimum_active_seconds
            )
            for window in case.windows
        },
        bottleneck.what,
        tiers=bottleneck.tiers,
        why_unsupported=bottleneck.why_unsupported,
        evidence_name="active_share_ratio",
        active_seconds=active,
    )
    if isinstance(seen, Finding):
        return abstain_inactive(seen, case, settings.minimum_active_seconds)
    lost = {each.uuid: round(lost_share(each, bottleneck.state), 4) for each in case.windows}
    seen.evidence.update(lost_ratio=lost, hypotheses=hypotheses(case))
    why_not = _why_not(bottleneck, case, seen.devices, settings)
    if why_not:
        summary = f"{seen.summary}; {why_not}."
        return find_nothing(bottleneck.name, case, summary, seen.factors, seen.evidence)
    return seen


def complain_of(  # noqa: PLR0913 - what differs between the limits.
    bottleneck: Bottleneck,
    case: Case,
    seen: TimeShare,
    market: Market,
    *,
    action: Action,
    summary: str,
    instructions: tuple[Instruction, ...],
    reasons: tuple[Reason, ...] = (),
    risk: Risk = Risk.VERY_LOW,
    evidence: Mapping[str, object] = _NOTHING_MORE,
) -> Finding:
    """The complaint that a limit costs the workload time."""
    return complain(
        bottleneck.name,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(bottleneck.reason, *reasons),
        action=action,
        summary=summary,
        factors=seen.factors,
        risk=risk,
        evidence={**seen.evidence, **evidence},
        savings=saved_at_most(case, market, bottleneck.state),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=instructions,
        affected_gpus=lost_gpus(case, bottleneck.state),
    )


def _why_not(
    bottleneck: Bottleneck, case: Case, seen: tuple[Device, ...], settings: BottleneckThresholds
) -> str:
    """Why it is no complaint all the same; empty where it is one."""
    best = strongest(case)
    if best is not None and best is not bottleneck.state:
        return f"more is lost to {str(best).replace('_', ' ')}"
    uuids = {device.uuid for device in seen}
    lost = max(lost_share(w, bottleneck.state) for w in case.windows if w.uuid in uuids)
    if lost < settings.lost_ratio:
        return f"that costs {lost:.0%} of all time on {names_of(seen)}, too little to matter"
    return ""

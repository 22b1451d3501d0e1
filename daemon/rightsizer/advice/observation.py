"""Share of time in which something was observed, and whether it is enough.

The start of most rules.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from rightsizer.advice.confidence import probability_above
from rightsizer.advice.rules.rule import RuleSettings
from rightsizer.advice.verdict import (
    abstain,
    abstain_early,
    direct_factors,
    find_nothing,
    holder_of,
    known_seconds,
    names_of,
    opposite,
)
from rightsizer.model.block import BLOCK_SPAN
from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Finding, Reason
from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting
from rightsizer.model.state import Tier
from rightsizer.model.units import format_duration, seconds

_ANY_TIER: Final = frozenset({Tier.PROFILING, Tier.POWER, Tier.BASIC})
MINIMUM_KNOWN: Final = 60.0
"""Seconds: one learned idle draw."""


def on_ratio(default: float, what: str, source: str) -> float:
    """The setting that every rule of observed time has."""
    result: float = setting(default, help=what, unit="ratio", within=(0.001, 1), source=source)
    return result


def minimum_known(default: float = MINIMUM_KNOWN, source: str = "one learned idle draw") -> float:
    """The setting of the known time that a rule abstains under."""
    result: float = setting(
        default,
        help="Known time under which the rule abstains.",
        unit="seconds",
        within=(0, None),
        source=source,
    )
    return result


@dataclass(frozen=True, slots=True)
class TimeShare:
    """It was seen often enough on some device."""

    share: float
    """On the device that it was seen most of."""
    devices: tuple[Device, ...]
    """Those on which it was seen often enough."""
    factors: dict[str, float]
    evidence: dict[str, object]
    summary: str
    """`GPU 3 of llama: bound by launches 71% of the last 6 h`, without a period; of active time
    `71% of 5 h of activity`."""
    gpus: float
    """The time in which it was seen, in GPUs' worth."""


def observe(  # noqa: PLR0913 - what is looked for, and how it is named.
    rule: str,
    case: Case,
    settings: RuleSettings,
    shares: Mapping[str, float],
    what: str,
    *,
    tiers: AbstractSet[Tier] = _ANY_TIER,
    why_unsupported: str = "",
    evidence_name: str = "share_ratio",
    active_seconds: Mapping[str, float] | None = None,
    absent: str = "{what} {share:.0%} of the {time}",
) -> TimeShare | Finding:
    """What was seen, or the finding that it was not, or an abstention.

    Args:
        rule: Its name.
        case: What it judges.
        settings: The share from which on it is a finding.
        shares: Of the known time of each device in which it was seen, by uuid.
        what: What was seen: `bound by launches`.
        tiers: Those of which at least one device must have its telemetry for an answer.
        why_unsupported: The reason of the abstention where none has.
        evidence_name: Of the shares.
        active_seconds: Of each device, by uuid, where the shares are of its active time.
        absent: The summary where it was not seen.
    """
    too_little = abstain_early(rule, case, settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if not any(window.tier in tiers for window in case.windows):
        return abstain(rule, case, Reason.UNSUPPORTED_TELEMETRY, why_unsupported)
    share, active = max(shares.values()), None
    factors = direct_factors(case, share, settings.on_ratio)
    span = f"the last {format_duration(known_seconds(case))}"
    if active_seconds is not None:
        active = active_seconds[max(shares, key=lambda uuid: (shares[uuid], active_seconds[uuid]))]
        # What was seen in the active time alone is no surer for the idle time around it.
        blocks = max(1.0, active / seconds(BLOCK_SPAN))
        factors["certainty"] = probability_above(share, blocks, settings.on_ratio)
        span = f"{format_duration(active)} of activity"
    evidence: dict[str, object] = {
        evidence_name: {uuid: round(each, 4) for uuid, each in shares.items()},
        "threshold_ratio": settings.on_ratio,
    }
    if share < settings.on_ratio:
        time = "time" if active is None else "active time"
        text = absent.format(what=what, share=share, time=time)
        summary = f"{names_of(case.devices)}: {text}."
        return find_nothing(rule, case, summary, opposite(factors), evidence)
    seen = tuple(each for each in case.devices if shares[each.uuid] >= settings.on_ratio)
    return TimeShare(
        share=share,
        devices=seen,
        factors=factors,
        evidence=evidence,
        summary=f"{names_of(seen)}{holder_of(case)}: {what} {share:.0%} of {span}",
        gpus=sum(shares[each.uuid] * each.capacity_ratio for each in seen),
    )

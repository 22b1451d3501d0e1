"""Share of time in which something was observed, and whether it is enough.

The start of most rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.confidence import probability_above
from rightsizer.advice.verdict import (
    abstain,
    abstain_early,
    direct_factors,
    find_nothing,
    known_seconds,
    names_of,
    opposite,
)
from rightsizer.model.block import BLOCK_SPAN
from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Finding, Reason
from rightsizer.model.settings import setting
from rightsizer.model.state import Tier
from rightsizer.model.units import format_duration, seconds

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
class TimeShareQuery:
    """What a rule looks for."""

    shares: Mapping[str, float]
    """The share of the known time of each device in which it was seen, by uuid."""
    on_ratio: float
    """The share from which on it is a finding."""
    minimum_known_seconds: float
    what: str
    """What was seen, for a person: `bound by launches`."""
    tiers: frozenset[Tier] = frozenset({Tier.PROFILING, Tier.POWER, Tier.BASIC})
    """Those of which at least one device must have its telemetry for an answer."""
    why_unsupported: str = ""
    evidence_name: str = "share_ratio"
    active_seconds: Mapping[str, float] | None = None
    """Of each device, by uuid, where the shares are of its active time; `None` where they are
    of the known time."""


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


def observe(name: str, case: Case, question: TimeShareQuery) -> TimeShare | Finding:
    """What was seen, or the finding that it was not, or that nobody can tell."""
    too_little = abstain_early(name, case, question.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if not any(window.tier in question.tiers for window in case.windows):
        return abstain(name, case, Reason.UNSUPPORTED_TELEMETRY, question.why_unsupported)
    shares = question.shares
    share = max(shares.values())
    factors = _factors(case, question, share)
    evidence: dict[str, object] = {
        question.evidence_name: {uuid: round(each, 4) for uuid, each in shares.items()},
        "threshold_ratio": question.on_ratio,
    }
    if share < question.on_ratio:
        time = "time" if question.active_seconds is None else "active time"
        summary = f"{names_of(case.devices)}: {question.what} {share:.0%} of the {time}."
        return find_nothing(name, case, summary, opposite(factors), evidence)
    seen = tuple(each for each in case.devices if shares[each.uuid] >= question.on_ratio)
    holder = f" of {case.workload.name}" if case.workload else ""
    return TimeShare(
        share=share,
        devices=seen,
        factors=factors,
        evidence=evidence,
        summary=f"{names_of(seen)}{holder}: {question.what} {share:.0%} of {_span(case, question)}",
        gpus=sum(shares[each.uuid] * each.capacity_ratio for each in seen),
    )


def _seconds_of_most(question: TimeShareQuery) -> float | None:
    """The active time of the device that it was seen most of."""
    active, shares = question.active_seconds, question.shares
    if active is None:
        return None
    return active[max(shares, key=lambda uuid: (shares[uuid], active[uuid]))]


def _factors(case: Case, question: TimeShareQuery, share: float) -> dict[str, float]:
    factors = direct_factors(case, share, question.on_ratio)
    active = _seconds_of_most(question)
    if active is None:
        return factors
    # What was seen in the active time alone is no surer for the idle time around it.
    blocks = max(1.0, active / seconds(BLOCK_SPAN))
    return factors | {"certainty": probability_above(share, blocks, question.on_ratio)}


def _span(case: Case, question: TimeShareQuery) -> str:
    active = _seconds_of_most(question)
    if active is None:
        return f"the last {format_duration(known_seconds(case))}"
    return f"{format_duration(active)} of activity"

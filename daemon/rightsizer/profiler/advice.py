"""Judgements of profiles combined with those of telemetry: one recommendation per reason."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from rightsizer.advice.engine import without_conflicts
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy
from rightsizer.model.advice import Advice
from rightsizer.model.finding import Finding
from rightsizer.model.frozen import replace
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload
from rightsizer.profiler.taken_profile import TakenProfile

_PREFIX: Final = "profile_"
"""Before the name of the rule over telemetry that asks the same."""
_HOLDS: Final = OpeningPolicy(minimum_known_seconds=0.0, close_after_seconds=86400.0)
"""A night's rest, in which another rule holds it back, is no end of it."""
_OVER: Final = OpeningPolicy(minimum_known_seconds=0.0, close_after_seconds=0.0)
"""A newer profile leaves no doubt to wait for."""


def judgements_of(
    profiles: Iterable[TakenProfile],
    present: Mapping[str, Workload | None],
    advice: Sequence[Advice],
    since: Nanoseconds,
) -> tuple[Judgement, ...]:
    """What the latest profile of each workload says of it, where that still counts.

    A complaint is silent once advice for its reason has ended after the profile was made: what was
    settled since, an old profile does not open again. A newer one that could not judge leaves what
    an older one said. Workloads that are present are by key; profiles from before `since`, wall
    time, count no longer.
    """
    found: dict[tuple[str, str], tuple[TakenProfile, Finding]] = {}
    for profile in sorted(profiles, key=lambda each: (each.moment, each.taken)):
        if profile.key is not None and profile.key in present and profile.moment >= since:
            for finding in profile.findings:
                if finding.abstained is None:
                    found[profile.key, finding.rule] = profile, finding
    return tuple(
        _judged(finding, key, present[key])
        for (key, _), (profile, finding) in found.items()
        if not _is_settled(key, profile, finding, advice)
    )


def _judged(finding: Finding, key: str, workload: Workload | None) -> Judgement:
    is_complaint, policy = finding.is_complaint, _HOLDS if finding.is_complaint else _OVER
    may_open = is_complaint and finding.confidence >= policy.minimum_confidence_ratio
    return Judgement(
        finding, key, policy, may_open=may_open, still_holds=is_complaint, workload=workload
    )


def with_profiles(
    found: Sequence[Judgement],
    profiled: Sequence[Judgement],
    open_now: AbstractSet[tuple[str, str]],
) -> tuple[Judgement, ...]:
    """The rules' judgements with those of profiles among them, without contradictions.

    Of a workload's complaints with one reason, one may be advice: that which is open already, else
    that of telemetry; the other stands in its evidence.
    """
    judgements = list(found)
    for judgement in profiled:
        other, place = judgement, _place_of(judgement, judgements)
        if place is not None:
            judgements[place], other = _as_one(judgements[place], judgement, open_now)
        judgements.append(other)
    return without_conflicts(judgements)


def _is_settled(
    key: str, profile: TakenProfile, finding: Finding, advice: Sequence[Advice]
) -> bool:
    """Whether advice for the same reason on the same workload ended after the profile."""
    reasons = set(finding.reasons)
    return any(
        each.closed is not None
        and each.closed >= profile.moment
        and (each.finding.workload or key) == key
        and (each.finding.workload is not None or key in each.finding.devices)
        and reasons & set(each.finding.reasons)
        for each in advice
    )


def _place_of(judgement: Judgement, others: Sequence[Judgement]) -> int | None:
    """The judgement of telemetry that asks the same, or that complains for the same reason."""
    same, reasons = judgement.finding.rule.removeprefix(_PREFIX), set(judgement.finding.reasons)
    known = [
        (place, each.finding) for place, each in enumerate(others) if each.key == judgement.key
    ]
    alike = [place for place, each in known if each.is_complaint and reasons & set(each.reasons)]
    named = [place for place, each in known if each.rule == same]
    return next(iter((*alike, *named)), None)


def _as_one(
    telemetry: Judgement, profile: Judgement, open_now: AbstractSet[tuple[str, str]]
) -> tuple[Judgement, Judgement]:
    """Both, of which one at most may open or stay open."""
    if not profile.finding.is_complaint:
        return telemetry, profile
    is_open = (telemetry.key, telemetry.finding.rule) in open_now
    is_profile_open = (profile.key, profile.finding.rule) in open_now
    is_said = telemetry.finding.is_complaint and telemetry.may_open
    if is_open or (is_said and not is_profile_open):
        named = {"rule": profile.finding.rule, "summary": profile.finding.summary}
        combined = _beside(telemetry, "profile", {**named, **profile.finding.evidence})
        if telemetry.finding.is_complaint:
            # With what the profile names: its kernels, spans and copies.
            known = {each.title for each in combined.finding.instructions}
            more = (each for each in profile.finding.instructions if each.title not in known)
            instructions = (*combined.finding.instructions, *more)
            finding = replace(combined.finding, instructions=instructions)
            combined = replace(combined, finding=finding)
        return combined, profile.suppressed_by_conflict(_named(telemetry.finding))
    # Of the rule's own span, which goes on to now.
    of_telemetry = {
        "rule": telemetry.finding.rule,
        "finding": str(telemetry.finding.kind),
        "summary": telemetry.finding.summary,
        "confidence": telemetry.finding.confidence,
    }
    profile = _beside(profile, "telemetry", of_telemetry)
    if is_said:
        telemetry = telemetry.suppressed_by_conflict(_named(profile.finding))
    return telemetry, profile


def _beside(judgement: Judgement, name: str, evidence: Mapping[str, object]) -> Judgement:
    finding = judgement.finding
    if not finding.is_complaint:
        return judgement
    return replace(
        judgement, finding=replace(finding, evidence={**finding.evidence, name: evidence})
    )


def _named(finding: Finding) -> str:
    return f"found by {finding.rule} ({', '.join(finding.reasons)})"

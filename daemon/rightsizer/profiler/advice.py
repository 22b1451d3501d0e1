"""Judgements of profiles merged with those of telemetry: one recommendation per reason."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec.structs import replace

from rightsizer.advice.engine import without_conflicts
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy
from rightsizer.model.values import Advice, Finding, Nanoseconds, Workload
from rightsizer.profiler.taken_profile import TakenProfile

_PREFIX: Final = "profile_"
"""Prefix of the name of the corresponding rule over telemetry."""
_HOLDS: Final = OpeningPolicy(minimum_known_seconds=0.0, close_after_seconds=86400.0)
"""Lets a complaint survive a night in which another rule suppresses it."""
_OVER: Final = OpeningPolicy(minimum_known_seconds=0.0, close_after_seconds=0.0)
"""A newer profile leaves no doubt, so it closes advice at once."""


def judgements_of(
    profiles: Iterable[TakenProfile],
    present: Mapping[str, Workload | None],
    advice: Sequence[Advice],
    since: Nanoseconds,
) -> tuple[Judgement, ...]:
    """Return the judgements of the latest valid profile of each workload.

    A complaint is dropped if advice for its reason was closed after the profile was made: an old
    profile does not reopen what was settled since. A newer profile that abstains leaves an older
    judgement in force. `present` are workloads by key; profiles from before `since`, wall time,
    are ignored.
    """
    findings_by_key: dict[tuple[str, str], tuple[TakenProfile, Finding]] = {}
    for profile in sorted(
        profiles, key=lambda taken_profile: (taken_profile.moment, taken_profile.taken)
    ):
        if profile.key is not None and profile.key in present and profile.moment >= since:
            for finding in profile.findings:
                if finding.abstained is None:
                    findings_by_key[profile.key, finding.rule] = profile, finding
    return tuple(
        Judgement.decided(
            replace(finding, key=key), _HOLDS if finding.is_actionable else _OVER, present[key]
        )
        for (key, _), (profile, finding) in findings_by_key.items()
        if not _is_settled(key, profile, finding, advice)
    )


def with_profiles(
    judged: Sequence[Judgement],
    profiled: Sequence[Judgement],
    open_now: AbstractSet[tuple[str, str]],
) -> tuple[Judgement, ...]:
    """Merge the judgements of profiles into those of the rules, without contradictions.

    Of a workload's complaints with one reason, one may become advice: the one already open, else
    telemetry's; the other becomes part of its evidence.
    """
    judgements = list(judged)
    for judgement in profiled:
        other = judgement
        place = _place_of(judgement, judgements)
        if place is not None:
            judgements[place], other = _as_one(judgements[place], judgement, open_now)
        judgements.append(other)
    return without_conflicts(judgements)


def _is_settled(
    key: str, profile: TakenProfile, finding: Finding, advice: Sequence[Advice]
) -> bool:
    """Whether advice for the same reason on the same workload was closed after the profile."""
    reasons = set(finding.reasons)
    return any(
        recommendation.closed is not None
        and recommendation.closed >= profile.moment
        and (recommendation.finding.key or recommendation.finding.workload) == key
        and reasons & set(recommendation.finding.reasons)
        for recommendation in advice
    )


def _place_of(judgement: Judgement, others: Sequence[Judgement]) -> int | None:
    """Return the position of telemetry's judgement with the same reason or rule, or `None`."""
    same = judgement.finding.rule.removeprefix(_PREFIX)
    reasons = set(judgement.finding.reasons)
    placed = [
        (place, other.finding) for place, other in enumerate(others) if other.key == judgement.key
    ]
    alike = [
        place
        for place, finding in placed
        if finding.is_actionable and reasons & set(finding.reasons)
    ]
    named = [place for place, finding in placed if finding.rule == same]
    return next(iter((*alike, *named)), None)


def _as_one(
    telemetry: Judgement, profile: Judgement, open_now: AbstractSet[tuple[str, str]]
) -> tuple[Judgement, Judgement]:
    """Return both judgements, of which at most one may open or stay open."""
    if not profile.finding.is_actionable:
        return telemetry, profile
    is_open = (telemetry.key, telemetry.finding.rule) in open_now
    is_profile_open = (profile.key, profile.finding.rule) in open_now
    is_said = telemetry.finding.is_actionable and telemetry.may_open
    if is_open or (is_said and not is_profile_open):
        named = {"rule": profile.finding.rule, "summary": profile.finding.summary}
        combined = _beside(telemetry, "profile", {**named, **profile.finding.evidence})
        if telemetry.finding.is_actionable:
            # Include what the profile names: kernels, spans and copies.
            titles = {instruction.title for instruction in combined.finding.instructions}
            more = (
                instruction
                for instruction in profile.finding.instructions
                if instruction.title not in titles
            )
            instructions = (*combined.finding.instructions, *more)
            finding = replace(combined.finding, instructions=instructions)
            combined = replace(combined, finding=finding)
        return combined, profile.suppressed_by_conflict(_named(telemetry.finding))
    # Over the rule's own span, which reaches the present.
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
    if not finding.is_actionable:
        return judgement
    return replace(
        judgement, finding=replace(finding, evidence={**finding.evidence, name: evidence})
    )


def _named(finding: Finding) -> str:
    return f"found by {finding.rule} ({', '.join(finding.reasons)})"

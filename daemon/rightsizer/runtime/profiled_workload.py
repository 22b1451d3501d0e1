"""Profiles told apart by workload, and judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rightsizer.advice.profile_rules import PROFILE_RULES
from rightsizer.advice.profile_rules.member import source_of
from rightsizer.advice.profile_rules.rule import ProfileRule
from rightsizer.domain.finding import Finding
from rightsizer.domain.profile import Profile

__all__ = ["ProfiledWorkload", "judged_workloads"]


@dataclass(frozen=True, slots=True)
class ProfiledWorkload:
    """One file, or one for each rank, and what every rule says of it."""

    name: str
    profiles: tuple[Profile, ...]
    findings: tuple[Finding, ...]
    """Complaints first, those that would give most before others; abstentions last."""


def judged_workloads(
    profiles: Sequence[Profile], rules: Sequence[ProfileRule[Any]] = PROFILE_RULES
) -> tuple[ProfiledWorkload, ...]:
    """Every workload of profiles that were read already.

    Args:
        profiles: All of them, in any order.
        rules: Who judges.
    """
    return tuple(_judged(each, rules) for each in _grouped(profiles))


def _grouped(profiles: Sequence[Profile]) -> list[tuple[Profile, ...]]:
    """Ranks of one program together, everything else by itself."""
    groups: list[list[Profile]] = []
    for profile in profiles:
        joined = next((each for each in groups if _is_rank_of(profile, each)), None)
        if joined is None:
            groups.append([profile])
        else:
            joined.append(profile)
    return [tuple(each) for each in groups]


def _is_rank_of(profile: Profile, group: Sequence[Profile]) -> bool:
    first = group[0]
    return (
        profile.rank is not None
        and first.rank is not None
        and (profile.format, profile.world_size) == (first.format, first.world_size)
        and profile.rank not in [each.rank for each in group]
    )


def _judged(profiles: tuple[Profile, ...], rules: Sequence[ProfileRule[Any]]) -> ProfiledWorkload:
    findings = [rule.judge(profiles) for rule in rules]
    return ProfiledWorkload(source_of(profiles), profiles, tuple(sorted(findings, key=_urgency)))


def _urgency(finding: Finding) -> tuple[int, float]:
    if finding.abstained is not None:
        return (2, 0.0)
    ends = (each.time_ratio_low for each in finding.options)
    return (
        0 if finding.is_complaint else 1,
        min((low for low in ends if low is not None), default=1.0),
    )

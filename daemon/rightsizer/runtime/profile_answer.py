"""Files of profilers read, told apart by workload, and judged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rightsizer.advice.profile_rules import PROFILE_RULES
from rightsizer.advice.profile_rules.member import source_of
from rightsizer.domain.finding import Finding
from rightsizer.domain.profile import Profile
from rightsizer.profiles.formats import read_all
from rightsizer.profiles.reader import ReadLimits

__all__ = ["ProfiledWorkload", "profiled_workloads"]


@dataclass(frozen=True, slots=True)
class ProfiledWorkload:
    """One file, or one for each rank, and what every rule says of it."""

    name: str
    profiles: tuple[Profile, ...]
    findings: tuple[Finding, ...]
    """Complaints first, those that would give most before others; abstentions last."""


def profiled_workloads(paths: Iterable[Path], limits: ReadLimits) -> tuple[ProfiledWorkload, ...]:
    """Every workload of some files and folders.

    Raises:
        ProfileError: one of them cannot be read, or is of no known format.
    """
    return tuple(_judged(each) for each in _grouped(read_all(paths, limits)))


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


def _judged(profiles: tuple[Profile, ...]) -> ProfiledWorkload:
    findings = [rule.judge(profiles) for rule in PROFILE_RULES]
    return ProfiledWorkload(source_of(profiles), profiles, tuple(sorted(findings, key=_urgency)))


def _urgency(finding: Finding) -> tuple[int, float]:
    if finding.abstained is not None:
        return (2, 0.0)
    ends = (each.time_ratio_low for each in finding.options)
    return (
        0 if finding.is_complaint else 1,
        min((low for low in ends if low is not None), default=1.0),
    )

"""Profiles grouped by workload, and judged."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from rightsizer.model.profile import Profile
from rightsizer.model.values import Finding, UsageError
from rightsizer.profiler.join import ProfileJoin
from rightsizer.profiler.matched_collectives import clock_offsets
from rightsizer.profiler.member import ranks_of, source_of
from rightsizer.profiler.rules.registry import PROFILE_RULES
from rightsizer.profiler.rules.rule import ProfileRule
from rightsizer.profiler.settings import ProfileRankImbalanceSettings
from rightsizer.profiles.registry import BrokenFile


class ProfiledWorkload(Struct, frozen=True):
    """A file, or one per rank, with the findings of every rule."""

    name: str
    profiles: tuple[Profile, ...]
    findings: tuple[Finding, ...]
    """Complaints first, by gain; abstentions last."""

    @property
    def clock_offsets_seconds(self) -> dict[str, float]:
        """How far the clock of each rank is ahead of the first one's; empty if not known."""
        ranks = ranks_of(self.profiles)
        return clock_offsets(ranks, ProfileRankImbalanceSettings().end_tolerance_ratio)


class ProfileAnswer(Struct, frozen=True):
    """Judged workloads, and what each is compared and joined with."""

    workloads: tuple[ProfiledWorkload, ...]
    against: tuple[ProfiledWorkload, ...] = ()
    """An earlier profile of each workload, in the same order; empty without a comparison."""
    broken: tuple[BrokenFile, ...] = ()
    """Files of folders that could not be read."""
    joins: tuple[ProfileJoin, ...] = ()
    """Telemetry of each workload, in the same order; empty without a history."""

    def __post_init__(self) -> None:
        if self.against and len(self.against) != len(self.workloads):
            raise UsageError(
                f"--against: {len(self.against)} workloads against {len(self.workloads)}; name one "
                "earlier profile for each, in the same order"
            )


def judged_workloads(
    profiles: Sequence[Profile], rules: Sequence[ProfileRule[Any]] = PROFILE_RULES
) -> tuple[ProfiledWorkload, ...]:
    """Group profiles, given in any order, into workloads, and judge them."""
    return tuple(
        ProfiledWorkload(
            source_of(group),
            tuple(group),
            tuple(sorted((rule.judge(group) for rule in rules), key=_urgency)),
        )
        for group in _grouped(profiles)
    )


def _grouped(profiles: Sequence[Profile]) -> list[list[Profile]]:
    """Group ranks of one program; other profiles stay single."""
    groups: list[list[Profile]] = []
    for profile in profiles:
        for group in groups:
            if _is_rank_of(profile, group):
                group.append(profile)
                break
        else:
            groups.append([profile])
    return groups


def _is_rank_of(profile: Profile, group: Sequence[Profile]) -> bool:
    first = group[0]
    return (
        profile.rank is not None
        and first.rank is not None
        and (profile.format, profile.world_size) == (first.format, first.world_size)
        and profile.rank not in [member.rank for member in group]
    )


def _urgency(finding: Finding) -> tuple[int, float]:
    if finding.abstained is not None:
        return (2, 0.0)
    ends = (
        option.time_ratio_low for option in finding.options if option.time_ratio_low is not None
    )
    return (0 if finding.is_actionable else 1, min(ends, default=1.0))

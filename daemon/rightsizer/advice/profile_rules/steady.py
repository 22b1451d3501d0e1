"""Whether a profile shows a program at work: a time line, kernels enough, no start-up."""

from collections.abc import Sequence

from rightsizer.advice.profile_rules.member import Member, members_of
from rightsizer.advice.profile_rules.verdict import abstain
from rightsizer.advice.profile_thresholds import SteadySettings
from rightsizer.domain.finding import Finding, Reason
from rightsizer.domain.profile import Profile

__all__ = ["at_work", "no_time_line"]


def at_work(
    rule: str,
    profiles: Sequence[Profile],
    settings: SteadySettings,
    *,
    needs_launches: bool = True,
) -> Finding | tuple[Member, ...]:
    """The devices that can be judged, or why there are none."""
    members = members_of(profiles)
    if not members:
        return abstain(rule, profiles, Reason.UNSUPPORTED_TELEMETRY, no_time_line(profiles))
    busy = [each for each in members if _kernels(each) >= settings.kernels_minimum]
    if not busy:
        most = max(map(_kernels, members))
        why = f"only {most} kernels, too few for a steady phase"
        return abstain(rule, profiles, Reason.INSUFFICIENT_DATA, why)
    steady = [each for each in busy if _launch_seconds(each) <= settings.launch_maximum_seconds]
    if not steady:
        longest = max(map(_launch_seconds, busy))
        why = (
            f"a start-up: a launch took {longest * 1e3:.1f} ms on average, which is the loading "
            "of kernels; profile a later step"
        )
        return abstain(rule, profiles, Reason.INSUFFICIENT_DATA, why)
    known = [each for each in steady if each.matched_ratio >= settings.matched_minimum_ratio]
    if needs_launches and not known:
        why = "the launches of its kernels are not in the profile, so idle time has no cause"
        return abstain(rule, profiles, Reason.UNSUPPORTED_TELEMETRY, why)
    return tuple(known if needs_launches else steady)


def no_time_line(profiles: Sequence[Profile]) -> str:
    """Why none of the devices has one."""
    devices = [device for each in profiles for device in each.devices]
    if any(device.kernels for device in devices):
        return "the profile has kernels but no time line"
    if devices:
        return "no kernel ran while it was recorded"
    return "no GPU and no kernel in it: recorded on the CPU alone, or a benchmark's log"


def _kernels(member: Member) -> int:
    return sum(each.count for each in member.device.kernels)


def _launch_seconds(member: Member) -> float:
    launches = member.device.launches
    return launches.host_seconds / launches.count if launches and launches.count else 0.0

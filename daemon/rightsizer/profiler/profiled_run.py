"""Measured run for sizing, from profilers' files of one program: time, memory, GPU."""

from collections.abc import Sequence
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.profile import Profile
from rightsizer.model.values import ProfileError
from rightsizer.profiler.member import ProfiledMember, members_of, no_timeline, source_of, torn_text
from rightsizer.profiler.rules.rule import NoVerdictError, at_work
from rightsizer.profiler.settings import ProfileSteadySettings
from rightsizer.sizing.workload_profile import ProfiledRun, ProfiledTime

_STEADY: Final = ProfileSteadySettings()


def profiled_run(profiles: Sequence[Profile], catalogue: Catalogue) -> ProfiledRun:
    """Derive the run from the files of one program: one, or one per rank.

    Raises:
        ProfileError: they have no timeline of a GPU at work, or are of different GPUs.
    """
    source = source_of(profiles) if profiles else "the profile"
    if not (members := members_of(profiles)):
        raise ProfileError(
            f"{source}: {no_timeline(profiles)}; take a trace of the program on a GPU with "
            "PyTorch Profiler, Nsight Systems or JAX"
        )
    if torn := torn_text(profiles):
        raise ProfileError(torn)
    try:
        at_work(profiles, _STEADY, needs_launches=False)
    except NoVerdictError as error:
        raise ProfileError(f"{source}: {error}") from None
    names = {member.device.device.name for member in members} - {""}
    boards = {name: catalogue.find(name) for name in sorted(names)}
    if len({board.key if board else name for name, board in boards.items()}) > 1:
        raise ProfileError(
            f"{source}: recorded on different GPUs, {' and '.join(boards)}; give the files of one"
        )
    name = next(iter(boards), "")
    peaks = [member.device.memory_peak_bytes for member in members]
    steps = [length for member in members if (length := member.step_seconds) is not None]
    matched = sum(member.matched_ratio for member in members) / len(members)
    return ProfiledRun(
        source=source,
        devices=len(members),
        device_name=name,
        board=boards.get(name),
        time=_time(members),
        steps=max(len(member.device.steps) for member in members),
        step_seconds=sum(steps) / len(steps) if steps else None,
        memory_peak_bytes=max((peak for peak in peaks if peak is not None), default=None),
        is_launch_known=matched >= _STEADY.matched_minimum_ratio,
    )


def _time(members: Sequence[ProfiledMember]) -> ProfiledTime:
    """Return the time of steps and gaps if steps are marked, else of everything."""
    times = [time for member in members for time in member.step_times]
    span = sum(time.span_seconds for time in times)
    exposed = sum(time.exposed_collective_seconds for time in times)
    # A collective lasts until the last rank has joined: what others spend more in them waits.
    collective = span * min(map(_exposed_ratio, members))
    copy = sum(min(time.exposed_copy_seconds, time.idle_seconds) for time in times)
    work = sum(time.kernel_seconds for time in times) - exposed
    # Copies overlap idle time; subtract them from host waits first.
    host = max(0.0, sum(time.host_wait_seconds for time in times) - copy)
    at_work = [kernel_use for member in members for kernel_use in member.kernels_at_work]
    tensor, plain = (
        sum(kernel_use.seconds for kernel_use in at_work if kernel_use.uses_tensor_cores is uses)
        / (sum(kernel_use.seconds for kernel_use in at_work) or 1.0)
        for uses in (True, False)
    )
    kernels = [kernel for member in members for kernel in member.device.kernels]
    count = sum(kernel.count for kernel in kernels)
    calls = [member.device.launches for member in members if member.device.launches is not None]
    in_launches = sum(call.host_seconds for call in calls)
    whole = sum(member.time.span_seconds for member in members)
    return ProfiledTime(
        tensor=tensor * work / span,
        plain=plain * work / span,
        unknown=max(0.0, 1.0 - tensor - plain) * work / span,
        collective=collective / span,
        copy=copy / span,
        host_wait=host / span,
        gap=max(0.0, span - work - collective - copy - host) / span,
        launch=min(1.0, in_launches / whole if whole else 0.0),
        kernel_seconds=sum(kernel.seconds for kernel in kernels) / count,
    )


def _exposed_ratio(member: ProfiledMember) -> float:
    span = sum(time.span_seconds for time in member.step_times)
    return sum(time.exposed_collective_seconds for time in member.step_times) / span

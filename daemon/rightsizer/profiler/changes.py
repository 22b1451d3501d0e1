"""Changes between two profiles of a workload: figures, kernels, and what else differs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct

from rightsizer.model.profile import HostStep, KernelFamily, Profile, StepUse
from rightsizer.model.values import seconds
from rightsizer.profiler.member import ProfiledMember, members_of, source_of

_MOST_KERNELS: Final = 100
_TIMELINE: Final = "a timeline of a GPU"
_KERNELS: Final = "kernels without a timeline"
_Key: TypeAlias = tuple[KernelFamily, str | None]
"""Kernel, or with `None` its whole family."""
_Figure: TypeAlias = Callable[[Sequence[ProfiledMember]], float | None]


class ProfileChange(Struct, frozen=True):
    """A figure before and after; `None` if unknown."""

    figure: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After, relative to before; `None` if either is unknown or before is 0."""
        return self.after / self.before if self.before and self.after is not None else None


def profile_changes(
    before: Sequence[Profile], after: Sequence[Profile]
) -> tuple[ProfileChange, ...]:
    """Return all figures that at least one profile has, and that are not 0 in both.

    Without a GPU in either, those of the steps of the host.
    """
    first = members_of(before)
    second = members_of(after)
    changes = [ProfileChange(name, of(first), of(second)) for name, of in _FIGURES]
    if not first and not second:
        sides = [
            [step for profile in side for step in profile.host_steps] for side in (before, after)
        ]
        changes = [
            ProfileChange(name, *(_mean(map(of, steps)) for steps in sides))
            for name, of in _HOST_FIGURES
        ]
    return tuple(change for change in changes if change.before or change.after)


def differences(before: Sequence[Profile], after: Sequence[Profile]) -> tuple[str, ...]:
    """Return differences other than the program as sentences: boards, and number of GPUs."""
    first, second = ([member.device for member in members_of(side)] for side in (before, after))
    boards = [sorted({profile.device.name for profile in side} - {""}) for side in (first, second)]
    warnings = []
    was, now = (" and ".join(board) for board in boards)
    if was and now and not (_may_mean(was, now) or _may_mean(now, was)):
        warnings.append(f"Recorded on other boards: {was} before, {now} after.")
    if first and second and len(first) != len(second):
        counts = f"{len(first)} before, {len(second)} after"
        warnings.append(f"Recorded on another number of GPUs: {counts}.")
    is_compared = any(
        change.before is not None and change.after is not None
        for change in profile_changes(before, after)
    )
    kinds = [_kind_text(side) for side in (before, after)]
    if not is_compared and not {*kinds} <= {_TIMELINE, _KERNELS}:
        ends = " and ".join(
            f"{source_of(side)} has {kind}"
            for side, kind in zip((before, after), kinds, strict=True)
        )
        warnings.append(f"No times can be compared: {ends}; record steps of both in the same way.")
    return tuple(warnings)


def _kind_text(profiles: Sequence[Profile]) -> str:
    """Return what there is to compare."""
    if members_of(profiles):
        return _TIMELINE
    if any(device.kernels for profile in profiles for device in profile.devices):
        return _KERNELS
    has_steps = any(profile.host_steps for profile in profiles)
    return "steps of the host alone" if has_steps else "neither a GPU nor steps"


def _may_mean(name: str, longer: str) -> bool:
    """Whether a longer name may be of the same board: A100 and A100-SXM4, not A10."""
    return longer == name or longer.startswith((f"{name} ", f"{name}-"))


class KernelChange(Struct, frozen=True):
    """Seconds of a kernel or a family, per step, or per GPU in a file without steps."""

    family: KernelFamily
    name: str | None
    """`None` for a family."""
    before: float
    after: float
    former_name: str | None = None
    """Kernel before that does the same work: of its family, with as many runs; else `None`."""

    @property
    def ratio(self) -> float | None:
        """After, relative to before; `None` if new."""
        return self.after / self.before if self.before else None


class KernelChanges(Struct, frozen=True):
    """Changes of families and kernels, largest first."""

    per: str
    """`step` or `GPU`."""
    families: tuple[KernelChange, ...]
    kernels: tuple[KernelChange, ...]


def kernel_changes(before: Sequence[Profile], after: Sequence[Profile]) -> KernelChanges:
    """Compare the time of kernels before and after."""
    sides = [
        [device for profile in profiles for device in profile.devices if device.kernels]
        for profiles in (before, after)
    ]
    has_steps = all(device.steps for devices in sides for device in devices)
    times: list[defaultdict[_Key, float]] = []
    counts: list[Counter[_Key]] = []
    wholes: list[int] = []
    for devices in sides:
        wholes.append(sum(len(device.steps) if has_steps else 1 for device in devices))
        time: defaultdict[_Key, float] = defaultdict(float)
        count: Counter[_Key] = Counter()
        for kernel in chain.from_iterable(device.kernels for device in devices):
            count[kernel.family, kernel.name] += kernel.count
            for name in (None, kernel.name):
                time[kernel.family, name] += kernel.seconds / wholes[-1]
        times.append(time)
        counts.append(count)
    first, second = times
    # Counts times the other side's steps, so that equal rates are equal numbers.
    gone, new = (
        {key: count * whole for key, count in side.items() if key not in other}
        for side, other, whole in zip(counts, reversed(counts), reversed(wholes), strict=True)
    )
    former = _renamed(gone, new, first, second)
    changes = sorted(
        (
            KernelChange(
                *key,
                first[former.get(key, key)],
                second[key],
                former[key][1] if key in former else None,
            )
            for key in {**first, **second}.keys() - {*former.values()}
        ),
        key=lambda change: (-abs(change.after - change.before), change.name or "", change.family),
    )
    return KernelChanges(
        "step" if has_steps else "GPU",
        tuple(change for change in changes if change.name is None),
        tuple(change for change in changes if change.name is not None)[:_MOST_KERNELS],
    )


def _renamed(
    gone: Mapping[_Key, int],
    new: Mapping[_Key, int],
    before: Mapping[_Key, float],
    after: Mapping[_Key, float],
) -> dict[_Key, _Key]:
    """Return new kernels with the gone ones of their family and rate, the longest to the longest.

    Libraries name a kernel by tile and board, so that another version or board has other names.
    """
    alike: defaultdict[tuple[KernelFamily, int], list[_Key]] = defaultdict(list)
    for key in sorted(gone, key=before.__getitem__):
        alike[key[0], gone[key]].append(key)
    renamed: dict[_Key, _Key] = {}
    for key in sorted(new, key=after.__getitem__, reverse=True):
        if left := alike[key[0], new[key]]:
            renamed[key] = left.pop()
    return renamed


def _per_second(of: Callable[[ProfiledMember], float]) -> _Figure:
    """Return a figure that sums over devices, relative to their time."""

    def figure(members: Sequence[ProfiledMember]) -> float | None:
        span = sum(member.time.span_seconds for member in members)
        return sum(map(of, members)) / span if span > 0 else None

    return figure


def _launches_per_second(members: Sequence[ProfiledMember]) -> float | None:
    span = sum(member.time.span_seconds for member in members if member.device.launches)
    count = sum(member.device.launches.count for member in members if member.device.launches)
    return count / span if span > 0 else None


def _mean_of_steps(measure: Callable[[StepUse], float]) -> _Figure:
    return lambda members: _mean(
        measure(step) for member in members for step in member.device.steps
    )


def _if_known(measure: Callable[[HostStep], float]) -> Callable[[HostStep], float | None]:
    """Return what only steps with operators tell."""
    return lambda step: None if step.operators is None else measure(step)


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


_HOST_FIGURES: Final[tuple[tuple[str, Callable[[HostStep], float | None]], ...]] = (
    ("step_seconds", lambda step: seconds(step.end - step.start)),
    ("loader_seconds_per_step", lambda step: step.loader_seconds),
    ("collective_seconds_per_step", lambda step: step.collective_seconds),
    ("dispatch_seconds_per_step", _if_known(lambda step: step.dispatch_seconds)),
    ("pause_seconds_per_step", _if_known(lambda step: step.pause_seconds)),
    ("operators_per_step", lambda step: step.operators),
    ("read_backs_per_step", _if_known(lambda step: step.read_backs)),
)
_FIGURES: Final[tuple[tuple[str, _Figure], ...]] = (
    ("step_seconds", lambda members: _mean(member.step_seconds for member in members)),
    ("kernel_seconds_per_step", _mean_of_steps(lambda step: step.time.kernel_seconds)),
    ("loader_seconds_per_step", _mean_of_steps(lambda step: step.loader_seconds)),
    ("kernel_ratio", _per_second(lambda member: member.time.kernel_seconds)),
    ("host_wait_ratio", _per_second(lambda member: member.time.idle_host_wait_seconds)),
    ("kernel_wait_ratio", _per_second(lambda member: member.time.kernel_wait_seconds)),
    ("other_idle_ratio", _per_second(lambda member: member.time.other_idle_seconds)),
    (
        "exposed_collective_ratio",
        _per_second(lambda member: member.time.exposed_collective_seconds),
    ),
    ("exposed_copy_ratio", _per_second(lambda member: member.time.exposed_copy_seconds)),
    ("launches_per_second", _launches_per_second),
    ("kernels_per_second", _per_second(lambda member: member.kernel_count)),
)

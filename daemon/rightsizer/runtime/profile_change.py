"""What became of a workload between two profiles: its figures before and after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.profile_rules.member import Member, members_of
from rightsizer.domain.profile import Profile

__all__ = ["Change", "changes"]


@dataclass(frozen=True, slots=True)
class Change:
    """One figure; `None` where a profile does not tell it."""

    figure: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After, of before; `None` where either is unknown or nothing was before."""
        if not self.before or self.after is None:
            return None
        return self.after / self.before


def changes(before: Sequence[Profile], after: Sequence[Profile]) -> tuple[Change, ...]:
    """Every figure that one of two profiles of a workload tells, and that is not 0 in both."""
    first, second = members_of(before), members_of(after)
    found = [Change(name, of(first), of(second)) for name, of in _FIGURES]
    return tuple(each for each in found if each.before or each.after)


def _share_of(name: str) -> Callable[[Sequence[Member]], float | None]:
    """Of the devices' spans, together."""

    def share(members: Sequence[Member]) -> float | None:
        span = sum(each.time.span_seconds for each in members)
        return sum(getattr(each.time, name) for each in members) / span if span > 0 else None

    return share


def _step_seconds(members: Sequence[Member]) -> float | None:
    return _mean([each.step_seconds for each in members])


def _kernel_seconds_per_step(members: Sequence[Member]) -> float | None:
    steps = [step for each in members for step in each.device.steps]
    return _mean([each.time.kernel_seconds for each in steps])


def _launches_per_second(members: Sequence[Member]) -> float | None:
    span = sum(each.time.span_seconds for each in members if each.device.launches)
    count = sum(each.device.launches.count for each in members if each.device.launches)
    return count / span if span > 0 else None


def _loader_seconds_per_step(members: Sequence[Member]) -> float | None:
    return _mean([step.loader_seconds for each in members for step in each.device.steps])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known else None


_FIGURES: Final = (
    ("step_seconds", _step_seconds),
    ("kernel_seconds_per_step", _kernel_seconds_per_step),
    ("loader_seconds_per_step", _loader_seconds_per_step),
    ("kernel_ratio", _share_of("kernel_seconds")),
    ("host_wait_ratio", _share_of("host_wait_seconds")),
    ("kernel_wait_ratio", _share_of("kernel_wait_seconds")),
    ("other_idle_ratio", _share_of("other_idle_seconds")),
    ("exposed_collective_ratio", _share_of("exposed_collective_seconds")),
    ("exposed_copy_ratio", _share_of("exposed_copy_seconds")),
    ("launches_per_second", _launches_per_second),
)

"""Comparison of a profile with telemetry of the same GPU and time, figure by figure."""

from collections.abc import Callable, Iterator
from itertools import chain
from operator import mul
from typing import Final

from msgspec import Struct

from rightsizer.model.values import (
    ACTIVE_STATES,
    Condition,
    Measure,
    Nanoseconds,
    Resource,
    State,
    Tier,
    Window,
    format_duration,
    seconds,
)
from rightsizer.profiler.member import ProfiledMember
from rightsizer.profiler.settings import ProfileComparisonSettings

_WHOLE_RATIO: Final = 0.9
_LEAST_RATIO: Final = 0.5
_SAME_RATIO: Final = 0.8
"""Coverage from which telemetry's time counts as the profile's."""
_A_THOUSANDTH: Final = 0.001
_A_MINUTE: Final = 60.0


class ProfileTelemetry(Struct, frozen=True):
    """All windows of a device that overlap a span; shares are of the active time."""

    window: Window
    workload: str | None = None
    """Key of the workload that held it then, or `None`."""
    memory_total_bytes: float | None = None
    unseen_seconds: float = 0.0
    """Part of the requested span outside all windows."""

    @property
    def span_seconds(self) -> float:
        """Time from the start of the first window to the end of the last."""
        return seconds(self.window.end - self.window.start)

    @property
    def active_seconds(self) -> float:
        """Time neither idle nor unknown."""
        return seconds(self.window.active)

    @property
    def unknown_seconds(self) -> float:
        """Time without a reading."""
        lost = self.window.end - self.window.start - self.window.accounted
        unknown = max(0, lost) + self.window.states.get(State.UNKNOWN, 0)
        return seconds(unknown) + self.unseen_seconds

    @property
    def busy_ratio(self) -> float | None:
        """Share of the active time with a kernel resident; `None` if not measured."""
        series = self.window.blocks.series(Measure.BUSY)
        # A window still open has no block yet, and its time would count as idle.
        is_whole = sum(series.known_seconds) >= _WHOLE_RATIO * self.window.known_seconds
        if not is_whole or self.active_seconds <= 0:
            return None
        busy: float = sum(map(mul, series.known_seconds, series.means))
        return min(1.0, busy / self.active_seconds)

    @property
    def memory_peak_bytes(self) -> float | None:
        """Peak memory use; `None` if not measured."""
        held = self.window.demands.get(Resource.MEMORY)
        total = self.memory_total_bytes
        highest = None if held is None else held.maximum()
        return None if highest is None or total is None else highest * total

    def share(self, *states: State) -> float:
        """Return the share of the active time in any of the states; 0 without active time."""
        active = self.window.active
        held = sum(self.window.states.get(state, 0) for state in states)
        return held / active if active > 0 else 0.0

    def condition_share(self, condition: Condition) -> float:
        """Return the share of the active time with a condition, at most 1."""
        active = self.window.active
        return min(1.0, self.window.conditions.get(condition, 0) / active) if active > 0 else 0.0


ProfileTelemetryOf = Callable[[str, Nanoseconds, Nanoseconds], ProfileTelemetry | None]
"""Returns telemetry of a device (uuid) between two wall times, or `None`."""

ACTIVE_SECONDS: Final = "active_seconds"
PCIE_BOUND_RATIO: Final = "pcie_bound_ratio"
TENSOR_CORE_RATIO: Final = "tensor_core_ratio"
"""Figures that other modules refer to."""

_WAITING: Final = frozenset(
    (State.HOST_BOUND, State.STORAGE_BOUND, State.LAUNCH_BOUND, State.HIDDEN_STALL)
)
"""States in which a workload holds the GPU, which waits."""


class ProfileComparison(Struct, frozen=True):
    """One figure from both."""

    figure: str
    profile: float
    telemetry: float
    """In the same unit: a ratio of time, or bytes for `memory_bytes`."""
    is_contradiction: bool
    text: str
    """Sentence with both figures."""


def compare(
    member: ProfiledMember,
    name: str,
    telemetry: ProfileTelemetry,
    settings: ProfileComparisonSettings,
) -> tuple[ProfileComparison, ...]:
    """Compare every figure known to both.

    A profile spans its first to its last kernel, while telemetry's windows include other time, so
    shares are of the active time. If telemetry saw less activity than the profile has kernels, only
    that is reported.
    """
    both = _Both(member, name, telemetry, settings)
    if (idle := _idle(both)) is not None:
        return (idle,)
    if telemetry.active_seconds < _LEAST_RATIO * member.time.kernel_seconds:
        return ()  # Most of it was outside of any readings.
    return tuple(chain(_shares(both), _tensor_cores(both), _memory(both)))


class _Both(Struct, frozen=True):
    member: ProfiledMember
    name: str
    telemetry: ProfileTelemetry
    settings: ProfileComparisonSettings

    @property
    def around(self) -> str:
        """Describe telemetry's time, and how much of it the profile covers."""
        ours = self.member.time.span_seconds
        theirs = self.telemetry.span_seconds
        covered = ours / theirs if theirs > 0 else 1.0
        if covered >= _SAME_RATIO:
            return f"telemetry of the same {_length(theirs)}"
        part = f"{covered:.1%}" if covered >= _A_THOUSANDTH else "under 0.1%"
        return f"telemetry of the {_length(theirs)} around it, {part} of which it covers,"

    def shares(
        self, figure: str, words: tuple[str, str], ours: float, theirs: float
    ) -> ProfileComparison:
        profiled = _length(self.member.time.span_seconds)
        return ProfileComparison(
            figure,
            round(ours, 4),
            round(theirs, 4),
            is_contradiction=abs(ours - theirs) >= self.settings.difference_minimum_ratio,
            text=f"The profile says that {self.name} {words[0]} {ours:.1%} of {profiled}; "
            f"{self.around} says that it {words[1]} {theirs:.1%} of its active time.",
        )


def _idle(both: _Both) -> ProfileComparison | None:
    """Report kernels where telemetry saw too little activity for them."""
    telemetry = both.telemetry
    kernels = both.member.time.kernel_seconds
    settings = both.settings
    active = telemetry.active_seconds
    whole = telemetry.span_seconds
    unseen = settings.tick_seconds if active > 0 else settings.idle_tolerance_seconds
    if kernels <= active + telemetry.unknown_seconds + unseen:
        return None
    return ProfileComparison(
        ACTIVE_SECONDS,
        round(kernels, 6),
        round(active, 6),
        is_contradiction=True,
        text=f"The profile has {_length(kernels)} of kernels on {both.name}; {both.around} says "
        f"that it was active for {_length(active)} of {_length(whole)}: the profile is of another "
        "GPU, or the clocks differ.",
    )


def _shares(both: _Both) -> Iterator[ProfileComparison]:
    telemetry = both.telemetry
    member = both.member
    busy = telemetry.busy_ratio
    span = member.time.span_seconds
    if busy is not None and span > 0:
        words = "runs kernels", "had one resident"
        yield both.shares("busy_ratio", words, member.time.kernel_seconds / span, busy)
    if member.device.launches is not None:
        state = max(ACTIVE_STATES, key=lambda state: (telemetry.share(state), state))
        state_share = f"{state.replace('_', ' ')} {telemetry.share(state):.1%}"
        words = "waits for the host", f"was {state_share} and held up by host, storage or launches"
        held = telemetry.share(*_WAITING)
        yield both.shares("host_wait_ratio", words, member.host_wait_ratio, held)
    if Resource.PCIE in telemetry.window.demands:
        words = "copies with no kernel beside it", "was PCIe bound"
        ours = member.share(member.time.exposed_copy_seconds)
        yield both.shares(PCIE_BOUND_RATIO, words, ours, telemetry.share(State.PCIE_BOUND))


def _tensor_cores(both: _Both) -> Iterator[ProfileComparison]:
    kernels = both.member.kernels_at_work
    whole = sum(kernel.seconds for kernel in kernels)
    is_known = all(kernel.uses_tensor_cores is not None for kernel in kernels)
    if whole <= 0 or not is_known or both.telemetry.window.tier is not Tier.PROFILING:
        return
    ours = sum(kernel.seconds for kernel in kernels if kernel.uses_tensor_cores) / whole
    theirs = 1.0 - both.telemetry.condition_share(Condition.NO_TENSOR_CORES)
    # Occasional use reaches every second of telemetry, so that shares differ.
    least = both.settings.difference_minimum_ratio
    is_unused = ours <= both.settings.tensor_maximum_ratio
    yield ProfileComparison(
        TENSOR_CORE_RATIO,
        round(ours, 4),
        round(theirs, 4),
        is_contradiction=theirs >= 1.0 - least if is_unused else ours >= least >= theirs,
        text=f"The profile says that {both.name} spends {ours:.1%} of the time of its kernels in "
        f"those that use tensor cores; {both.around} saw them at work {theirs:.1%} of its active "
        "time.",
    )


def _memory(both: _Both) -> Iterator[ProfileComparison]:
    ours = both.member.device.memory_peak_bytes
    theirs = both.telemetry.memory_peak_bytes
    if ours is None or theirs is None:
        return
    tolerated = theirs * (1.0 + both.settings.memory_tolerance_ratio)
    yield ProfileComparison(
        "memory_bytes",
        float(ours),
        float(theirs),
        is_contradiction=ours > tolerated,
        text=f"The profile says that {both.name} has {ours / 2**30:,.1f} GiB of memory in use at "
        f"the most; {both.around} saw {theirs / 2**30:,.1f} GiB.",
    )


def _length(seconds: float) -> str:
    if seconds >= _A_MINUTE:
        return format_duration(seconds)
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{seconds * 1e3:.3g} ms"

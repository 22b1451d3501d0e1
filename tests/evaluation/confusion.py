"""What was found against what was true, in seconds."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rightsizer.domain.state import IDLE_STATES, State
from rightsizer.domain.units import Nanoseconds, seconds

__all__ = ["Confusion", "coarse"]

_DAY_SECONDS: Final = 86400.0


def coarse(state: State) -> str:
    """What every tier can tell apart: empty, held, spinning, at work."""
    if state in IDLE_STATES or state in (State.UNKNOWN, State.HIDDEN_STALL):
        return str(state)
    return "at_work"


class Confusion:
    """Time by truth and finding."""

    def __init__(self) -> None:
        self._time: Counter[tuple[str, str]] = Counter()
        self._false_idle: Nanoseconds = 0

    def add(self, truth: State, found: State, duration: Nanoseconds) -> None:
        """Count a stretch."""
        self._time[str(truth), str(found)] += duration
        if found in IDLE_STATES and truth not in IDLE_STATES:
            self._false_idle += duration

    def coarse(self) -> "Confusion":
        """The same by what every tier can tell apart."""
        merged = Confusion()
        for (truth, found), duration in self._time.items():
            merged._time[coarse(State(truth)), coarse(State(found))] += duration
        return merged

    @property
    def gpu_days(self) -> float:
        """All the time in it."""
        return seconds(sum(self._time.values())) / _DAY_SECONDS

    @property
    def false_idle_seconds_per_day(self) -> float:
        """Seconds called idle that were not, for each day of a GPU."""
        return seconds(self._false_idle) / self.gpu_days if self._time else 0.0

    @property
    def accuracy(self) -> float:
        """The share of time that was called what it was."""
        right = sum(time for (truth, found), time in self._time.items() if truth == found)
        return right / sum(self._time.values())

    @property
    def states(self) -> tuple[str, ...]:
        """Those that were ever true, in the order of the states."""
        true = {truth for truth, _ in self._time}
        order = [*map(str, State), "at_work"]
        return tuple(sorted(true, key=order.index))

    def precision(self, state: str) -> float | None:
        """The share of what was called so that was; `None` where nothing was."""
        called = self._sum(found=state)
        return self._time[state, state] / called if called else None

    def recall(self, state: str) -> float:
        """The share of what was so that was called so."""
        return self._time[state, state] / self._sum(truth=state)

    def f1(self, state: str) -> float:
        """The harmonic mean of the two; 0 where nothing was called so."""
        precision, recall = self.precision(state) or 0.0, self.recall(state)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    @property
    def macro_f1(self) -> float:
        """The mean over the states that were ever true, each as important as any other."""
        return sum(map(self.f1, self.states)) / len(self.states)

    def score_rows(self) -> Iterable[tuple[str, ...]]:
        """State, hours, precision, recall, F1 of each."""
        for state in self.states:
            precision = self.precision(state)
            yield (
                state,
                f"{seconds(self._sum(truth=state)) / 3600:.1f}",
                "never called" if precision is None else f"{precision:.3f}",
                f"{self.recall(state):.3f}",
                f"{self.f1(state):.3f}",
            )

    def mistakes(self, most: int) -> Iterable[tuple[str, ...]]:
        """What was most often taken for what: truth, finding, hours, share of the truth."""
        wrong: Mapping[tuple[str, str], int] = {
            pair: time for pair, time in self._time.items() if pair[0] != pair[1]
        }
        for (truth, found), time in sorted(wrong.items(), key=lambda item: -item[1])[:most]:
            share = time / self._sum(truth=truth)
            yield truth, found, f"{seconds(time) / 3600:.2f}", f"{share:.1%}"

    def _sum(self, truth: str = "", found: str = "") -> int:
        return sum(
            time
            for (is_true, is_found), time in self._time.items()
            if (not truth or is_true == truth) and (not found or is_found == found)
        )

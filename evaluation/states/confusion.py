"""Confusion matrix of found and true states, in seconds."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from rightsizer.model.state import IDLE_STATES, State
from rightsizer.model.units import Nanoseconds, seconds

_DAY_SECONDS: Final = 86400.0
_LAST: Final = len(State)


def _order(state: str) -> tuple[int, str]:
    """In the order of the states, then whatever else they were merged into."""
    names = [*map(str, State)]
    return (names.index(state), "") if state in names else (_LAST, state)


class Confusion:
    """Time by truth and finding."""

    def __init__(self) -> None:
        self._time: Counter[tuple[str, str]] = Counter()
        self._second: Nanoseconds = 0

    def add(self, truth: str, found: str, duration: Nanoseconds, second: str | None = None) -> None:
        """Count a stretch, with what would have been named next."""
        self._time[str(truth), str(found)] += duration
        if truth == second and truth != found:
            self._second += duration

    def merge(self, other: "Confusion") -> None:
        """Add another one's time."""
        self._time.update(other._time)
        self._second += other._second

    def merged_by(self, name: Callable[[State], str]) -> "Confusion":
        """Return a copy with states merged by a function."""
        known = frozenset(map(str, State))
        merged = Confusion()
        for (truth, found), duration in self._time.items():
            first, second = (
                name(State(each)) if each in known else each for each in (truth, found)
            )
            merged.add(first, second, duration)
        return merged

    @property
    def gpu_days(self) -> float:
        """All the time in it."""
        return seconds(sum(self._time.values())) / _DAY_SECONDS

    @property
    def false_idle(self) -> Nanoseconds:
        """The time that was called idle and was not."""
        return sum(
            time
            for (truth, found), time in self._time.items()
            if found in IDLE_STATES and truth not in IDLE_STATES
        )

    @property
    def false_idle_seconds_per_day(self) -> float:
        """Seconds called idle that were not, for each day of a GPU."""
        return seconds(self.false_idle) / self.gpu_days if self._time else 0.0

    @property
    def accuracy(self) -> float:
        """The share of time that was called what it was."""
        return self._right / max(1, sum(self._time.values()))

    @property
    def accuracy_of_two(self) -> float:
        """The share of time that was called, or called next, what it was."""
        return (self._right + self._second) / max(1, sum(self._time.values()))

    @property
    def _right(self) -> Nanoseconds:
        return sum(time for (truth, found), time in self._time.items() if truth == found)

    @property
    def states(self) -> tuple[str, ...]:
        """True states, in the order of the states."""
        return tuple(sorted({truth for truth, _ in self._time}, key=_order))

    @property
    def findings(self) -> tuple[str, ...]:
        """True or found states, in the order of the states."""
        return tuple(sorted({name for pair in self._time for name in pair}, key=_order))

    def precision(self, state: str) -> float | None:
        """The share of what was called so that was; `None` where nothing was."""
        called = self._sum(found=state)
        return self._time[state, state] / called if called else None

    def recall(self, state: str) -> float:
        """The share of what was so that was called so."""
        return self._time[state, state] / max(1, self._sum(truth=state))

    def f1(self, state: str) -> float:
        """The harmonic mean of the two; 0 where nothing was called so."""
        precision = self.precision(state) or 0.0
        recall = self.recall(state)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    @property
    def macro_f1(self) -> float:
        """Unweighted mean of F1 over the true states."""
        return sum(map(self.f1, self.states)) / max(1, len(self.states))

    def score_rows(self) -> Iterable[tuple[str, ...]]:
        """State, hours, precision, recall of each."""
        for state in self.states:
            precision = self.precision(state)
            yield (
                state,
                f"{seconds(self._sum(truth=state)) / 3600:.1f}",
                "never called" if precision is None else f"{precision:.3f}",
                f"{self.recall(state):.3f}",
            )

    def mistakes(self, most: int) -> Iterable[tuple[str, ...]]:
        """Most frequent confusions: truth, finding, hours, share of the truth."""
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


class Detection:
    """Confusion of one condition, in seconds."""

    def __init__(self) -> None:
        self._true: Nanoseconds = 0
        self._found: Nanoseconds = 0
        self._both: Nanoseconds = 0

    def add(self, duration: Nanoseconds, *, is_true: bool, is_found: bool) -> None:
        """Count a stretch."""
        self._true += is_true * duration
        self._found += is_found * duration
        self._both += (is_true and is_found) * duration

    def merge(self, other: "Detection") -> None:
        """Add another one's time."""
        self._true += other._true
        self._found += other._found
        self._both += other._both

    @property
    def true_seconds(self) -> float:
        """For how long it held."""
        return seconds(self._true)

    @property
    def precision(self) -> float | None:
        """The share of what was found that held; `None` where nothing was found."""
        return self._both / self._found if self._found else None

    @property
    def recall(self) -> float | None:
        """The share of what held that was found; `None` where it never held."""
        return self._both / self._true if self._true else None

"""Which phase of a task is on at a time: pure, and open to any time in any order."""

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.telemetry.simulated.noise import uniform
from rightsizer.telemetry.simulated.plan import DAY_SECONDS, MemoryPlan, Phase, Task

__all__ = ["Schedule"]

_DAY = nanoseconds(DAY_SECONDS)


class Schedule:
    """A task's timetable."""

    def __init__(self, task: Task, key: int) -> None:
        """The timetable of a task, with a noise key for its phases' jitter."""
        self._key = key
        self._start = task.start_seconds
        self._run = (task.stop_seconds - task.start_seconds) % DAY_SECONDS or DAY_SECONDS
        self._special = tuple(phase for phase in task.phases if phase.between is not None)
        self._cycle = tuple(phase for phase in task.phases if phase.between is None)
        self._ends: list[float] = []
        self._play: list[float] = []
        end = 0.0
        for phase in self._cycle:
            end += phase.seconds
            self._ends.append(end)
        for phase, after in zip(self._cycle, self._cycle[1:], strict=False):
            self._play.append(phase.jitter_ratio * min(phase.seconds, after.seconds))

    def phase(self, time: Nanoseconds) -> Phase | None:
        """The phase at a time; `None` while the task does not run."""
        elapsed = self.elapsed_seconds(time)
        if elapsed is None:
            return None
        moment = time % _DAY / NANOSECONDS_PER_SECOND
        for phase in self._special:
            start, stop = phase.between or (0.0, 0.0)
            if (moment - start) % DAY_SECONDS < (stop - start) % DAY_SECONDS:
                return phase
        return self._cycled(elapsed, time // _DAY)

    def elapsed_seconds(self, time: Nanoseconds) -> float | None:
        """Seconds since the task's start of this day; `None` while it does not run."""
        elapsed = (time % _DAY / NANOSECONDS_PER_SECOND - self._start) % DAY_SECONDS
        return elapsed if elapsed < self._run else None

    def memory_bytes(self, plan: MemoryPlan, time: Nanoseconds) -> float:
        """What a plan holds at a time, 0 while the task does not run."""
        elapsed = self.elapsed_seconds(time)
        if elapsed is None:
            return 0.0
        return plan.first_bytes + (plan.last_bytes - plan.first_bytes) * elapsed / self._run

    def _cycled(self, elapsed: float, day: int) -> Phase:
        if len(self._cycle) == 1:
            return self._cycle[0]
        # A cycle's own ends stay in place, so that any one of them is found without the others.
        cycle, rest = divmod(elapsed, self._ends[-1])
        step = (day * 100_000 + int(cycle)) * len(self._cycle)
        for index, play in enumerate(self._play):
            moved = play * (uniform(self._key, step + index) - 0.5) if play else 0.0
            if rest < self._ends[index] + moved:
                return self._cycle[index]
        return self._cycle[-1]

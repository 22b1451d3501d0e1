"""Workloads of a scenario over time: phase, load, processes and memory on each device."""

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Final

from msgspec import Struct

from rightsizer.model.values import (
    DAY_SECONDS,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    Process,
    Workload,
    nanoseconds,
)
from rightsizer.owners.collector import WorkloadResolver
from rightsizer.simulator.activity import DeviceLoad
from rightsizer.simulator.scenario import (
    DeviceLocation,
    HostLoad,
    MemoryPlan,
    SimulatedScenario,
    SimulatedTask,
    TaskPhase,
)
from rightsizer.simulator.transients import channel, smooth, uniform

_DAY = nanoseconds(DAY_SECONDS)
_FIRST_PID: Final = 4201
_PIDS_OF_TASK: Final = 512
_DRIFT_PERIOD: Final[Nanoseconds] = 45 * NANOSECONDS_PER_SECOND
_DRIFT_RATIO: Final = 0.04
"""Amplitude of the drift of a workload's pace, common to all its signals and devices."""
_IDLE_HOST_CPU: Final = 0.015


class TaskSchedule:
    """Timetable of a task."""

    def __init__(self, task: SimulatedTask, key: int) -> None:
        self._key = key
        self._start = task.start_seconds
        self._run = (task.stop_seconds - task.start_seconds) % DAY_SECONDS or DAY_SECONDS
        self._special = tuple(phase for phase in task.phases if phase.between is not None)
        self._cycle = tuple(phase for phase in task.phases if phase.between is None)
        self._ends = list(accumulate(phase.seconds for phase in self._cycle))
        self._play = [
            phase.jitter_ratio * min(phase.seconds, after.seconds)
            for phase, after in pairwise(self._cycle)
        ]

    def phase(self, time: Nanoseconds) -> TaskPhase | None:
        """Return the phase at a time, or `None` while the task does not run."""
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
        """Return the seconds since the day's start of the task, or `None` while it does not run."""
        elapsed = (time % _DAY / NANOSECONDS_PER_SECOND - self._start) % DAY_SECONDS
        return elapsed if elapsed < self._run else None

    def memory_bytes(self, plan: MemoryPlan, time: Nanoseconds) -> float:
        """Return the memory of a plan at a time; 0 while the task does not run."""
        elapsed = self.elapsed_seconds(time)
        if elapsed is None:
            return 0.0
        return plan.first_bytes + (plan.last_bytes - plan.first_bytes) * elapsed / self._run

    def _cycled(self, elapsed: float, day: int) -> TaskPhase:
        if len(self._cycle) == 1:
            return self._cycle[0]
        # Cycle ends are fixed, so that any cycle can be found without the others.
        cycle, rest = divmod(elapsed, self._ends[-1])
        step = (day * 100_000 + int(cycle)) * len(self._cycle)
        for index, play in enumerate(self._play):
            moved = play * (uniform(self._key, step + index) - 0.5) if play else 0.0
            if rest < self._ends[index] + moved:
                return self._cycle[index]
        return self._cycle[-1]


class DeviceTask(Struct, frozen=True):
    """A workload on one device at one time."""

    task: SimulatedTask
    phase: TaskPhase
    load: DeviceLoad
    pids: tuple[int, ...]
    memory_bytes: float

    @property
    def processes(self) -> tuple[Process, ...]:
        """Its processes, each with an equal part of the memory."""
        process_bytes = int(self.memory_bytes / len(self.pids))
        kind = self.task.process_kind
        return tuple(Process(pid, process_bytes, kind) for pid in self.pids)


class _TaskTimeline:
    """One task with its schedule and noise."""

    def __init__(self, seed: int, number: int, task: SimulatedTask) -> None:
        self.task = task
        name = task.workload.key
        self.schedule = TaskSchedule(task, channel(seed, name, "phases"))
        self._requests = channel(seed, name, "load")
        self._drift = channel(seed, name, "drift")
        self._first_pid = _FIRST_PID + number * _PIDS_OF_TASK

    def pids(self, place: int) -> tuple[int, ...]:
        first = self._first_pid + place * self.task.processes
        return tuple(range(first, first + self.task.processes))

    def intensity(self, time: Nanoseconds) -> float:
        return self.task.shape.intensity(self._requests, time)

    def load(self, phase: TaskPhase, time: Nanoseconds) -> DeviceLoad:
        intensity = self.intensity(time) if phase.follows_load else 1.0
        if intensity <= 0.0:
            return DeviceLoad()
        pace = 1.0 + _DRIFT_RATIO * smooth(self._drift, time, _DRIFT_PERIOD)
        return DeviceLoad.of(phase.activity, intensity, pace)


class SimulatedWorkloads(WorkloadResolver):
    """All workloads of a node; resolves its processes to them."""

    def __init__(self, scenario: SimulatedScenario) -> None:
        self._cores = scenario.cores
        self._workers = [
            _TaskTimeline(scenario.seed, number, task) for number, task in enumerate(scenario.tasks)
        ]
        self._at: dict[DeviceLocation, list[tuple[_TaskTimeline, int]]] = {}
        self._of_pid: dict[int, _TaskTimeline] = {}
        for worker in self._workers:
            for place, spot in enumerate(worker.task.spots):
                self._at.setdefault(spot, []).append((worker, place))
                self._of_pid |= dict.fromkeys(worker.pids(place), worker)

    def members(self, spot: DeviceLocation, time: Nanoseconds) -> tuple[DeviceTask, ...]:
        """Return the active workloads on a GPU or an instance."""
        members = []
        for worker, place in self._at.get(spot, ()):
            phase = worker.schedule.phase(time)
            if phase is not None:
                plan = worker.task.memory[place]
                held = worker.schedule.memory_bytes(plan, time)
                load = worker.load(phase, time)
                members.append(DeviceTask(worker.task, phase, load, worker.pids(place), held))
        return tuple(members)

    def intensity(self, key: str, time: Nanoseconds) -> float:
        """Return the load of a workload as a part of its full load; 0 while it does not run."""
        (worker,) = (worker for worker in self._workers if worker.task.workload.key == key)
        return 0.0 if worker.schedule.phase(time) is None else worker.intensity(time)

    def workload_of(self, pid: int) -> Workload | None:
        """Return the workload of a process, or `None` if it is not of the scenario."""
        worker = self._of_pid.get(pid)
        return worker.task.workload if worker else None

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def host(self, time: Nanoseconds) -> HostLoad:
        """Return the node's load: cores in use, and the highest pressure of a workload."""
        running = [(worker, worker.schedule.phase(time)) for worker in self._workers]
        used = sum(phase.host.cpu * worker.task.cores for worker, phase in running if phase)
        hosts = [phase.host for _, phase in running if phase]
        return _worst(min(1.0, _IDLE_HOST_CPU + used / self._cores), hosts)

    def owner_host(self, pids: Iterable[int], time: Nanoseconds) -> HostLoad | None:
        """Return the load of the processes' owners: CPU of their quotas, highest pressure."""
        workers = {
            worker.task.workload.key: worker for pid in pids if (worker := self._of_pid.get(pid))
        }
        hosts = [
            phase.host
            for worker in workers.values()
            if (phase := worker.schedule.phase(time)) is not None
        ]
        return _worst(max(host.cpu for host in hosts), hosts) if hosts else None


def _worst(cpu: float, hosts: list[HostLoad]) -> HostLoad:
    return HostLoad(
        cpu,
        max((host.cpu_pressure for host in hosts), default=0.0),
        max((host.io_pressure for host in hosts), default=0.0),
        max((host.memory_pressure for host in hosts), default=0.0),
    )

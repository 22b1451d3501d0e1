"""The workloads of a scenario at work: who is where, how hard, and with which processes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.reading import Process
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.workload import Workload
from rightsizer.telemetry.simulated.activity import Load
from rightsizer.telemetry.simulated.noise import channel, smooth
from rightsizer.telemetry.simulated.plan import Host, Phase, Scenario, Spot, Task
from rightsizer.telemetry.simulated.schedule import Schedule

__all__ = ["Crew", "Member"]

_FIRST_PID: Final = 4201
_PIDS_OF_TASK: Final = 512
_DRIFT_PERIOD: Final[Nanoseconds] = 45 * NANOSECONDS_PER_SECOND
_DRIFT_RATIO: Final = 0.04
"""How far a workload's pace wanders to either side; all its signals and devices together."""
_IDLE_HOST_CPU: Final = 0.015


@dataclass(frozen=True, slots=True)
class Member:
    """A workload on one device at one time."""

    task: Task
    phase: Phase
    load: Load
    pids: tuple[int, ...]
    memory_bytes: float

    @property
    def processes(self) -> tuple[Process, ...]:
        """Its processes, each with its part of the memory."""
        each = int(self.memory_bytes / len(self.pids))
        kind = self.task.process_kind
        return tuple(Process(pid, each, kind) for pid in self.pids)


class _Worker:
    """One task with its timetable and its noise."""

    def __init__(self, seed: int, number: int, task: Task) -> None:
        self.task = task
        name = task.workload.key
        self.schedule = Schedule(task, channel(seed, name, "phases"))
        self._requests = channel(seed, name, "load")
        self._drift = channel(seed, name, "drift")
        self._first_pid = _FIRST_PID + number * _PIDS_OF_TASK

    def pids(self, place: int) -> tuple[int, ...]:
        first = self._first_pid + place * self.task.processes
        return tuple(range(first, first + self.task.processes))

    def load(self, phase: Phase, time: Nanoseconds) -> Load:
        intensity = self.task.shape.intensity(self._requests, time) if phase.follows_load else 1.0
        if intensity <= 0.0:
            return Load()
        pace = 1.0 + _DRIFT_RATIO * smooth(self._drift, time, _DRIFT_PERIOD)
        return Load.of(phase.activity, intensity, pace)


class Crew:
    """All the workloads of a node."""

    def __init__(self, scenario: Scenario) -> None:
        """The workloads of a scenario."""
        self._workers = [
            _Worker(scenario.seed, number, task) for number, task in enumerate(scenario.tasks)
        ]
        self._at: dict[Spot, list[tuple[_Worker, int]]] = {}
        self._of_pid: dict[int, _Worker] = {}
        for worker in self._workers:
            for place, spot in enumerate(worker.task.spots):
                self._at.setdefault(spot, []).append((worker, place))
                self._of_pid |= dict.fromkeys(worker.pids(place), worker)

    def members(self, spot: Spot, time: Nanoseconds) -> tuple[Member, ...]:
        """Who is at work on a GPU or an instance."""
        members = []
        for worker, place in self._at.get(spot, ()):
            phase = worker.schedule.phase(time)
            if phase is not None:
                plan = worker.task.memory[place]
                held = worker.schedule.memory_bytes(plan, time)
                load = worker.load(phase, time)
                members.append(Member(worker.task, phase, load, worker.pids(place), held))
        return tuple(members)

    def workload_of(self, pid: int) -> Workload | None:
        """Whose process it is."""
        worker = self._of_pid.get(pid)
        return worker.task.workload if worker else None

    def host(self, time: Nanoseconds, cores: float) -> Host:
        """The node: CPU by the cores in use, pressure of whoever suffers most."""
        used, hosts = 0.0, []
        for worker in self._workers:
            phase = worker.schedule.phase(time)
            if phase is not None:
                used += phase.host.cpu * worker.task.cores
                hosts.append(phase.host)
        return _worst(min(1.0, _IDLE_HOST_CPU + used / cores), hosts)

    def owner_host(self, pids: Iterable[int], time: Nanoseconds) -> Host | None:
        """The owners of some processes: CPU of their quotas, pressure of the worst."""
        workers = {
            worker.task.workload.key: worker for pid in pids if (worker := self._of_pid.get(pid))
        }
        hosts = [
            phase.host
            for worker in workers.values()
            if (phase := worker.schedule.phase(time)) is not None
        ]
        return _worst(max(host.cpu for host in hosts), hosts) if hosts else None


def _worst(cpu: float, hosts: list[Host]) -> Host:
    return Host(
        cpu,
        max((host.cpu_pressure for host in hosts), default=0.0),
        max((host.io_pressure for host in hosts), default=0.0),
        max((host.memory_pressure for host in hosts), default=0.0),
    )

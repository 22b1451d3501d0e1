"""A scenario as another day might have brought it: every seed changes what its kernels do.

Labels stay as they are written; the figures behind them wander, so that no threshold can be set
by knowing them. Where a wandering figure makes a label a close call, that counts against us.
"""

from random import Random
from typing import Final

from msgspec.structs import replace

from rightsizer.simulator.activity import KernelActivity
from rightsizer.simulator.scenario import HostLoad, SimulatedScenario, SimulatedTask, TaskPhase

_SPREAD: Final = 0.12
_SPREAD_OF_GAPS: Final = 0.3
_SPREAD_OF_LENGTHS: Final = 0.3
_SPREAD_OF_PRESSURE: Final = 0.2
_HALF: Final = 0.5
_RATIOS: Final = tuple(field for field in KernelActivity.__struct_fields__)


def varied(scenario: SimulatedScenario, seed: int) -> SimulatedScenario:
    """The scenario with a seed, its activities, lengths of phases and host loads changed by it."""
    random = Random(f"{scenario.name} {seed}")
    activities: dict[KernelActivity, KernelActivity] = {}
    tasks = tuple(_task(task, random, activities) for task in scenario.tasks)
    return replace(scenario, seed=seed, tasks=tasks)


def _task(
    task: SimulatedTask, random: Random, activities: dict[KernelActivity, KernelActivity]
) -> SimulatedTask:
    return replace(task, phases=tuple(_phase(phase, random, activities) for phase in task.phases))


def _phase(
    phase: TaskPhase, random: Random, activities: dict[KernelActivity, KernelActivity]
) -> TaskPhase:
    # One activity is the same kernels wherever it occurs.
    if phase.activity not in activities:
        activities[phase.activity] = _activity(phase.activity, random)
    return replace(
        phase,
        activity=activities[phase.activity],
        seconds=max(1.0, phase.seconds * _factor(random, _SPREAD_OF_LENGTHS)),
        host=_host(phase.host, random),
    )


def _activity(activity: KernelActivity, random: Random) -> KernelActivity:
    return replace(activity, **{name: _moved(getattr(activity, name), random) for name in _RATIOS})


def _host(host: HostLoad, random: Random) -> HostLoad:
    factor = _factor(random, _SPREAD_OF_PRESSURE)
    return HostLoad(
        cpu=_moved(host.cpu, random),
        cpu_pressure=min(1.0, host.cpu_pressure * factor),
        io_pressure=min(1.0, host.io_pressure * factor),
        memory_pressure=min(1.0, host.memory_pressure * factor),
    )


def _moved(value: float, random: Random) -> float:
    """Vary a figure near its maximum by its distance from it, so that a full GPU stays full."""
    if value > _HALF + _SPREAD:
        gap = 1.0 - value
        by_gap = 1.0 - gap * _factor(random, _SPREAD_OF_GAPS)
        return min(by_gap, value * (1.0 + _SPREAD))
    return value * _factor(random, _SPREAD)


def _factor(random: Random, spread: float) -> float:
    return random.uniform(1.0 - spread, 1.0 + spread)

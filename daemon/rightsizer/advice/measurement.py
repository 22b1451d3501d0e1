"""What a workload wastes, draws and suffers: the figures that are compared before and after."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case
from rightsizer.domain.state import Condition, State
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window
from rightsizer.domain.workload import WorkloadClass

__all__ = ["Measured", "Measurement", "measure", "measure_all"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A workload over a span of time."""

    gpus: float
    """That it holds, MIG instances by their part."""
    waste_ratio: float
    """Of the known time, 0 to 1."""
    watts: float | None
    """All GPUs together; `None` where no energy was measured."""
    harms: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Shares of the known time, 0 to 1, by what one would not want more of."""
    boards: tuple[str, ...] = ()
    """Board and MIG profile of each device, in order of the alphabet."""
    devices: tuple[str, ...] = ()
    """Uuids, in order of the alphabet."""
    workload_class: str = WorkloadClass.UNKNOWN

    @property
    def wasted_gpus(self) -> float:
        """GPUs' worth of time that is wasted."""
        return self.gpus * self.waste_ratio


Measured = Callable[[Nanoseconds], Mapping[str, Measurement]]
"""What is measured of each workload over the last span of time, by key."""


def measure_all(cases: Iterable[Case]) -> dict[str, Measurement]:
    """What can be measured, by the case's key."""
    found = {case.key: measure(case) for case in cases}
    return {key: each for key, each in found.items() if each is not None}


def measure(case: Case) -> Measurement | None:
    """What a case came to; `None` where nothing is known of it."""
    known = sum(window.known for window in case.windows)
    wasted = sum(sum(window.waste_seconds.values()) for window in case.windows)
    accounted = wasted + sum(window.used_seconds for window in case.windows)
    if known <= 0 or accounted <= 0.0:
        return None
    joules = [window.energy_joules for window in case.windows]
    return Measurement(
        gpus=sum(device.capacity_ratio for device in case.devices),
        waste_ratio=wasted / accounted,
        watts=sum(joules) / known * 1e9 * len(joules) if all(joules) else None,
        harms={
            name: sum(part(window) for window in case.windows) / known
            for name, part in _HARMS.items()
        },
        boards=tuple(sorted(map(_board, case.devices))),
        devices=tuple(sorted(device.uuid for device in case.devices)),
        workload_class=case.workload.workload_class if case.workload else WorkloadClass.UNKNOWN,
    )


def _board(device: Device) -> str:
    return f"{device.board}/{device.mig.profile}" if device.mig else str(device.board)


def _throttled(window: Window) -> Nanoseconds:
    held = window.conditions
    return max(
        held.get(condition, 0)
        for condition in (
            Condition.POWER_THROTTLED,
            Condition.THERMAL_THROTTLED,
            Condition.HARDWARE_SLOWDOWN,
        )
    )


_HARMS: Mapping[str, Callable[[Window], Nanoseconds]] = {
    "near_out_of_memory": lambda window: window.conditions.get(Condition.NEAR_OUT_OF_MEMORY, 0),
    "pressed": lambda window: max(window.pressed.values(), default=0),
    "throttled": _throttled,
    "stalled": lambda window: window.states.get(State.HIDDEN_STALL, 0),
}

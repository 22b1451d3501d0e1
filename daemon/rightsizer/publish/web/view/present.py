"""What the devices do at this moment, counted."""

from collections.abc import Collection
from dataclasses import dataclass

from rightsizer.domain.report import DeviceReport, Report
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import IDLE_STATES, State

__all__ = ["Present", "present"]


@dataclass(frozen=True, slots=True)
class Present:
    """The devices that have a state of their own: MIG instances, and GPUs without any."""

    counted: int
    working: int
    idle: int
    stalled: int
    unknown: int
    """Those without fresh readings too."""
    gpus: int
    """Physical ones."""
    silent: int
    """Devices of any kind without fresh readings."""
    power_watts: float | None
    """Of the GPUs that tell; `None` where none does."""


def present(report: Report, fresh: Collection[str]) -> Present:
    """The count of a report, by which of its devices are fresh."""
    counted = [device for device in report.devices if not device.device.has_mig_instances]
    states = [_state(device, fresh) for device in counted]
    draws = [
        device.signals[Signal.POWER_WATTS]
        for device in report.devices
        if device.device.mig is None
        and device.device.uuid in fresh
        and Signal.POWER_WATTS in device.signals
    ]
    idle = sum(state in IDLE_STATES for state in states)
    stalled, unknown = states.count(State.HIDDEN_STALL), states.count(State.UNKNOWN)
    return Present(
        counted=len(counted),
        working=len(counted) - idle - stalled - unknown,
        idle=idle,
        stalled=stalled,
        unknown=unknown,
        gpus=sum(device.device.mig is None for device in report.devices),
        silent=sum(device.device.uuid not in fresh for device in report.devices),
        power_watts=sum(draws) if draws else None,
    )


def _state(device: DeviceReport, fresh: Collection[str]) -> State:
    return device.state if device.device.uuid in fresh else State.UNKNOWN

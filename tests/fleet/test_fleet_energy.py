"""Energy where power was read: of time with unknown state, and of the parts of a GPU."""

from typing import Any, Final

import numpy as np
import pytest

from cached_fleet import subject_of
from dcgm_estate import YESTERDAY
from readings import gpu
from rightsizer.accounting.settings import EntrySettings
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.day_accounting import DeviceReadings, WatchedDevices, accounted_days
from rightsizer.fleet.sources.dcgm_exporter.readings import DayQueries, part_watts
from rightsizer.fleet.usage import HeldDevice, UseSum, holder_hours
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.signal import Signal
from rightsizer.model.units import JOULES_PER_KILOWATT_HOUR

COUNT: Final = YESTERDAY.count
KNOWN: Final = np.full((1, COUNT), 300.0)


def used(device: Device, read: DeviceReadings) -> UseSum:
    """All hours of a day of a device that nothing is known to hold."""
    watched = WatchedDevices([device], [()], KNOWN, YESTERDAY)
    (frame,) = accounted_days(watched, read, EntrySettings())
    days = subject_of(frame)
    whole = UseSum()
    span = YESTERDAY.start, YESTERDAY.end
    held = HeldDevice(FleetDevice(device, "n", "p"), days, ())
    for use in holder_hours([held], span)[device.uuid].values():
        whole.add(use)
    return whole


def test_energy_is_known_where_the_state_is_not() -> None:
    """Utilization is exported for half of the day, power for all of it."""
    busy = np.full((1, COUNT), np.nan)
    busy[:, : COUNT // 2] = 0.97
    read = DeviceReadings({Signal.GPU_BUSY: busy, Signal.POWER_WATTS: np.full((1, COUNT), 400.0)})
    found = used(gpu(), read)
    assert (found.held, found.unknown) == pytest.approx((12.0, 12.0))
    assert found.joules / JOULES_PER_KILOWATT_HOUR == pytest.approx(0.4 * 24, rel=1e-3)


class BoardStore:
    """Each instance of a GPU with the power of the whole, as an exporter repeats it."""

    def range(self, *_: object) -> list[SampledSeries]:
        """Four instances."""
        times = np.array([YESTERDAY.time(place + 1) for place in range(COUNT)])
        return [
            SampledSeries(
                {"UUID": "GPU-0", "GPU_I_ID": str(number), "GPU_I_PROFILE": "1g.6gb"},
                times,
                np.full(COUNT, 52.6),
            )
            for number in range(3, 7)
        ]


def test_instances_have_their_part_of_the_power_of_their_gpu() -> None:
    """Neither each the whole, nor nothing."""
    instances = [
        gpu(uuid=f"GPU-0/gi{number}", mig=MigInstance("GPU-0", "1g.6gb", number, 0, 0.25, 0.25))
        for number in range(3, 7)
    ]
    store: Any = BoardStore()
    queries = DayQueries(store, YESTERDAY, ("GPU-0",), ("UUID",))
    metrics = frozenset({"DCGM_FI_DEV_POWER_USAGE"})
    parts = part_watts(queries, metrics, dict(enumerate(instances)), len(instances))
    assert parts.sum(axis=0) == pytest.approx(52.6)
    joules = 0.0
    for row, device in enumerate(instances):
        read = DeviceReadings(
            {Signal.SM_ACTIVE: np.full((1, COUNT), 0.3)}, part_watts=parts[row : row + 1]
        )
        joules += used(device, read).joules
    assert joules / JOULES_PER_KILOWATT_HOUR == pytest.approx(0.0526 * 24, rel=1e-3)

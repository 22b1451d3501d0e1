"""Rounds of the collectors over a driver, without the live source around them."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from nvml_driver import installed, patient_settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import Clock, FastClock
from rightsizer.model.reading import Reading
from rightsizer.telemetry.nvml.device_reader import DeviceReader, PollResult
from rightsizer.telemetry.nvml.driver import NvmlDriver
from rightsizer.telemetry.nvml.inventory import Inventory

__all__ = ["driver_thread", "inventory_of", "one_reading", "rounds"]


@contextmanager
def driver_thread(driver: object, root: Path | None = None) -> Iterator[NvmlDriver]:
    """Context of the thread that initializes NVML."""
    root = root or Path("/nowhere")
    with (
        installed(driver),
        NvmlDriver(itertools.count(), built_in(), root, root=root) as nvml_driver,
    ):
        yield nvml_driver


def inventory_of(driver: object) -> Inventory:
    """Result of a first discovery."""
    with driver_thread(driver) as nvml_driver:
        found = nvml_driver.find_devices()
    assert isinstance(found, Inventory)
    return found


@contextmanager
def rounds(
    driver: object, clock: Clock | None = None, **settings: Any
) -> Iterator[Callable[[], list[PollResult]]]:
    """A function that reads all GPUs of the first discovery, one round each."""
    clock = clock or FastClock(0)
    with driver_thread(driver) as nvml_driver, ExitStack() as stack:
        found = nvml_driver.find_devices()
        assert isinstance(found, Inventory)
        sessions = [
            stack.enter_context(
                DeviceReader(gpu, clock=clock, settings=patient_settings(**settings))
            )
            for gpu in found.gpus
        ]
        yield lambda: [session.read() for session in sessions]


def one_reading(driver: object, uuid: str = "GPU-0") -> Reading:
    """The first reading of a device."""
    with rounds(driver) as read:
        return next(
            poll_result.readings[uuid] for poll_result in read() if uuid in poll_result.readings
        )

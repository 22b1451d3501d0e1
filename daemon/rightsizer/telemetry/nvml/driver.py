"""NVML opened and closed, and what an operator is told when it will not open."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import pynvml

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.telemetry.nvml.facts import Facts
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.inventory import Inventory, take_inventory
from rightsizer.telemetry.nvml.library import Library

__all__ = ["Driver", "explain"]

_REMEDIES: Final[Mapping[int | None, str]] = MappingProxyType(
    {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 was not found: install the NVIDIA "
        "driver, or start the container with the NVIDIA runtime",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded: "
        "run 'modprobe nvidia' and look for its reason in 'dmesg'",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA driver was updated, but the kernel "
        "module in use is the former one: reload the module or reboot, then restart rightsizer",
        pynvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA devices may not be opened: give this user "
        "/dev/nvidiactl and /dev/nvidia0 and up",
    }
)


def explain(failure: Failure) -> str:
    """Why there is no driver, and what to do about it."""
    return _REMEDIES.get(failure.code, f"NVML does not answer: {failure}")


class Driver:
    """NVML as one thread opens and closes it for all the others."""

    def __init__(self, generations: Iterator[int], catalogue: Catalogue, sysfs: Path) -> None:
        """Closed. Each opening takes the next generation."""
        self.library = Library()
        self._generations = generations
        self._facts = Facts(self.library, catalogue, sysfs)
        self._generation: int | None = None

    def look(self) -> Inventory | Failure:
        """All devices; opens NVML where it is closed."""
        if self._generation is None:
            failure = self.library.ask("nvmlInit")
            if isinstance(failure, Failure):
                return failure
            self._generation = next(self._generations)
        found = take_inventory(self._facts, self._generation)
        if isinstance(found, Failure) and found.driver_is_gone:
            self.close()
        return found

    def close(self) -> None:
        """Close NVML; handles of this opening are worth nothing from here on."""
        if self._generation is not None:
            self.library.ask("nvmlShutdown")
            self._generation = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

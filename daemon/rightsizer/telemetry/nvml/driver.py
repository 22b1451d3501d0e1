"""NVML opened and closed, and what an operator is told when it will not open."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import pynvml

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.reading import Missing
from rightsizer.telemetry.nvml.facts import Facts
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.impasses import PEERS, Impasses
from rightsizer.telemetry.nvml.inventory import Inventory, take_inventory
from rightsizer.telemetry.nvml.library import Library
from rightsizer.telemetry.nvml.peers import PeerReader
from rightsizer.telemetry.nvml.wiring import WiringSurvey
from rightsizer.telemetry.topology.bus import BusGpu, expected_gpus
from rightsizer.telemetry.topology.told import Told

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


_ALL_ASLEEP: Final = Failure(
    Missing.SUSPENDED, "the PCI bus", "all GPUs are asleep, and asking would wake them"
)


def explain(failure: Failure) -> str:
    """Why there is no driver, and what to do about it."""
    if failure.reason is Missing.SUSPENDED:
        return failure.detail
    return _REMEDIES.get(failure.code, f"NVML does not answer: {failure}")


class Driver:
    """NVML as one thread opens and closes it for all the others."""

    def __init__(
        self,
        generations: Iterator[int],
        catalogue: Catalogue,
        sysfs: Path,
        *,
        impasses: Impasses | None = None,
        standing: Callable[[], Inventory | None] = lambda: None,
    ) -> None:
        """Closed.

        Args:
            generations: Each opening takes the next.
            catalogue: Facts of boards.
            sysfs: Where it is mounted.
            impasses: Where threads hang that looked before this one.
            standing: What such a thread found before; NVML is open for it still.
        """
        self._impasses = impasses or Impasses()
        self._standing = standing
        self.library = Library()
        self._generations = generations
        self._facts = Facts(self.library, catalogue, sysfs, WiringSurvey(self.library))
        self._generation: int | None = None
        self._known: Inventory | None = None
        self._peers = PeerReader(self.library)
        self.versions: Mapping[str, str] = MappingProxyType({})
        """Of what was opened last: `driver_version`, `cuda_version`, `nvml_version`."""

    def look(self) -> Inventory | Failure:
        """All devices; opens NVML where it is closed."""
        bus = expected_gpus(self._facts.sysfs)
        if self._generation is None:
            opened = self._open(bus)
            if isinstance(opened, Failure):
                return opened
            self._generation = opened
        found = take_inventory(
            self._facts, self._generation, self._known or self._standing(), bus, self._impasses
        )
        if isinstance(found, Inventory):
            with self._impasses.at(PEERS, self.library) as impasse:
                told = self._peers.read(found) if impasse is None else Told()
            found = self._known = replace(found, versions=self.versions, told=told)
        elif found.driver_is_gone:
            self.close()
        return found

    def _open(self, bus: Sequence[BusGpu]) -> int | Failure:
        """Open NVML, without attaching it to all GPUs where some are asleep; its generation."""
        if bus and all(gpu.is_asleep for gpu in bus):
            return _ALL_ASLEEP
        if any(gpu.is_asleep for gpu in bus):
            opened = self.library.ask("nvmlInitWithFlags", pynvml.NVML_INIT_FLAG_NO_ATTACH)
        else:
            opened = self.library.ask("nvmlInit")
        if isinstance(opened, Failure):
            return opened
        self.versions = MappingProxyType(_versions(self.library))
        return next(self._generations)

    def close(self) -> None:
        """Close NVML; handles of this opening are worth nothing from here on."""
        if self._generation is not None:
            self.library.ask("nvmlShutdown")
            self._generation = self._known = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _versions(library: Library) -> dict[str, str]:
    """What the driver says of itself; a version that it does not tell is left out."""
    cuda = library.ask("nvmlSystemGetCudaDriverVersion_v2")
    if isinstance(cuda, Failure):
        cuda = library.ask("nvmlSystemGetCudaDriverVersion")
    versions = {
        "driver_version": library.ask("nvmlSystemGetDriverVersion"),
        # 12040 is CUDA 12.4.
        "cuda_version": cuda
        if isinstance(cuda, Failure)
        else (f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda > 0 else ""),
        "nvml_version": library.ask("nvmlSystemGetNVMLVersion"),
    }
    return {
        name: str(told) for name, told in versions.items() if not isinstance(told, Failure) and told
    }

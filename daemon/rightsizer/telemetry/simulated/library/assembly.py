"""The library as a whole: every function by its name, bound to one driver."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.library.clocks import CLOCKS
from rightsizer.telemetry.simulated.library.driver import Driver
from rightsizer.telemetry.simulated.library.events import EVENTS, EVENTS_SYSTEM
from rightsizer.telemetry.simulated.library.faults import Faults
from rightsizer.telemetry.simulated.library.fields import FIELDS
from rightsizer.telemetry.simulated.library.gpm import PROFILING, PROFILING_SYSTEM
from rightsizer.telemetry.simulated.library.health import HEALTH
from rightsizer.telemetry.simulated.library.identity import (
    IDENTITY,
    IDENTITY_OF_INSTANCES,
    LOOKUP,
)
from rightsizer.telemetry.simulated.library.memory import MEMORY, MEMORY_OF_INSTANCES
from rightsizer.telemetry.simulated.library.mig import MIG, MIG_OF_INSTANCES
from rightsizer.telemetry.simulated.library.nvlink import NVLINK
from rightsizer.telemetry.simulated.library.pcie import PCIE
from rightsizer.telemetry.simulated.library.power import POWER
from rightsizer.telemetry.simulated.library.processes import PROCESSES, PROCESSES_OF_INSTANCES
from rightsizer.telemetry.simulated.library.symbol import DeviceSymbol, Symbol
from rightsizer.telemetry.simulated.library.system import SYSTEM
from rightsizer.telemetry.simulated.library.thermal import THERMAL
from rightsizer.telemetry.simulated.library.topology import TOPOLOGY
from rightsizer.telemetry.simulated.library.utilization import UTILIZATION
from rightsizer.telemetry.simulated.node import Node

__all__ = ["SimulatedLibrary"]

_BEFORE_START: Final = (SYSTEM,)
_SYSTEM: Final = (LOOKUP, PROFILING_SYSTEM, EVENTS_SYSTEM)
_OF_DEVICES: Final = (
    *(IDENTITY, MEMORY, UTILIZATION, PROCESSES, POWER, CLOCKS, THERMAL, PCIE, NVLINK, FIELDS),
    *(MIG, PROFILING, HEALTH, TOPOLOGY, EVENTS),
)
_OF_INSTANCES: Final = (
    *(IDENTITY_OF_INSTANCES, MEMORY_OF_INSTANCES, PROCESSES_OF_INSTANCES, MIG_OF_INSTANCES),
)


class SimulatedLibrary:
    """Stands where nvidia-ml-py keeps the loaded `libnvidia-ml.so.1`.

    Its attributes are the library's functions; one that the library lacks is an AttributeError,
    as a missing symbol is. `faults` makes things go wrong.
    """

    def __init__(self, node: Node, time: Callable[[], Nanoseconds]) -> None:
        """A library on a node.

        Args:
            node: What the driver drives.
            time: The wall clock that readings are taken by.
        """
        self.faults = Faults()
        driver = Driver(node, time, self.faults)
        self._symbols: dict[str, Symbol | DeviceSymbol] = {}
        for table in _BEFORE_START:
            self._add(table, lambda *parts: Symbol(*parts, needs_start=False), driver)
        for table in _SYSTEM:
            self._add(table, Symbol, driver)
        for table in _OF_DEVICES:
            self._add(table, DeviceSymbol, driver)
        for table in _OF_INSTANCES:
            self._add(table, lambda *parts: DeviceSymbol(*parts, on_instances=True), driver)

    def _add(
        self,
        table: Mapping[str, Callable[..., Any]],
        bind: Callable[[str, Callable[..., Any], Driver], Symbol | DeviceSymbol],
        driver: Driver,
    ) -> None:
        for name, function in table.items():
            self._symbols[name] = bind(name, function, driver)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all the functions that the library has."""
        return tuple(name for name in self._symbols if not self.faults.is_removed(name))

    def __getattr__(self, name: str) -> Symbol | DeviceSymbol:
        symbols: dict[str, Symbol | DeviceSymbol] = self.__dict__.get("_symbols", {})
        symbol = symbols.get(name)
        if symbol is None or self.faults.is_removed(name):
            raise AttributeError(f"undefined symbol: {name}")
        return symbol

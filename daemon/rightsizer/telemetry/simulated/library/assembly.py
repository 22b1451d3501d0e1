"""The library as a whole: every function by its name, bound to one driver."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.library.clocks import CLOCKS
from rightsizer.telemetry.simulated.library.driver import Driver
from rightsizer.telemetry.simulated.library.events import EVENTS, EVENTS_SYSTEM
from rightsizer.telemetry.simulated.library.fabric import FABRIC
from rightsizer.telemetry.simulated.library.faults import Faults
from rightsizer.telemetry.simulated.library.fields import FIELDS
from rightsizer.telemetry.simulated.library.gpm import PROFILING, PROFILING_SYSTEM
from rightsizer.telemetry.simulated.library.health import HEALTH, HEALTH_OF_INSTANCES
from rightsizer.telemetry.simulated.library.identity import (
    IDENTITY,
    IDENTITY_OF_INSTANCES,
    LOOKUP,
)
from rightsizer.telemetry.simulated.library.instances import INSTANCES, INSTANCES_SYSTEM
from rightsizer.telemetry.simulated.library.memory import MEMORY, MEMORY_OF_INSTANCES
from rightsizer.telemetry.simulated.library.mig import MIG, MIG_OF_INSTANCES
from rightsizer.telemetry.simulated.library.nvlink import NVLINK
from rightsizer.telemetry.simulated.library.pcie import PCIE
from rightsizer.telemetry.simulated.library.power import POWER
from rightsizer.telemetry.simulated.library.processes import PROCESSES, PROCESSES_OF_INSTANCES
from rightsizer.telemetry.simulated.library.samples import SAMPLES
from rightsizer.telemetry.simulated.library.script import Script
from rightsizer.telemetry.simulated.library.sessions import SESSIONS
from rightsizer.telemetry.simulated.library.symbol import (
    AnySymbol,
    DeviceSymbol,
    MeteredSymbol,
    Symbol,
)
from rightsizer.telemetry.simulated.library.system import SYSTEM
from rightsizer.telemetry.simulated.library.thermal import THERMAL
from rightsizer.telemetry.simulated.library.topology import TOPOLOGY, TOPOLOGY_SYSTEM
from rightsizer.telemetry.simulated.library.utilization import UTILIZATION
from rightsizer.telemetry.simulated.node import Node

__all__ = ["SimulatedLibrary"]

_BEFORE_START: Final = (SYSTEM,)
_SYSTEM: Final = (LOOKUP, PROFILING_SYSTEM, EVENTS_SYSTEM, TOPOLOGY_SYSTEM, INSTANCES_SYSTEM)
_OF_DEVICES: Final = (
    *(IDENTITY, MEMORY, UTILIZATION, PROCESSES, POWER, CLOCKS, THERMAL, PCIE, NVLINK, FIELDS),
    *(MIG, PROFILING, HEALTH, TOPOLOGY, EVENTS, FABRIC, INSTANCES, SAMPLES, SESSIONS),
)
_OF_INSTANCES: Final = (
    *(IDENTITY_OF_INSTANCES, MEMORY_OF_INSTANCES, PROCESSES_OF_INSTANCES, MIG_OF_INSTANCES),
    HEALTH_OF_INSTANCES,
)


class SimulatedLibrary:
    """Stands where nvidia-ml-py keeps the loaded `libnvidia-ml.so.1`.

    Its attributes are the library's functions; one that the library lacks is an AttributeError,
    as a missing symbol is. `faults` makes things go wrong, beside what the scenario itself does.
    """

    def __init__(
        self,
        node: Node,
        time: Callable[[], Nanoseconds],
        *,
        latency: Callable[[str], float] | None = None,
        counts_calls: bool = False,
    ) -> None:
        """A library on a node.

        Args:
            node: What the driver drives.
            time: The wall clock that readings are taken by.
            latency: Seconds that a call of a function takes, slept for, as `assumed_latency`
                has them; `None` for a driver that answers at once.
            counts_calls: Whether `calls` counts the calls of each function.
        """
        self.calls: Counter[str] = Counter()
        self._latency = latency
        self._counts_calls = counts_calls
        self.faults = Faults(Script(node, time) if node.has_faults else None)
        driver = Driver(node, time, self.faults)
        self._symbols: dict[str, AnySymbol] = {}
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
            symbol = bind(name, function, driver)
            if self._latency is None and not self._counts_calls:
                self._symbols[name] = symbol
            else:
                self._symbols[name] = MeteredSymbol(symbol, self.calls, self._latency)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all the functions that the library has."""
        return tuple(name for name in self._symbols if not self.faults.is_removed(name))

    def __getattr__(self, name: str) -> AnySymbol:
        symbols: dict[str, AnySymbol] = self.__dict__.get("_symbols", {})
        symbol = symbols.get(name)
        if symbol is None or self.faults.is_removed(name):
            raise AttributeError(f"undefined symbol: {name}")
        return symbol

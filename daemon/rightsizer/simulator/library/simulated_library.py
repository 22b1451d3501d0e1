"""Simulated library: every function by name, callable like those of a loaded library."""

from collections.abc import Callable
from typing import Any, Final

from rightsizer.model.values import Nanoseconds
from rightsizer.simulator.library.board import BOARD, MEMORY_OF_INSTANCES
from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode
from rightsizer.simulator.library.driver import SimulatedDriver
from rightsizer.simulator.library.faults import ScenarioFaults
from rightsizer.simulator.library.fields import FIELDS
from rightsizer.simulator.library.gpm import PROFILING, PROFILING_SYSTEM
from rightsizer.simulator.library.health import EVENTS_SYSTEM, HEALTH, HEALTH_OF_INSTANCES
from rightsizer.simulator.library.identity import IDENTITY, IDENTITY_OF_INSTANCES, LOOKUP, SYSTEM
from rightsizer.simulator.library.links import LINKS
from rightsizer.simulator.library.mig import INSTANCES_SYSTEM, MIG, MIG_OF_INSTANCES
from rightsizer.simulator.library.utilization import PROCESSES_OF_INSTANCES, UTILIZATION
from rightsizer.simulator.node import SimulatedNode

_OF_SYSTEM: Final = (LOOKUP, PROFILING_SYSTEM, EVENTS_SYSTEM, INSTANCES_SYSTEM)
_OF_DEVICES: Final = (IDENTITY, UTILIZATION, BOARD, LINKS, FIELDS, MIG, PROFILING, HEALTH)
_OF_INSTANCES: Final = (
    IDENTITY_OF_INSTANCES,
    MEMORY_OF_INSTANCES,
    PROCESSES_OF_INSTANCES,
    MIG_OF_INSTANCES,
    HEALTH_OF_INSTANCES,
)


class LibraryFunction:
    """A function of the library with the bindings' calling convention; returns a code."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        driver: SimulatedDriver,
        *,
        needs_start: bool = True,
        on_instances: bool = False,
    ) -> None:
        """Create a function of the driver, or of devices, with its name in the library.

        `needs_start`: fails unless the library is initialized. `on_instances`: a device function
        that also supports MIG instances.
        """
        self.name = name
        self.restype: Any = None
        self._function = function
        self._driver = driver
        self._faults = driver.faults
        self._needs_start = needs_start
        self._on_instances = on_instances

    def __call__(self, *arguments: Any) -> Any:
        """Call the function; without a code of its own it returns success."""
        try:
            answer = self._call(*arguments)
        except NvmlCallError as refusal:
            return int(refusal.code)
        return NvmlCode.SUCCESS.value if answer is None else answer

    def _call(self, *arguments: Any) -> Any:
        if self._faults.active and (code := self._faults.code(self.name, "", "")):
            return int(code)
        if self._needs_start and not self._driver.is_started():
            return NvmlCode.UNINITIALIZED.value
        return self._function(self._driver, *arguments)


class DeviceFunction(LibraryFunction):
    """A function with a device as first argument."""

    def _call(self, *arguments: Any) -> Any:
        driver = self._driver
        handle = driver.at(arguments[0])
        if self._faults.active and (
            code := self._faults.code(self.name, handle.uuid, handle.parent.uuid)
        ):
            return int(code)
        if not driver.references or (driver.has_faults and not driver.is_started()):
            return NvmlCode.UNINITIALIZED.value
        if handle.parent is not handle and not self._on_instances:
            return NvmlCode.NOT_SUPPORTED.value
        return self._function(handle, *arguments[1:])


class SimulatedLibrary:
    """Replaces the loaded `libnvidia-ml.so.1` inside nvidia-ml-py.

    Its attributes are the library's functions; missing ones raise AttributeError, like a missing
    symbol.
    """

    def __init__(
        self,
        node: SimulatedNode,
        time: Callable[[], Nanoseconds],
        faults: ScenarioFaults | None = None,
    ) -> None:
        self.faults = ScenarioFaults(node, time) if faults is None else faults
        driver = SimulatedDriver(node, time, self.faults)
        symbols = [
            *(LibraryFunction(*entry, driver, needs_start=False) for entry in SYSTEM.items()),
            *(LibraryFunction(*entry, driver) for table in _OF_SYSTEM for entry in table.items()),
            *(DeviceFunction(*entry, driver) for table in _OF_DEVICES for entry in table.items()),
            *(
                DeviceFunction(*entry, driver, on_instances=True)
                for table in _OF_INSTANCES
                for entry in table.items()
            ),
        ]
        self._symbols = {symbol.name: symbol for symbol in symbols}

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of all functions of the library."""
        return tuple(self._symbols)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        symbols: dict[str, LibraryFunction] = self.__dict__.get("_symbols", {})
        if name not in symbols:
            raise AttributeError(f"undefined symbol: {name}")
        return symbols[name]

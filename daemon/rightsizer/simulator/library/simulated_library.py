"""SimulatedLibrary: every function by name, callable as a loader hands it out.

Bound to one driver.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rightsizer.model.units import Nanoseconds
from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode
from rightsizer.simulator.library.clocks import CLOCKS
from rightsizer.simulator.library.driver import SimulatedDriver
from rightsizer.simulator.library.faults import DriverFaults, ScenarioFaults
from rightsizer.simulator.library.fields import FIELDS
from rightsizer.simulator.library.gpm import PROFILING, PROFILING_SYSTEM
from rightsizer.simulator.library.health import EVENTS, EVENTS_SYSTEM, HEALTH, HEALTH_OF_INSTANCES
from rightsizer.simulator.library.identity import IDENTITY, IDENTITY_OF_INSTANCES, LOOKUP
from rightsizer.simulator.library.mig import INSTANCES, INSTANCES_SYSTEM, MIG, MIG_OF_INSTANCES
from rightsizer.simulator.library.nvlink import FABRIC, NVLINK
from rightsizer.simulator.library.pcie import PCIE
from rightsizer.simulator.library.power import MEMORY, MEMORY_OF_INSTANCES, POWER
from rightsizer.simulator.library.processes import PROCESSES, PROCESSES_OF_INSTANCES
from rightsizer.simulator.library.sessions import SESSIONS
from rightsizer.simulator.library.system import SYSTEM
from rightsizer.simulator.library.thermal import THERMAL
from rightsizer.simulator.library.topology import TOPOLOGY, TOPOLOGY_SYSTEM
from rightsizer.simulator.library.utilization import SAMPLES, UTILIZATION
from rightsizer.simulator.node import SimulatedNode

_OTHERWISE_SECONDS: Final = 0.0001
_SECONDS: Final[Mapping[str, float]] = {
    "nvmlDeviceGetComputeRunningProcesses": 0.0015,
    "nvmlDeviceGetGraphicsRunningProcesses": 0.0015,
    "nvmlDeviceGetMPSComputeRunningProcesses": 0.0015,
    "nvmlDeviceGetProcessUtilization": 0.001,
    "nvmlDeviceGetProcessesUtilizationInfo": 0.001,
    "nvmlDeviceGetUtilizationRates": 0.0002,
    "nvmlDeviceGetPowerUsage": 0.0003,
    "nvmlDeviceGetMemoryInfo": 0.0002,
    "nvmlDeviceGetFieldValues": 0.0005,
    "nvmlDeviceGetSamples": 0.0005,
    "nvmlGpmSampleGet": 0.002,
    "nvmlGpmMigSampleGet": 0.002,
    # It waits for the end of its own sampling interval.
    "nvmlDeviceGetPcieThroughput": 0.02,
    # These two never reach the kernel.
    "nvmlErrorString": 0.0,
    "nvmlGpmMetricsGet": 0.0,
    # Whoever waits for events is woken by them.
    "nvmlEventSetWait": 0.0,
}


def assumed_latency(function: str) -> float:
    """Seconds for a function by its name, whatever its version."""
    return _SECONDS.get(function.partition("_v")[0], _OTHERWISE_SECONDS)


class LibraryFunction:
    """A function that is not called on a device."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        driver: SimulatedDriver,
        *,
        needs_start: bool = True,
    ) -> None:
        """A function by its name in the library; the driver is its first argument.

        Args:
            name: What the bindings ask for.
            function: What it does.
            driver: What it does it to.
            needs_start: Whether the library must be initialized before.
        """
        self.name = name
        self.restype: Any = None
        self._needs_start = needs_start
        self._function = function
        self._driver = driver
        self._faults = driver.faults

    def __call__(self, *arguments: Any) -> Any:
        """Call it as the bindings do; the answer is a return code."""
        if self._faults.active and (code := self._faults.code(self.name, "", "")):
            return int(code)
        if self._needs_start and not self._driver.is_started():
            return NvmlCode.UNINITIALIZED.value
        try:
            answer = self._function(self._driver, *arguments)
        except NvmlCallError as refusal:
            return int(refusal.code)
        return NvmlCode.SUCCESS.value if answer is None else answer


class DeviceFunction:
    """A function whose first argument is a device."""

    def __init__(
        self,
        name: str,
        function: Callable[..., None],
        driver: SimulatedDriver,
        *,
        on_instances: bool = False,
    ) -> None:
        """A function by its name in the library; driver and device are its first arguments.

        Args:
            name: What the bindings ask for.
            function: What it does.
            driver: What it does it to.
            on_instances: Whether it answers for MIG instances too.
        """
        self.name = name
        self.restype: Any = None
        self._on_instances = on_instances
        self._function = function
        self._driver = driver
        self._faults = driver.faults

    def __call__(self, device: Any, *arguments: Any) -> int:
        """Call it as the bindings do; the answer is a return code."""
        driver = self._driver
        try:
            handle = driver.at(device)
            if self._faults.active and (
                code := self._faults.code(self.name, handle.uuid, handle.parent.uuid)
            ):
                return int(code)
            if not driver.references or (driver.has_faults and not driver.is_started()):
                return NvmlCode.UNINITIALIZED.value
            if handle.parent is not handle and not self._on_instances:
                return NvmlCode.NOT_SUPPORTED.value
            self._function(driver, handle, *arguments)
        except NvmlCallError as refusal:
            return int(refusal.code)
        return NvmlCode.SUCCESS.value


class MeteredFunction:
    """A function whose calls are counted and take their time."""

    _counting = threading.Lock()

    def __init__(
        self,
        symbol: LibraryFunction | DeviceFunction,
        calls: Counter[str],
        latency: Callable[[str], float] | None,
    ) -> None:
        """A function around another.

        Args:
            symbol: What is called in the end.
            calls: Counted into, by name.
            latency: Seconds that a call takes; `None` for none.
        """
        self.name = symbol.name
        self.restype: Any = None
        self._symbol = symbol
        self._calls = calls
        self._latency_seconds = 0.0 if latency is None else latency(symbol.name)

    def __call__(self, *arguments: Any) -> Any:
        """Call it as the bindings do; the answer is a return code."""
        with self._counting:
            self._calls[self.name] += 1
        if self._latency_seconds:
            time.sleep(self._latency_seconds)
        return self._symbol(*arguments)


AnyFunction: TypeAlias = LibraryFunction | DeviceFunction | MeteredFunction


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
        node: SimulatedNode,
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
        self.faults = DriverFaults(ScenarioFaults(node, time) if node.has_faults else None)
        driver = SimulatedDriver(node, time, self.faults)
        self._symbols: dict[str, AnyFunction] = {}
        for table in _BEFORE_START:
            self._add(table, lambda *parts: LibraryFunction(*parts, needs_start=False), driver)
        for table in _SYSTEM:
            self._add(table, LibraryFunction, driver)
        for table in _OF_DEVICES:
            self._add(table, DeviceFunction, driver)
        for table in _OF_INSTANCES:
            self._add(table, lambda *parts: DeviceFunction(*parts, on_instances=True), driver)

    def _add(
        self,
        table: Mapping[str, Callable[..., Any]],
        bind: Callable[
            [str, Callable[..., Any], SimulatedDriver], LibraryFunction | DeviceFunction
        ],
        driver: SimulatedDriver,
    ) -> None:
        for name, function in table.items():
            symbol = bind(name, function, driver)
            if self._latency is None and not self._counts_calls:
                self._symbols[name] = symbol
            else:
                self._symbols[name] = MeteredFunction(symbol, self.calls, self._latency)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all the functions that the library has."""
        return tuple(name for name in self._symbols if not self.faults.is_removed(name))

    def __getattr__(self, name: str) -> AnyFunction:
        symbols: dict[str, AnyFunction] = self.__dict__.get("_symbols", {})
        symbol = symbols.get(name)
        if symbol is None or self.faults.is_removed(name):
            raise AttributeError(f"undefined symbol: {name}")
        return symbol

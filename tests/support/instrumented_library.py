"""Simulated driver library with switchable faults, and with counted and slow calls."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from rightsizer.model.units import Nanoseconds
from rightsizer.simulator.library.calls import NvmlCode
from rightsizer.simulator.library.faults import WITHOUT_DRIVER, ScenarioFaults, XidReportEvent
from rightsizer.simulator.library.simulated_library import SimulatedLibrary
from rightsizer.simulator.node import SimulatedNode

__all__ = ["DriverFaults", "InstrumentedLibrary", "measured_latency"]

_OTHERWISE_SECONDS: Final = 0.0001
_SECONDS: Final[Mapping[str, float]] = {
    "nvmlDeviceGetUtilizationRates": 0.00002,
    "nvmlDeviceGetMemoryInfo": 0.00003,
    "nvmlDeviceGetComputeRunningProcesses": 0.00004,
    "nvmlDeviceGetClockInfo": 0.00004,
    "nvmlDeviceGetPowerUsage": 0.00006,
    "nvmlGpmSampleGet": 0.0003,
    "nvmlGpmMigSampleGet": 0.0003,
    "nvmlDeviceGetBAR1MemoryInfo": 0.0003,
    "nvmlDeviceGetMarginTemperature": 0.0014,
    "nvmlGpmMetricsGet": 0.0021,
    "nvmlDeviceGetEccMode": 0.0021,
    "nvmlDeviceGetApplicationsClock": 0.0027,
    "nvmlDeviceGetProcessesUtilizationInfo": 0.0027,
    "nvmlDeviceGetSamples": 0.0028,
    "nvmlDeviceGetMaxClockInfo": 0.0029,
    "nvmlDeviceGetTotalEnergyConsumption": 0.0029,
    "nvmlDeviceGetTemperatureThreshold": 0.0032,
    # It waits for the end of its own sampling interval.
    "nvmlDeviceGetPcieThroughput": 0.021,
    # It never reaches the kernel.
    "nvmlErrorString": 0.0,
    # It returns with the event.
    "nvmlEventSetWait": 0.0,
}
"""Means on an H100 and an H200 with driver 580.159.04, at rest."""


def measured_latency(function: str) -> float:
    """Seconds for a function by its name, in any version."""
    return _SECONDS.get(function.partition("_v")[0], _OTHERWISE_SECONDS)


_ANY: Final = ""
_COUNTING: Final = threading.Lock()


class DriverFaults(ScenarioFaults):
    """Switchable faults, in addition to those of the scenario."""

    def __init__(self, node: SimulatedNode, now: Callable[[], Nanoseconds]) -> None:
        super().__init__(node, now)
        self._has_scenario = self.active
        self._answers: dict[tuple[str, str], int] = {}
        self._hanging: set[tuple[str, str]] = set()
        self._removed: set[str] = set()
        self._lost: set[str] = set()
        self._whole: int | None = None
        self._released = threading.Event()
        self._xids: list[XidReportEvent] = []
        self._news = threading.Condition()

    def answer(self, function: str, code: int, uuid: str = _ANY) -> None:
        """Let a function return a code, for one device or for all."""
        self._answers[function, uuid] = code
        self.active = True

    def hang(self, function: str = _ANY, uuid: str = _ANY) -> None:
        """Let calls of a function, or on a device, or both, block until `clear`."""
        self._hanging.add((function, uuid))
        self._released.clear()
        self.active = True

    def lose(self, uuid: str) -> None:
        """Let a GPU fall off the bus."""
        self._lost.add(uuid)
        self.active = True

    def remove(self, function: str) -> None:
        """Remove a function, as from an older driver's library."""
        self._removed.add(function)
        self.active = True

    def unload(self, code: int = NvmlCode.DRIVER_NOT_LOADED) -> None:
        """Let every call fail, as with no driver behind the library or a newer one."""
        self._whole = code
        self.active = True

    def report(self, xid: XidReportEvent) -> None:
        """Report an error once, to the first waiting caller."""
        with self._news:
            self._xids.append(xid)
            self._news.notify_all()

    def wait_for_xid(
        self, uuids: AbstractSet[str], timeout_seconds: float
    ) -> XidReportEvent | None:
        """The next reported error of some GPUs, or `None` after the timeout."""

        def first() -> XidReportEvent | None:
            return next((xid for xid in self._xids if xid.uuid in uuids), None)

        with self._news:
            self._news.wait_for(first, timeout_seconds)
            event = first()
            if event is not None:
                self._xids.remove(event)
            return event

    def clear(self) -> None:
        """End all faults, the scenario's too, and release hanging calls."""
        self._has_scenario = self.active = False
        self._whole = None
        for switches in (self._answers, self._hanging, self._removed, self._lost):
            switches.clear()
        self._released.set()

    def is_removed(self, function: str) -> bool:
        """Whether the library lacks a function."""
        return function in self._removed

    def refusal(self, uuid: str) -> int:
        """The error code of a lookup of a GPU; 0 where it works."""
        return NvmlCode.GPU_IS_LOST if uuid in self._lost else super().refusal(uuid)

    def code(self, function: str, uuid: str, parent: str) -> int:
        """The error code of a call, or 0; blocks if the call hangs."""
        names = {uuid, parent, _ANY}
        if any((name, on) in self._hanging for name in (function, _ANY) for on in names):
            self._released.wait()
        if code := super().code(function, uuid, parent):
            return code
        if function in self._removed:
            return NvmlCode.FUNCTION_NOT_FOUND
        if self._whole is not None and function not in WITHOUT_DRIVER:
            return self._whole
        if self._lost & names:
            return NvmlCode.GPU_IS_LOST
        return next(
            (self._answers[function, on] for on in names if (function, on) in self._answers),
            NvmlCode.SUCCESS,
        )

    def _hangs(self, function: str, uuid: str) -> bool:
        return self._has_scenario and super()._hangs(function, uuid)

    def _scenario_code(self, function: str, uuid: str) -> int:
        return super()._scenario_code(function, uuid) if self._has_scenario else NvmlCode.SUCCESS


class InstrumentedLibrary(SimulatedLibrary):
    """A simulated library with switchable `faults`."""

    faults: DriverFaults

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
            node: The devices.
            time: The wall clock of readings.
            latency: Duration of a function's calls in seconds, such as `measured_latency`; `None`
                for an immediate driver.
            counts_calls: Whether `calls` counts the calls of each function.
        """
        self.calls: Counter[str] = Counter()
        super().__init__(node, time, DriverFaults(node, time))
        if latency is not None or counts_calls:
            self._symbols: Any = {
                name: self._metered(name, symbol, latency(name) if latency else 0.0)
                for name, symbol in self._symbols.items()
            }

    def _metered(
        self, name: str, symbol: Callable[..., Any], latency_seconds: float
    ) -> Callable[..., Any]:
        """A function with counted calls of the configured duration."""

        def metered(*arguments: Any) -> Any:
            with _COUNTING:
                self.calls[name] += 1
            if latency_seconds:
                time.sleep(latency_seconds)
            return symbol(*arguments)

        return metered

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all functions in the library."""
        return tuple(name for name in self._symbols if not self.faults.is_removed(name))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        faults = self.__dict__.get("faults")
        if faults is not None and faults.is_removed(name):
            raise AttributeError(f"undefined symbol: {name}")
        return super().__getattr__(name)

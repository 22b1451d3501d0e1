"""A function of the library as a loader would hand it out: callable, with a result type."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from rightsizer.telemetry.simulated.library.calls import Code, Refusal
from rightsizer.telemetry.simulated.library.driver import Driver

__all__ = ["AnySymbol", "DeviceSymbol", "MeteredSymbol", "Symbol"]


class Symbol:
    """A function that is not called on a device."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        driver: Driver,
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
            return Code.UNINITIALIZED.value
        try:
            answer = self._function(self._driver, *arguments)
        except Refusal as refusal:
            return int(refusal.code)
        return Code.SUCCESS.value if answer is None else answer


class DeviceSymbol:
    """A function whose first argument is a device."""

    def __init__(
        self,
        name: str,
        function: Callable[..., None],
        driver: Driver,
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
                return Code.UNINITIALIZED.value
            if handle.parent is not handle and not self._on_instances:
                return Code.NOT_SUPPORTED.value
            self._function(driver, handle, *arguments)
        except Refusal as refusal:
            return int(refusal.code)
        return Code.SUCCESS.value


class MeteredSymbol:
    """A function whose calls are counted and take their time."""

    _counting = threading.Lock()

    def __init__(
        self,
        symbol: Symbol | DeviceSymbol,
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


AnySymbol: TypeAlias = Symbol | DeviceSymbol | MeteredSymbol

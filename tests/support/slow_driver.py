"""A driver with slow calls: around a simulated library, below the real bindings."""

import ctypes
import math
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["SlowDriver"]

_HANDLE = "nvmlDeviceGetHandleByIndex_v2"
_AT_ONCE = ("nvmlErrorString", "nvmlEventSetWait_v2", "nvmlGpmMetricsGet")
"""These never reach the kernel, or wait for events anyway."""


class SlowDriver:
    """Replaces the bindings' loaded library; the latencies may change at any time."""

    def __init__(self, library: Any) -> None:
        """A driver that answers as fast as the library does."""
        self.inside = library
        """The library that answers in the end."""
        self._symbols: dict[str, _SlowSymbol] = {}
        self._indices: dict[int, int] = {}
        self._one_at_a_time = threading.Lock()
        self._released = threading.Event()
        self.latency: Callable[[str, int], float] | None = None
        """Seconds that a call takes, by function and index of the GPU (-1: without one); infinite
        for one that comes back with `release` alone."""
        self.is_serial = False
        """Whether all calls wait in line behind one lock."""

    def __getattr__(self, name: str) -> "_SlowSymbol":
        symbol = self._symbols.get(name)
        if symbol is None:
            symbol = self._symbols[name] = _SlowSymbol(self, name, getattr(self.inside, name))
        return symbol

    def release(self) -> None:
        """Release every running call, and make all further ones fast."""
        self.latency = None
        self._released.set()
        self._released = threading.Event()

    def call(self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Wait, then call the library."""
        seconds = 0.0
        if self.latency is not None and name not in _AT_ONCE:
            seconds = self.latency(name, self._index(arguments))
        if seconds and self.is_serial:
            with self._one_at_a_time:
                self._take(seconds)
        elif seconds:
            self._take(seconds)
        code = function(*arguments)
        if name == _HANDLE and code == 0:
            index, device = arguments
            self._indices[_address(device._obj)] = int(getattr(index, "value", index))
        return code

    def _take(self, seconds: float) -> None:
        self._released.wait(None if math.isinf(seconds) else seconds)

    def _index(self, arguments: tuple[Any, ...]) -> int:
        if not arguments or not isinstance(arguments[0], ctypes._Pointer | ctypes.c_void_p):
            return -1
        return self._indices.get(_address(arguments[0]), -1)


class _SlowSymbol:
    """A function of the library."""

    def __init__(self, driver: SlowDriver, name: str, function: Callable[..., Any]) -> None:
        self.restype: Any = None
        self._driver = driver
        self._name = name
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """Call it as the bindings do."""
        return self._driver.call(self._name, self._function, arguments)


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0

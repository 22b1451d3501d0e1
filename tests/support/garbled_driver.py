"""A driver that answers with impossible values: all bits set, at any width."""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

__all__ = ["Garbled", "shapes_of"]

_LISTS: Final = ("Processes", "Samples", "ProcessUtilization", "RetiredPages", "ProfileInfo")
"""Functions that return a list: its length decides how much memory the bindings reserve."""
_KEPT: Final = frozenset({"version", "nvmlReturn", "fieldId", "scopeId", "valueType", "metricId"})
_SCALES: Final = (1.0, 1e-9, 1e-3, 1e-2, 1e6, 2.0**10, 2.0**20)


class Garbled:
    """A wrapper of a library; some functions return garbage on some GPUs."""

    def __init__(self, library: Any, dealt: Mapping[int | None, str], garbage: int) -> None:
        """A library with some garbage answers.

        Args:
            library: The wrapped library.
            dealt: The function that returns garbage, by the index of the GPU; `None` for one
                without a GPU.
            garbage: Its answer, as far as it fits.
        """
        self._inside = library
        self._dealt = dealt
        self._garbage = garbage

    def __getattr__(self, name: str) -> Callable[..., int]:
        inside: Callable[..., int] = getattr(self._inside, name)
        if name not in self._dealt.values() or any(part in name for part in _LISTS):
            return inside

        def call(device: Any, *arguments: Any) -> int:
            code = inside(device, *arguments)
            if code == 0 and self._dealt.get(self._index(device)) == name:
                for argument in (device, *arguments):
                    _garble(getattr(argument, "_obj", None), self._garbage)
            return code

        return call

    def _index(self, device: Any) -> int | None:
        """The index of the GPU, or `None` for a function without one."""
        index = ctypes.c_uint()
        refused = self._inside.nvmlDeviceGetIndex(device, ctypes.byref(index))
        return None if refused else index.value


def shapes_of(garbage: int) -> Iterator[float]:
    """Garbage in any unit."""
    for scale in _SCALES:
        yield garbage * scale


def _garble(target: Any, garbage: int) -> None:
    if isinstance(target, ctypes.Array):
        for element in target if issubclass(target._type_, ctypes.Structure) else ():
            _garble(element, garbage)
    elif isinstance(target, ctypes.Structure):
        _garble_structure(target, garbage)
    elif isinstance(getattr(target, "value", None), int):
        target.value = garbage


def _garble_structure(target: ctypes.Structure, garbage: int) -> None:
    for name, kind, *_ in target._fields_:
        if name in _KEPT:
            continue
        value = getattr(target, name)
        if isinstance(value, ctypes.Union):
            value.ullVal = garbage
        elif isinstance(value, ctypes.Structure | ctypes.Array):
            _garble(value, garbage)
        elif isinstance(value, float):
            setattr(target, name, float(garbage))
        elif isinstance(value, int):
            cut: Any = kind(garbage)
            setattr(target, name, cut.value)

"""NVML return codes, and conversion of ctypes arguments."""

import ctypes
from collections.abc import Callable, Container, Mapping
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

_T = TypeVar("_T")
Functions: TypeAlias = Mapping[str, Callable[..., Any]]
"""Functions by their names in the library; device or driver are their first argument."""


class NvmlCode(IntEnum):
    """NVML's return codes that a node without virtual GPUs returns."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    LIB_RM_VERSION_MISMATCH = 18
    ARGUMENT_VERSION_MISMATCH = 25
    UNKNOWN = 999


class NvmlCallError(Exception):
    """Failure of a call: the function returns another code than success."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def refuse_if(is_wrong: object, code: NvmlCode = NvmlCode.INVALID_ARGUMENT) -> None:
    """Fail the call with a code if the condition is true."""
    if is_wrong:
        raise NvmlCallError(code)


def needed(value: _T | None, code: NvmlCode = NvmlCode.NOT_SUPPORTED) -> _T:
    """Return a value; fail the call if it is `None`."""
    if value is None:
        raise NvmlCallError(code)
    return value


def one_of(
    argument: Any, allowed: Container[int], code: NvmlCode = NvmlCode.INVALID_ARGUMENT
) -> int:
    """Return an integer argument; fail the call if it is not among the known ones."""
    value = number(argument)
    refuse_if(value not in allowed, code)
    return value


def need_room(count: Any, item_count: int, buffer: Any) -> None:
    """Write the number of items; fail the call if the buffer is too small."""
    room = out(count).value if buffer is not None else 0
    put(count, item_count)
    refuse_if(room < item_count, NvmlCode.INSUFFICIENT_SIZE)


def out(reference: Any) -> Any:
    """Return the object behind a `byref` or a pointer; fail the call for a null pointer."""
    refuse_if(reference is None)
    target = getattr(reference, "_obj", None)
    return reference.contents if target is None else target


def versioned(reference: Any, *versions: int) -> Any:
    """Return the structure behind a reference; fail the call for another version."""
    target = out(reference)
    refuse_if(target.version not in versions, NvmlCode.ARGUMENT_VERSION_MISMATCH)
    return target


def put(reference: Any, value: float) -> None:
    """Write a number through a reference."""
    out(reference).value = value


def put_text(buffer: Any, size: Any, value: str) -> None:
    """Write text into a character buffer; fail the call if it is too small."""
    encoded = value.encode()
    refuse_if(len(encoded) >= number(size), NvmlCode.INSUFFICIENT_SIZE)
    buffer.value = encoded


def number(argument: Any) -> int:
    """Return an integer argument, wrapped by ctypes or not."""
    return int(getattr(argument, "value", argument))


def text(argument: Any) -> str:
    """Return a text argument; the bindings pass bytes."""
    value = getattr(argument, "value", argument)
    return value.decode() if isinstance(value, bytes) else str(value or "")


def read_pointer(pointer: Any) -> int:
    """Return the address in an opaque handle."""
    return int(ctypes.c_size_t.from_buffer(pointer).value)


def write_pointer(reference: Any, address: int) -> None:
    """Write an address into an opaque handle."""
    point(out(reference), address)


def point(pointer: Any, address: int) -> None:
    """Set the address of an opaque handle."""
    ctypes.c_size_t.from_buffer(pointer).value = address

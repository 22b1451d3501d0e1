"""A value that the driver gives with its type beside it."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pynvml

__all__ = ["value_of"]

_MEMBERS: Final[Mapping[int, str]] = MappingProxyType(
    {
        pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
    }
)


def value_of(kind: int, value: Any) -> float | None:
    """The number, whole where it can be; `None` for an unknown type and for no number.

    Args:
        kind: NVML's number of the type.
        value: The bindings' union of all types.
    """
    member = _MEMBERS.get(kind)
    if member is None:
        return None
    found: float = getattr(value, member)
    if isinstance(found, int):
        return found
    if not math.isfinite(found):
        return None
    # Counts and states are compared and counted up to, which takes a whole number.
    return int(found) if found.is_integer() else found

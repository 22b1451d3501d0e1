"""The thin edge over the bindings: the library below them, and calls that never raise."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pynvml

from rightsizer.domain.reading import Missing
from rightsizer.telemetry.nvml.failure import Failure, failure_of

__all__ = ["FieldKey", "Library", "use_library"]

FieldKey = int | tuple[int, int]
"""A numbered field, or one with its scope: a link's number, or all ones for all links."""


def use_library(library: object | None) -> None:
    """Put an object where the bindings hold the loaded `libnvidia-ml.so.1`.

    Its attributes are NVML's functions, with ctypes arguments and NVML's codes as results.
    `None` gives the real loading back. Meant for before anything asks: a thread that is inside
    the former library stays there.
    """
    with pynvml.libLoadLock:
        pynvml.nvmlLib = library
        pynvml._nvmlLib_refcount = 0  # noqa: SLF001 - the bindings offer no way to change libraries.
        pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001


class Library:
    """One thread's way to the driver: every call gives a value or a failure."""

    __slots__ = ("asking",)

    def __init__(self) -> None:
        """Nothing is loaded before `nvmlInit` is asked for."""
        self.asking: str | None = None
        """The call under way; another thread reads it to say where this one hangs."""

    def ask(self, name: str, *arguments: Any) -> Any:
        """What a function of the bindings returns, or a `Failure`."""
        function = getattr(pynvml, name, None)
        if function is None:
            return Failure(Missing.NOT_SUPPORTED, name, "the bindings are too old for this call")
        self.asking = name
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001 - ctypes raises whatever a library provokes.
            return failure_of(error, name)
        finally:
            self.asking = None

    def ask_fields(self, device: Any, keys: Sequence[FieldKey]) -> dict[FieldKey, Any] | Failure:
        """The values of NVML's numbered fields in one call, each a value or a `Failure`.

        A field has a code of its own inside a call that succeeds; the whole call may fail too.
        """
        answer = self.ask("nvmlDeviceGetFieldValues", device, keys)
        if isinstance(answer, Failure):
            return answer
        return {key: _value(key, field) for key, field in zip(keys, answer, strict=True)}


def _value(key: FieldKey, field: Any) -> Any:
    code = field.nvmlReturn
    if code == pynvml.NVML_SUCCESS:
        member = _MEMBERS.get(field.valueType)
        if member is not None:
            return getattr(field.value, member)
        return Failure(Missing.INVALID, _call(key), f"unknown value type {field.valueType}")
    if code == pynvml.NVML_ERROR_INVALID_ARGUMENT:
        return Failure(Missing.NOT_SUPPORTED, _call(key), "the driver does not know this field")
    return failure_of(pynvml.NVMLError(code), _call(key))


def _call(key: FieldKey) -> str:
    return f"nvmlDeviceGetFieldValues({key})"


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

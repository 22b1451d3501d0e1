"""The thin edge over the bindings: the library below them, and calls that never raise."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pynvml

from rightsizer.domain.reading import Missing
from rightsizer.telemetry.nvml.failure import Failure, failure_of

__all__ = ["Library", "use_library"]


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

    def ask_field(self, device: Any, field_id: int) -> Any:
        """The value of one of NVML's numbered fields, or a `Failure`.

        A field has a code of its own inside a call that succeeds.
        """
        call = f"nvmlDeviceGetFieldValues({field_id})"
        answer = self.ask("nvmlDeviceGetFieldValues", device, (field_id,))
        if isinstance(answer, Failure):
            return answer
        field = answer[0]
        if field.nvmlReturn != pynvml.NVML_SUCCESS:
            return failure_of(pynvml.NVMLError(field.nvmlReturn), call)
        member = _MEMBERS.get(field.valueType)
        if member is None:
            return Failure(Missing.INVALID, call, f"unknown value type {field.valueType}")
        return getattr(field.value, member)


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

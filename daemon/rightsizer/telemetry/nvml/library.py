"""The thin edge over the bindings: the library below them, and calls that never raise."""

import time
from collections.abc import Sequence
from typing import Any

import pynvml

from rightsizer.domain.reading import Missing
from rightsizer.telemetry.nvml.failure import Failure, failure_of
from rightsizer.telemetry.nvml.typed_value import value_of

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

    __slots__ = ("asked_at", "asking")

    def __init__(self) -> None:
        """Nothing is loaded before `nvmlInit` is asked for."""
        self.asking: str | None = None
        """The call under way; another thread reads it to say where this one hangs."""
        self.asked_at = 0.0
        """When the last call began, on the monotonic clock; another thread sees by it that this
        one gets on."""

    def ask(self, name: str, *arguments: Any) -> Any:
        """What a function of the bindings returns, or a `Failure`."""
        function = getattr(pynvml, name, None)
        if function is None:
            return Failure(Missing.NOT_SUPPORTED, name, "the bindings are too old for this call")
        self.asking = name
        self.asked_at = time.monotonic()
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
        if _is_untouched(field):
            return Failure(Missing.NOT_SUPPORTED, _call(key), "the driver left the field as it was")
        value = value_of(field.valueType, field.value)
        if value is not None:
            return value
        return Failure(Missing.INVALID, _call(key), f"no number of type {field.valueType}")
    if code == pynvml.NVML_ERROR_INVALID_ARGUMENT:
        return Failure(Missing.NOT_SUPPORTED, _call(key), "the driver does not know this field")
    return failure_of(pynvml.NVMLError(code), _call(key))


def _is_untouched(field: Any) -> bool:
    """Whether a field is as empty as before the call, which only looks like success and 0."""
    return not (field.valueType or field.timestamp or field.value.ullVal)


def _call(key: FieldKey) -> str:
    return f"nvmlDeviceGetFieldValues({key})"

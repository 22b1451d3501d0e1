"""What a driver call gives in place of a value, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pynvml

from rightsizer.domain.reading import Missing

__all__ = ["Failure", "failure_of"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that gave nothing."""

    reason: Missing
    call: str
    """The binding's function."""
    detail: str
    """What the driver said, for a person."""
    code: int | None = None
    """NVML's own number; `None` where the call never reached the driver."""

    @property
    def driver_is_gone(self) -> bool:
        """Whether no device can be asked any more until NVML is opened again."""
        return self.code in _DRIVER_GONE

    @property
    def is_unsupported(self) -> bool:
        """Whether asking again is of no use."""
        return self.reason is Missing.NOT_SUPPORTED

    @property
    def is_unknown(self) -> bool:
        """Whether the driver does not know either; when repeated, only opening it again helps."""
        return bool(self.code == pynvml.NVML_ERROR_UNKNOWN)

    def __str__(self) -> str:
        return f"{self.call}: {self.detail}"


_DRIVER_GONE: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)

_REASONS: Final[Mapping[int, Missing]] = MappingProxyType(
    {
        # Process utilization reports "no samples" as success that the bindings raise.
        pynvml.NVML_SUCCESS: Missing.NO_SAMPLE,
        pynvml.NVML_ERROR_NOT_FOUND: Missing.NO_SAMPLE,
        pynvml.NVML_ERROR_NO_DATA: Missing.NO_SAMPLE,
        pynvml.NVML_ERROR_NOT_READY: Missing.NO_SAMPLE,
        pynvml.NVML_ERROR_NOT_SUPPORTED: Missing.NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Missing.NOT_SUPPORTED,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: Missing.NOT_SUPPORTED,
        pynvml.NVML_ERROR_DEPRECATED: Missing.NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION: Missing.NO_PERMISSION,
        pynvml.NVML_ERROR_OPERATING_SYSTEM: Missing.NO_PERMISSION,
        pynvml.NVML_ERROR_TIMEOUT: Missing.TIMED_OUT,
        pynvml.NVML_ERROR_GPU_IS_LOST: Missing.LOST,
        pynvml.NVML_ERROR_GPU_NOT_FOUND: Missing.LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED: Missing.LOST,
        **dict.fromkeys(_DRIVER_GONE, Missing.LOST),
    }
)


def failure_of(error: Exception, call: str) -> Failure:
    """The failure that an exception of the bindings stands for.

    `NVMLLibraryMismatchError` is no `NVMLError`: the bindings raise it where an old driver lacks
    the version of a function that they call.
    """
    if isinstance(error, pynvml.NVMLLibraryMismatchError):
        return Failure(Missing.NOT_SUPPORTED, call, "the driver is too old for this call")
    if isinstance(error, pynvml.NVMLError):
        code = int(error.value)
        return Failure(_REASONS.get(code, Missing.FAILED), call, _text(error, code), code)
    return Failure(Missing.FAILED, call, f"{type(error).__name__}: {error}")


def _text(error: Exception, code: int) -> str:
    try:
        # The bindings ask the library for the words of a code they do not know.
        return str(error)
    except Exception:  # noqa: BLE001 - a library without words for its codes is no reason to fail.
        return f"NVML error {code}"

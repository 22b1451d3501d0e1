"""NVML calls that never raise: library below the bindings, failures, blank and typed values."""

import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL, Structure, byref, c_int32, c_uint, memmove
from typing import Any, Final

import pynvml
from msgspec import Struct

from rightsizer.host.files import inode_of, read_file
from rightsizer.model.values import Down, Missing

_DRIVER_GONE: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_REASONS: Final[Mapping[int, Missing]] = {
    # 'No samples' of process utilization is a success code that the bindings raise.
    pynvml.NVML_SUCCESS: Missing.NO_SAMPLE,
    pynvml.NVML_ERROR_NOT_FOUND: Missing.NO_SAMPLE,
    pynvml.NVML_ERROR_NO_DATA: Missing.NO_SAMPLE,
    pynvml.NVML_ERROR_NOT_READY: Missing.NO_SAMPLE,
    pynvml.NVML_ERROR_NOT_SUPPORTED: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_DEPRECATED: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_FREQ_NOT_SUPPORTED: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: Missing.NO_PERMISSION,
    pynvml.NVML_ERROR_OPERATING_SYSTEM: Missing.NO_PERMISSION,
    pynvml.NVML_ERROR_TIMEOUT: Missing.TIMED_OUT,
    pynvml.NVML_ERROR_GPU_IS_LOST: Missing.LOST,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Missing.LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: Missing.LOST,
    **dict.fromkeys(_DRIVER_GONE, Missing.LOST),
}
_SONAME: Final = "libnvidia-ml.so.1"
_MAPPED: Final = re.compile(r" (\d+) +(/.*/)libnvidia-ml\.so")
"""Inode and folder of a mapped library, in /proc/self/maps."""
_WORD: Final = 2**32 - 1
_LOWEST: Final = 0x7FFFFFFFFFFFFFF0
"""Lowest of DCGM's blank values, which NVML may return, and all ones above; no count gets here."""
_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Union members by NVML's value type (nvml.h, nvmlValueType_t)."""
_ROOMS: Final = (128, 2**16)
"""Processes that a list has room for: nearly always enough, and always."""
_MOST_QUERIES: Final = 16
"""A device has two or three sets of fields, and others while it refuses some."""
FieldKey = int | tuple[int, int]
"""A numbered field, or one with its scope: a link's number, or all ones for all links."""


class NvmlFailure(Struct, frozen=True):
    """A failed call."""

    reason: Missing
    call: str
    detail: str
    """The driver's message, for people."""
    code: int | None = None
    """NVML's error code; `None` if the call never reached the driver."""

    @property
    def driver_is_gone(self) -> bool:
        """Whether no device can be read until NVML is opened again."""
        return self.code in _DRIVER_GONE

    @property
    def device_is_gone(self) -> bool:
        """Whether all other calls for the device are pointless."""
        return bool(self.code == pynvml.NVML_ERROR_GPU_IS_LOST)

    @property
    def is_unsupported(self) -> bool:
        """Whether calling again is pointless."""
        return self.reason is Missing.NOT_SUPPORTED

    @property
    def is_unknown(self) -> bool:
        """Whether the driver reports an unknown error; if repeated, only reopening helps."""
        return bool(self.code == pynvml.NVML_ERROR_UNKNOWN)

    @property
    def down(self) -> Down:
        """That a device does not respond, for this failure."""
        return Down(self.reason, str(self), "" if self.code is None else self.detail)

    def __str__(self) -> str:
        return f"{self.call}: {self.detail}"


def failure_of(error: Exception, call: str) -> NvmlFailure:
    """Convert an exception of the bindings."""
    if isinstance(error, pynvml.NVMLError):
        code = int(error.value)
        return NvmlFailure(_REASONS.get(code, Missing.FAILED), call, _text(error, code), code)
    return NvmlFailure(Missing.FAILED, call, f"{type(error).__name__}: {error}")


def _text(error: Exception, code: int) -> str:
    try:
        # The bindings ask the library for the message of an unknown code.
        return str(error)
    except Exception:  # noqa: BLE001 - a library without messages is no reason to fail.
        return f"NVML error {code}"


def is_blank(answer: float) -> bool:
    """Whether a number stands for 'no value'."""
    return answer == _WORD or answer >= _LOWEST


def value_of(kind: int, value: Any) -> float | None:
    """Return the number, as an integer if whole; `None` for an unknown type, infinity or NaN."""
    if not 0 <= kind < len(_MEMBERS):
        return None
    number: float = getattr(value, _MEMBERS[kind])
    if isinstance(number, int):
        return number
    if not math.isfinite(number):
        return None
    # Counts and states must be integers.
    return int(number) if number.is_integer() else number


def bus_id(info: Any) -> str | None:
    """Return the address in lower case, or `None` if the driver filled in none."""
    try:
        text = "" if info is None else info.busId
    except UnicodeDecodeError:  # The bindings decode fields on access.
        return None
    decoded = text.decode("ascii", "replace") if isinstance(text, bytes) else str(text)
    return decoded.lower() or None


def use_library(library: object | None) -> None:
    """Replace the loaded `libnvidia-ml.so.1` below the bindings by an object.

    Its attributes are NVML's functions, with ctypes arguments and NVML's codes as results. `None`
    restores real loading. Call it before the first NVML call: a thread inside the former library
    stays there.
    """
    with pynvml.libLoadLock:
        pynvml.nvmlLib = library
        pynvml._nvmlLib_refcount = 0  # noqa: SLF001 - the bindings offer no way to change libraries.
        pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001


def load_successor() -> bool:
    """Load the library of a driver that was updated meanwhile; return whether there is one.

    The former one stays in memory: threads may hang in it.
    """
    mapped = _MAPPED.findall(read_file("/proc/self/maps") or "")
    if not mapped:
        return False
    # The loader returns a library by its name, even if the file is another one: no link's name.
    path = os.path.realpath(f"{mapped[-1][1]}{_SONAME}")
    if inode_of(path) in {None, *(int(inode) for inode, _ in mapped)}:
        return False
    try:
        use_library(CDLL(path))
    except OSError:  # Half installed.
        return False
    return True


class _FirstProcessInfo(Structure):
    """The first version of a listed process."""

    _fields_ = pynvml.c_nvmlProcessInfo_v2_t._fields_[:2]


class _ProcessInfo(Structure):
    """A listed process, without the bindings' attribute conversion."""

    _fields_ = pynvml.c_nvmlProcessInfo_v2_t._fields_


def _process_list(name: str, kind: type[Structure]) -> Callable[[Any], Sequence[Structure]]:
    """Return a call that lists processes at once.

    The bindings ask for the length first, and fail if the list has grown meanwhile.
    """

    def ask(device: Any) -> Sequence[Structure]:
        for room in _ROOMS:
            processes = (kind * room)()
            count = c_uint(room)
            try:
                _invoke(name, device, byref(count), processes)
            except pynvml.NVMLError_InsufficientSize:
                continue
            return processes[: count.value]
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)

    return ask


def _first_wait(events: Any, milliseconds: int) -> Any:
    # The first version ends before the instances, of which there were none.
    event = pynvml.c_nvmlEventData_t(gpuInstanceId=_WORD, computeInstanceId=_WORD)
    _invoke("nvmlEventSetWait", events, byref(event), c_uint(milliseconds))
    return event


def _invoke(name: str, *arguments: Any) -> None:
    code = pynvml._nvmlGetFunctionPointer(name)(*arguments)  # noqa: SLF001 - as the bindings do.
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)


class _Field(Structure):
    """The bindings' structure without their attribute conversion, which is the largest cost."""

    _anonymous_ = ("value",)
    _fields_ = pynvml.c_nvmlFieldValue_t._fields_


class _FieldQuery:
    """Numbered fields to ask for, in memory that the driver fills in at each call.

    The bindings create it for each call.
    """

    def __init__(self, keys: tuple[FieldKey, ...]) -> None:
        self._keys = keys
        self._fields = (_Field * len(keys))()
        for field, key in zip(self._fields, keys, strict=True):
            field.fieldId, field.scopeId = key if isinstance(key, tuple) else (key, 0)
        self._blank = bytes(self._fields)
        self._arguments = c_int32(len(keys)), byref(self._fields)

    def ask(self, device: Any) -> dict[FieldKey, Any]:
        """Answers of a device: each a value or a `NvmlFailure`."""
        memmove(self._fields, self._blank, len(self._blank))
        _invoke(_FIELD_VALUES, device, *self._arguments)
        return {
            key: _value(key, field) for key, field in zip(self._keys, self._fields, strict=True)
        }


_FIELD_VALUES: Final = "nvmlDeviceGetFieldValues"
_VERSIONS: Final = (
    ("", "_v3", _ProcessInfo),
    ("_v2", "_v2", _ProcessInfo),
    ("_v1", "", _FirstProcessInfo),
)
"""Suffix of a call, that of its symbol, and what it lists."""
_OWN_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    f"{name}{suffix}": _process_list(f"{name}{symbol}", kind)
    for name in map("nvmlDeviceGet{}RunningProcesses".format, ("Compute", "Graphics", "MPSCompute"))
    for suffix, symbol, kind in _VERSIONS
} | {
    "nvmlEventSetWait_v1": _first_wait,
    _FIELD_VALUES: lambda device, query: query.ask(device),
}
"""Calls in place of the bindings', and of drivers before R450 that these lack (pynvml#43)."""


class NvmlLibrary:
    """One thread's access to the driver: every call returns a value or a failure."""

    def __init__(self) -> None:
        self.asking: str | None = None
        """Call under way; read by another thread to report where this one hangs."""
        self.asked_at = 0.0
        """Start of the last call on the monotonic clock; shows other threads that calls return."""
        self._queries: dict[tuple[FieldKey, ...], _FieldQuery] = {}

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a function of the bindings; return its result or a `NvmlFailure`."""
        function = _OWN_CALLS.get(name) or getattr(pynvml, name, None)
        if function is None:
            return NvmlFailure(
                Missing.NOT_SUPPORTED, name, "the bindings are too old for this call"
            )
        self.asking = name
        self.asked_at = time.monotonic()
        try:
            return function(*arguments)
        except UnicodeDecodeError as error:
            return error.object.decode(errors="replace")  # A name in no known encoding.
        except Exception as error:  # noqa: BLE001 - ctypes raises whatever a library provokes.
            return failure_of(error, name)
        finally:
            self.asking = None

    def ask_fields(
        self, device: Any, keys: Sequence[FieldKey]
    ) -> dict[FieldKey, Any] | NvmlFailure:
        """Read NVML's numbered fields in one call; each is a value or a `NvmlFailure`.

        Each field has its own result code in a successful call; the whole call may fail, too.
        """
        keys = tuple(keys)
        query = self._queries.get(keys)
        if query is None:
            if len(self._queries) >= _MOST_QUERIES:
                self._queries.clear()
            query = self._queries[keys] = _FieldQuery(keys)
        answers: dict[FieldKey, Any] | NvmlFailure = self.ask(_FIELD_VALUES, device, query)
        return answers


def _value(key: FieldKey, field: Any) -> Any:
    code = field.nvmlReturn
    if code == pynvml.NVML_SUCCESS:
        kind = field.valueType
        # Untouched by the driver: looks like success with value 0.
        if not (kind or field.timestamp or field.ullVal):
            return NvmlFailure(
                Missing.NOT_SUPPORTED, _call(key), "the driver left the field as it was"
            )
        value = value_of(kind, field)
        if value is not None and not is_blank(value):
            return value
        answer = f"no number of type {kind}" if value is None else f"the driver answered {value}"
        return NvmlFailure(Missing.INVALID, _call(key), answer)
    if code == pynvml.NVML_ERROR_INVALID_ARGUMENT:
        return NvmlFailure(Missing.NOT_SUPPORTED, _call(key), "the driver does not know this field")
    return failure_of(pynvml.NVMLError(code), _call(key))


def _call(key: FieldKey) -> str:
    return f"nvmlDeviceGetFieldValues({key})"

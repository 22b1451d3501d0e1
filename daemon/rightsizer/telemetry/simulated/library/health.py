"""Memory errors, remapped rows and retired pages, and the modes that an operator sets."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["HEALTH"]

_VOLATILE: Final = 0
_CAUSES_OF_RETIREMENT: Final = 2
_ROW_GROUPS: Final = 640


def _ecc_mode(driver: Driver, device: Handle, current: Any, pending: Any) -> None:
    del driver
    device.need(device.support.ecc)
    put(current, 1)
    put(pending, 1)


def _default_ecc_mode(driver: Driver, device: Handle, mode: Any) -> None:
    del driver
    device.need(device.support.ecc)
    put(mode, 1)


def _need_counter(device: Handle, counter: Any) -> None:
    device.need(device.support.ecc)
    # With instances, volatile errors are counted by instance.
    if number(counter) == _VOLATILE:
        device.need_whole()


def _total_errors(driver: Driver, device: Handle, kind: Any, counter: Any, count: Any) -> None:
    del driver, kind
    _need_counter(device, counter)
    put(count, 0)


def _errors_of_memory(  # noqa: PLR0913, PLR0917 - the C function's arguments.
    driver: Driver, device: Handle, kind: Any, counter: Any, location: Any, count: Any
) -> None:
    del driver, kind, location
    _need_counter(device, counter)
    put(count, 0)


def _remapped_rows(  # noqa: PLR0913, PLR0917 - the C function's arguments.
    driver: Driver, device: Handle, correctable: Any, uncorrectable: Any, pending: Any, failed: Any
) -> None:
    del driver
    device.need(device.support.row_remapping)
    device.need_whole()
    for count in (correctable, uncorrectable, pending, failed):
        put(count, 0)


def _row_histogram(driver: Driver, device: Handle, histogram: Any) -> None:
    del driver
    device.need(device.support.row_remapping)
    device.need_whole()
    target = out(histogram)
    target.max = _ROW_GROUPS
    target.high = target.partial = target.low = target.none = 0


def _retired_pages(driver: Driver, device: Handle, cause: Any, count: Any, *pages: Any) -> None:
    del driver, pages
    device.need(device.support.retired_pages)
    if not 0 <= number(cause) < _CAUSES_OF_RETIREMENT:
        raise Refusal(Code.INVALID_ARGUMENT)
    put(count, 0)


def _retirement_pending(driver: Driver, device: Handle, pending: Any) -> None:
    del driver
    device.need(device.support.retired_pages)
    put(pending, 0)


def _constant(value: int) -> Callable[..., None]:
    def answer(driver: Driver, device: Handle, mode: Any) -> None:
        del driver, device
        put(mode, value)

    return answer


HEALTH: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetEccMode": _ecc_mode,
    "nvmlDeviceGetDefaultEccMode": _default_ecc_mode,
    "nvmlDeviceGetTotalEccErrors": _total_errors,
    "nvmlDeviceGetMemoryErrorCounter": _errors_of_memory,
    "nvmlDeviceGetRemappedRows": _remapped_rows,
    "nvmlDeviceGetRowRemapperHistogram": _row_histogram,
    "nvmlDeviceGetRetiredPages": _retired_pages,
    "nvmlDeviceGetRetiredPages_v2": _retired_pages,
    "nvmlDeviceGetRetiredPagesPendingStatus": _retirement_pending,
    "nvmlDeviceGetPersistenceMode": _constant(1),
    "nvmlDeviceGetComputeMode": _constant(0),
    "nvmlDeviceGetAccountingMode": _constant(0),
    "nvmlDeviceGetDisplayMode": _constant(0),
    "nvmlDeviceGetDisplayActive": _constant(0),
    "nvmlDeviceGetVirtualizationMode": _constant(0),
}

"""NVML's numbered fields: many readings in one call, each with a code of its own."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.board_fields import BOARD_FIELDS
from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out
from rightsizer.telemetry.simulated.library.driver import Driver, Handle
from rightsizer.telemetry.simulated.library.field import ALL_LINKS, BoardField, Kind, LinkField
from rightsizer.telemetry.simulated.library.link_fields import LINK_FIELDS
from rightsizer.telemetry.simulated.library.look import Look

__all__ = ["FIELDS"]

_LATENCY_MICROSECONDS: Final = 40
_FIELDS: Final[Mapping[int, BoardField | LinkField]] = {**BOARD_FIELDS, **LINK_FIELDS}
_MEMBERS: Final = {
    Kind.UNSIGNED_INT: "uiVal",
    Kind.UNSIGNED_LONG_LONG: "ullVal",
    Kind.SIGNED_INT: "siVal",
}


def _field_values(driver: Driver, device: Handle, count: Any, values: Any) -> None:
    look, support = Look(driver, device), device.support
    offered = support.features_when_cut if device.instances else support.features
    microseconds = look.time // 1000
    for answer in out(values)[: number(count)]:
        answer.timestamp = microseconds
        answer.latencyUsec = _LATENCY_MICROSECONDS
        found = _FIELDS.get(answer.fieldId)
        if found is None or found.feature not in offered:
            answer.nvmlReturn = Code.NOT_SUPPORTED
            continue
        try:
            value = _value(look, found, answer.scopeId)
        except Refusal as refusal:
            answer.nvmlReturn = refusal.code
            continue
        answer.nvmlReturn = Code.SUCCESS
        answer.valueType = found.kind
        setattr(answer.value, _MEMBERS[found.kind], int(value))


def _value(look: Look, found: BoardField | LinkField, scope: int) -> float:
    if isinstance(found, BoardField):
        return found.read(look)
    link = scope if found.link is None else found.link
    if link == ALL_LINKS and found.total is not None:
        return found.total(look)
    if link >= look.device.support.nvlink_links:
        raise Refusal(Code.INVALID_ARGUMENT if found.link is None else Code.NOT_SUPPORTED)
    if found.needs_link_up and not look.device.support.nvlink_up:
        raise Refusal(Code.NOT_SUPPORTED)
    return found.read(look, link)


FIELDS: Final[Mapping[str, Callable[..., None]]] = {"nvmlDeviceGetFieldValues": _field_values}

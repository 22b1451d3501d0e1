"""The faults of a scenario's YAML, against the slots that they befall."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from rightsizer.domain.clock_event import ClockEvent
from rightsizer.domain.units import nanoseconds
from rightsizer.telemetry.simulated.fault import (
    Absence,
    Answer,
    DeadCounters,
    Effect,
    Fault,
    Hang,
    Loss,
    MemoryErrors,
    NvlinkTrouble,
    PcieTrouble,
    Recut,
    Throttle,
    Unload,
    XidReport,
)
from rightsizer.telemetry.simulated.fields import Fields
from rightsizer.telemetry.simulated.library.calls import Code
from rightsizer.telemetry.simulated.physics import lowest_limit_watts
from rightsizer.telemetry.simulated.plan import Slot
from rightsizer.telemetry.simulated.slots import read_profiles
from rightsizer.telemetry.simulated.window import Window

__all__ = ["read_faults"]

_MOST: Final = 2**31
_MOST_LINKS: Final = 36
_WIDEST_LINK: Final = 16
_LATEST_GENERATION: Final = 6
_COMMON: Final = ("kind", "gpus", "at", "after", "every", "for", "xid")
_OFF_THE_BUS, _NVLINK_XID, _DOUBLE_BIT_ERROR, _CONTAINED_ERROR = 79, 74, 48, 94
_LAST_WITH_PAGES: Final = (7, 5)
_REASONS: Final[Mapping[str, ClockEvent]] = {
    "power": ClockEvent.SW_POWER_CAP,
    "thermal": ClockEvent.SW_THERMAL_SLOWDOWN,
    "hardware_thermal": ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN,
    "power_brake": ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN,
    "sync_boost": ClockEvent.SYNC_BOOST,
}


def read_faults(top: Fields, slots: tuple[Slot, ...]) -> tuple[tuple[Slot, ...], tuple[Fault, ...]]:
    """The faults, and the slots with what the faults make of their MIG instances.

    Raises:
        ScenarioError: a fault contradicts itself or its GPUs.
    """
    faults: list[Fault] = []
    for entry in top.children("faults"):
        for fault in _faults(entry, slots):
            faults.append(fault)
            if isinstance(fault.effect, Recut):
                (gpu,) = fault.gpus
                recuts = (*slots[gpu].recuts, (fault.window, fault.effect))
                changed = replace(slots[gpu], recuts=recuts)
                slots = (*slots[:gpu], changed, *slots[gpu + 1 :])
    return slots, tuple(faults)


def _faults(entry: Fields, slots: tuple[Slot, ...]) -> list[Fault]:
    kind = entry.text("kind")
    if kind not in _KINDS:
        entry.fail(f"'{kind}' is not a kind of fault; one of: {', '.join(_KINDS)}", "kind")
    own, read = _KINDS[kind]
    entry.only((*_COMMON, *own))
    gpus, window = _gpus(entry, kind, slots), _window(entry)
    faults: list[Fault] = []
    for gpu in gpus:
        effect = read(entry, slots[gpu])
        faults.append(Fault(window, (gpu,), effect))
        xid = entry.integer("xid", _usual_xid(effect, slots[gpu]), 0, _MOST)
        if xid:
            faults.append(Fault(window, (gpu,), XidReport(xid)))
    if kind == "unload":
        return [Fault(window, (), _unload(entry, slots[0]))]
    return faults


def _gpus(entry: Fields, kind: str, slots: tuple[Slot, ...]) -> tuple[int, ...]:
    chosen = entry.sequence("gpus")
    if kind == "unload":
        if chosen:
            entry.fail("the driver is unloaded from all GPUs; leave 'gpus' out", "gpus")
        return ()
    if not chosen:
        entry.fail("befalls nothing; add 'gpus: [0]'")
    for gpu in chosen:
        if not isinstance(gpu, int) or isinstance(gpu, bool) or not 0 <= gpu < len(slots):
            entry.fail(f"'{gpu}' is not a GPU of this node; it has 0 to {len(slots) - 1}", "gpus")
    return tuple(chosen)


def _window(entry: Fields) -> Window:
    if entry.has("at") == entry.has("after"):
        entry.fail(
            "needs either 'at', a time of every day, or 'after', since the start: 'after: 90s'"
        )
    length = nanoseconds(entry.duration("for", None, 1.0)) if entry.has("for") else None
    if entry.has("at"):
        if entry.has("every"):
            entry.fail("'at' comes every day; for another period write 'after'", "every")
        return Window(nanoseconds(entry.time_of_day("at")), length, is_daily=True)
    period = nanoseconds(entry.duration("every", None, 1.0)) if entry.has("every") else None
    if period is not None and length is not None and length >= period:
        entry.fail("lasts longer than its period; make 'for' shorter than 'every'", "for")
    return Window(nanoseconds(entry.duration("after", None)), length, period)


def _usual_xid(effect: Effect, slot: Slot) -> int:
    """What a driver reports of such a fault, 0 where nothing."""
    if isinstance(effect, Loss):
        return _OFF_THE_BUS
    if isinstance(effect, NvlinkTrouble) and effect.is_down:
        return _NVLINK_XID
    if isinstance(effect, MemoryErrors) and effect.uncorrected:
        retires_pages = slot.board.compute_capability <= _LAST_WITH_PAGES
        return _DOUBLE_BIT_ERROR if retires_pages else _CONTAINED_ERROR
    return 0


def _function(entry: Fields) -> str:
    name = entry.text("function", "")
    if name and not name.startswith("nvml"):
        entry.fail(f"'{name}' is not NVML's; write it like nvmlDeviceGetPowerUsage", "function")
    return name


def _code(entry: Fields, default: Code) -> int:
    name = entry.text("code", default.name.lower())
    codes = {code.name.lower(): code for code in Code if code}
    if name not in codes:
        entry.fail(f"'{name}' is not a code of NVML's; one of: {', '.join(codes)}", "code")
    return codes[name]


def _hang(entry: Fields, _slot: Slot) -> Effect:
    return Hang(_function(entry))


def _answer(entry: Fields, _slot: Slot) -> Effect:
    return Answer(_code(entry, Code.UNKNOWN), _function(entry))


def _unload(entry: Fields, _slot: Slot) -> Effect:
    if not entry.has("for"):
        entry.fail("a driver that never comes back is no driver; add 'for: 20s'")
    return Unload(_code(entry, Code.DRIVER_NOT_LOADED))


def _mig(entry: Fields, slot: Slot) -> Effect:
    if len(entry.sequence("gpus")) > 1:
        entry.fail("is of one GPU; write an entry for each", "gpus")
    return Recut(read_profiles(entry, "profiles", slot.board), len(slot.all_profiles))


def _xid(entry: Fields, _slot: Slot) -> Effect:
    return XidReport(entry.integer("code", None, 1, _MOST))


def _ecc(entry: Fields, _slot: Slot) -> Effect:
    names = ("corrected", "uncorrected", "rows_correctable", "rows_uncorrectable")
    counts = {name: entry.integer(name, 0, 0, _MOST) for name in names}
    return MemoryErrors(
        **counts,
        is_pending=entry.flag("pending", default=False),
        has_failed=entry.flag("failed", default=False),
    )


def _throttle(entry: Fields, slot: Slot) -> Effect:
    reason, board = entry.text("reason"), slot.board
    if reason not in _REASONS:
        entry.fail(f"'{reason}' is not a reason; one of: {', '.join(_REASONS)}", "reason")
    if entry.has("power_limit_watts"):
        return Throttle(
            entry.number(
                "power_limit_watts", None, lowest_limit_watts(board), board.power_limit_watts
            )
        )
    if entry.has("ambient_celsius"):
        return Throttle(ambient_celsius=entry.number("ambient_celsius", None, 5.0, 80.0))
    ratio = entry.number("clock_ratio", 0.5, 0.15, 1.0)
    return Throttle(clock_ratio=ratio, reasons=_REASONS[reason])


def _pcie(entry: Fields, _slot: Slot) -> Effect:
    def found(key: str, most: int) -> int | None:
        return entry.integer(key, None, 1, most) if entry.has(key) else None

    return PcieTrouble(
        generation=found("generation", _LATEST_GENERATION),
        width=found("width", _WIDEST_LINK),
        idle_generation=found("idle_generation", _LATEST_GENERATION),
        replays=entry.integer("replays", 0, 0, _MOST),
    )


def _nvlink(entry: Fields, _slot: Slot) -> Effect:
    links = entry.sequence("links")
    for link in links:
        if not isinstance(link, int) or isinstance(link, bool) or not 0 <= link < _MOST_LINKS:
            entry.fail(f"'{link}' is not the number of a link; write them like [0, 1]", "links")
    if not links:
        entry.fail("is on no link; add 'links: [0]'")
    errors = ("replay_errors", "recovery_errors", "crc_errors")
    return NvlinkTrouble(
        frozenset(links),
        entry.flag("down", default=False),
        **{name: entry.integer(name, 0, 0, _MOST) for name in errors},
    )


_KINDS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Fields, Slot], Effect]]]] = {
    "hang": (("function",), _hang),
    "answer": (("code", "function"), _answer),
    "loss": ((), lambda _entry, _slot: Loss()),
    "absence": ((), lambda _entry, _slot: Absence()),
    "unload": (("code",), _unload),
    "mig": (("profiles",), _mig),
    "xid": (("code",), _xid),
    "ecc": (
        (
            *("corrected", "uncorrected", "rows_correctable", "rows_uncorrectable"),
            *("pending", "failed"),
        ),
        _ecc,
    ),
    "throttle": (("reason", "power_limit_watts", "ambient_celsius", "clock_ratio"), _throttle),
    "pcie": (("generation", "width", "idle_generation", "replays"), _pcie),
    "nvlink": (("links", "down", "replay_errors", "recovery_errors", "crc_errors"), _nvlink),
    "dead_counters": ((), lambda _entry, _slot: DeadCounters()),
}

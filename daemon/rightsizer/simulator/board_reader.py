"""Reader of a scenario's boards and of the faults on them."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.errors import UsageError
from rightsizer.model.units import DAY_SECONDS, nanoseconds
from rightsizer.simulator.faults import (
    ActivePeriod,
    CallFailure,
    CallHang,
    DeadCounters,
    DriverUnload,
    FaultEffect,
    ForcedThrottle,
    GpuAbsence,
    GpuLoss,
    GpuReplacement,
    MemoryErrors,
    MigReconfiguration,
    NvlinkDegradation,
    PcieDegradation,
    ScenarioFault,
    XidReport,
)
from rightsizer.simulator.library.calls import NvmlCode
from rightsizer.simulator.physics import lowest_limit_watts
from rightsizer.simulator.scenario import BoardSlot
from rightsizer.simulator.scenario_row import ScenarioRow

_MOST_GPUS: Final = 64
_MOST: Final = 2**31
_MOST_LINKS: Final = 36
_WIDEST_LINK: Final = 16
_LATEST_GENERATION: Final = 6
_COMMON: Final = ("kind", "gpus", "at", "after", "every", "for", "xid")
_ECC_COUNTS: Final = ("corrected", "uncorrected", "rows_correctable", "rows_uncorrectable")
_LINK_ERRORS: Final = ("replay_errors", "recovery_errors", "crc_errors")
_LAST_WITH_PAGES: Final = (7, 5)
_REASONS: Final[Mapping[str, ClockEvent]] = {
    "power": ClockEvent.SW_POWER_CAP,
    "thermal": ClockEvent.SW_THERMAL_SLOWDOWN,
    "hardware_thermal": ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN,
    "power_brake": ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN,
    "sync_boost": ClockEvent.SYNC_BOOST,
}


def read_slots(top: ScenarioRow, catalogue: Catalogue) -> tuple[BoardSlot, ...]:
    """Read the slots of the node, one per GPU; fail without any, or with unknown boards."""
    slots: list[BoardSlot] = []
    for entry in top.rows("boards"):
        slots.extend(_slot(entry, catalogue, len(slots)))
    if not slots:
        top.fail("a scenario needs at least one board; add 'boards: [{board: L4, count: 1}]'")
    if len(slots) > _MOST_GPUS:
        top.fail(f"{len(slots)} GPUs are more than a node has; at most {_MOST_GPUS}", "boards")
    top.refuse()
    return tuple(slots)


def _slot(entry: ScenarioRow, catalogue: Catalogue, first: int) -> list[BoardSlot]:
    entry.refuse_unknown(
        (
            "board",
            "count",
            "mig",
            "power_limit_watts",
            "ambient_celsius",
            "pcie_generation",
            "pcie_width",
            "persistence",
        )
    )
    try:
        board = catalogue.get(entry.needed_text("board"))
    except UsageError as error:
        entry.fail(str(error), "board")
    least = lowest_limit_watts(board)
    most = board.power_limit_watts
    limit = entry.number("power_limit_watts", least, most)
    profiles = read_profiles(entry, "mig", board)
    return [
        BoardSlot(
            index=first + offset,
            board=board,
            profiles=profiles,
            power_limit_watts=limit,
            ambient_celsius=entry.number_or("ambient_celsius", 28.0, 5.0, 70.0),
            pcie_generation=entry.count_or(
                "pcie_generation", board.pcie_generation, 1, board.pcie_generation
            ),
            pcie_width=entry.count_or("pcie_width", board.pcie_width, 1, board.pcie_width),
            is_persistent=entry.flag("persistence", default=True),
        )
        for offset in range(entry.count_or("count", 1, 1, _MOST_GPUS))
    ]


def slot_of(entry: ScenarioRow, key: str, gpu: object, slots: tuple[BoardSlot, ...]) -> BoardSlot:
    """Return the slot of a GPU named by a key; fail if the node lacks it."""
    if not isinstance(gpu, int) or isinstance(gpu, bool) or not 0 <= gpu < len(slots):
        entry.fail(f"'{gpu}' is not a GPU of this node; it has 0 to {len(slots) - 1}", key)
    return slots[gpu]


def read_profiles(entry: ScenarioRow, key: str, board: Board) -> tuple[MigProfile, ...]:
    """Read the MIG profiles named by a key; fail if the board lacks one or has no room for all."""
    by_name = {profile.name: profile for profile in board.mig_profiles}
    chosen: list[MigProfile] = []
    for name in entry.items(key):
        if name not in by_name:
            known = ", ".join(by_name) or "none: it has no MIG"
            entry.fail(f"'{name}' is not a MIG profile of {board.key}; known: {known}", key)
        chosen.append(by_name[name])
    compute = sum(profile.compute_share for profile in chosen)
    memory = sum(profile.memory_share for profile in chosen)
    for what, total in (("compute", compute), ("memory", memory)):
        if total > 1.0 + 1e-9:
            entry.fail(f"the profiles take {total:.0%} of the {what}; remove some", key)
    return tuple(chosen)


def read_faults(
    top: ScenarioRow, slots: tuple[BoardSlot, ...]
) -> tuple[tuple[BoardSlot, ...], tuple[ScenarioFault, ...]]:
    """Read the faults; return the slots updated with MIG reconfigurations, and the faults."""
    faults: list[ScenarioFault] = []
    for entry in top.rows("faults"):
        for fault in _faults(entry, slots):
            faults.append(fault)
            if isinstance(fault.effect, MigReconfiguration):
                (gpu,) = fault.gpus
                cuts = (*slots[gpu].mig_reconfigurations, (fault.window, fault.effect))
                changed = replace(slots[gpu], mig_reconfigurations=cuts)
                slots = (*slots[:gpu], changed, *slots[gpu + 1 :])
    return slots, tuple(faults)


def _faults(entry: ScenarioRow, slots: tuple[BoardSlot, ...]) -> list[ScenarioFault]:
    kind = entry.needed_text("kind")
    if kind not in _KINDS:
        entry.fail(f"'{kind}' is not a kind of fault; one of: {', '.join(_KINDS)}", "kind")
    own, read = _KINDS[kind]
    entry.refuse_unknown((*_COMMON, *own))
    gpus = _gpus(entry, kind, slots)
    window = _window(entry)
    faults: list[ScenarioFault] = []
    for gpu in gpus:
        effect = read(entry, slots[gpu])
        faults.append(ScenarioFault(window, (gpu,), effect))
        xid = entry.count_or("xid", _usual_xid(effect, slots[gpu]), 0, _MOST)
        if xid:
            faults.append(ScenarioFault(window, (gpu,), XidReport(xid)))
    return [ScenarioFault(window, (), _unload(entry, slots[0]))] if kind == "unload" else faults


def _gpus(entry: ScenarioRow, kind: str, slots: tuple[BoardSlot, ...]) -> tuple[int, ...]:
    chosen = entry.items("gpus")
    if kind == "unload":
        if chosen:
            entry.fail("the driver is unloaded from all GPUs; leave 'gpus' out", "gpus")
        return ()
    if not chosen:
        entry.fail("befalls nothing; add 'gpus: [0]'")
    return tuple(slot_of(entry, "gpus", gpu, slots).index for gpu in chosen)


def _window(entry: ScenarioRow) -> ActivePeriod:
    if ("at" in entry) == ("after" in entry):
        entry.fail(
            "needs either 'at', a time of every day, or 'after', since the start: 'after: 90s'"
        )
    length = nanoseconds(entry.seconds("for", 1.0)) if "for" in entry else None
    if "at" in entry:
        if "every" in entry:
            entry.fail("'at' comes every day; for another period write 'after'", "every")
        at = entry.time_of_day("at")
        rest = DAY_SECONDS - (at - entry.faults.midnight_seconds) % DAY_SECONDS
        return ActivePeriod(nanoseconds(at), length or nanoseconds(rest), is_daily=True)
    period = nanoseconds(entry.seconds("every", 1.0)) if "every" in entry else None
    if period is not None and length is not None and length >= period:
        entry.fail("lasts longer than its period; make 'for' shorter than 'every'", "for")
    return ActivePeriod(nanoseconds(entry.seconds("after")), length, period)


def _usual_xid(effect: FaultEffect, slot: BoardSlot) -> int:
    match effect:
        case GpuLoss():
            return 79  # Off the bus.
        case NvlinkDegradation(is_down=True):
            return 74
        case MemoryErrors(uncorrected=count) if count:
            # A double bit error; contained on boards with row remapping.
            return 48 if slot.board.compute_capability <= _LAST_WITH_PAGES else 94
    return 0


def _function(entry: ScenarioRow) -> str:
    name = entry.text("function") or ""
    if name and not name.startswith("nvml"):
        entry.fail(f"'{name}' is not NVML's; write it like nvmlDeviceGetPowerUsage", "function")
    return name


def _code(entry: ScenarioRow, default: NvmlCode) -> int:
    codes = {code.name.lower(): code for code in NvmlCode if code}
    return codes[entry.choice("code", codes, default.name.lower())]


def _unload(entry: ScenarioRow, _slot: BoardSlot) -> FaultEffect:
    if "for" not in entry:
        entry.fail("a driver that never comes back is no driver; add 'for: 20s'")
    return DriverUnload(_code(entry, NvmlCode.DRIVER_NOT_LOADED))


def _mig(entry: ScenarioRow, slot: BoardSlot) -> FaultEffect:
    if len(entry.items("gpus")) > 1:
        entry.fail("is of one GPU; write an entry for each", "gpus")
    return MigReconfiguration(read_profiles(entry, "profiles", slot.board), len(slot.all_profiles))


def _ecc(entry: ScenarioRow, _slot: BoardSlot) -> FaultEffect:
    counts = {name: entry.count_or(name, 0, 0, _MOST) for name in _ECC_COUNTS}
    return MemoryErrors(
        **counts,
        is_pending=entry.flag("pending", default=False),
        has_failed=entry.flag("failed", default=False),
    )


def _throttle(entry: ScenarioRow, slot: BoardSlot) -> FaultEffect:
    reason = entry.needed_text("reason")
    board = slot.board
    if reason not in _REASONS:
        entry.fail(f"'{reason}' is not a reason; one of: {', '.join(_REASONS)}", "reason")
    if "power_limit_watts" in entry:
        least = lowest_limit_watts(board)
        most = board.power_limit_watts
        return ForcedThrottle(entry.needed_number("power_limit_watts", least, most))
    if "ambient_celsius" in entry:
        return ForcedThrottle(ambient_celsius=entry.needed_number("ambient_celsius", 5.0, 80.0))
    ratio = entry.number_or("clock_ratio", 0.5, 0.15, 1.0)
    return ForcedThrottle(clock_ratio=ratio, reasons=_REASONS[reason])


def _pcie(entry: ScenarioRow, _slot: BoardSlot) -> FaultEffect:
    return PcieDegradation(
        generation=entry.count("generation", 1, _LATEST_GENERATION),
        width=entry.count("width", 1, _WIDEST_LINK),
        idle_generation=entry.count("idle_generation", 1, _LATEST_GENERATION),
        replays=entry.count_or("replays", 0, 0, _MOST),
    )


def _nvlink(entry: ScenarioRow, _slot: BoardSlot) -> FaultEffect:
    links = entry.items("links")
    for link in links:
        if not isinstance(link, int) or isinstance(link, bool) or not 0 <= link < _MOST_LINKS:
            entry.fail(f"'{link}' is not the number of a link; write them like [0, 1]", "links")
    if not links:
        entry.fail("is on no link; add 'links: [0]'")
    return NvlinkDegradation(
        frozenset(links),
        entry.flag("down", default=False),
        **{name: entry.count_or(name, 0, 0, _MOST) for name in _LINK_ERRORS},
    )


_KINDS: Final[
    Mapping[str, tuple[tuple[str, ...], Callable[[ScenarioRow, BoardSlot], FaultEffect]]]
] = {
    "hang": (("function",), lambda entry, _: CallHang(_function(entry))),
    "answer": (
        ("code", "function"),
        lambda entry, _: CallFailure(_code(entry, NvmlCode.UNKNOWN), _function(entry)),
    ),
    "loss": ((), lambda _entry, _slot: GpuLoss()),
    "absence": ((), lambda _entry, _slot: GpuAbsence()),
    "replacement": ((), lambda _entry, _slot: GpuReplacement()),
    "unload": (("code",), _unload),
    "mig": (("profiles",), _mig),
    "xid": (("code",), lambda entry, _: XidReport(entry.needed_count("code", 1, _MOST))),
    "ecc": ((*_ECC_COUNTS, "pending", "failed"), _ecc),
    "throttle": (("reason", "power_limit_watts", "ambient_celsius", "clock_ratio"), _throttle),
    "pcie": (("generation", "width", "idle_generation", "replays"), _pcie),
    "nvlink": (("links", "down", *_LINK_ERRORS), _nvlink),
    "dead_counters": ((), lambda _entry, _slot: DeadCounters()),
}

"""Reader of a scenario's boards and of the faults on them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.values import DAY_SECONDS, UsageError, nanoseconds
from rightsizer.simulator.faults import (
    ActivePeriod,
    DriverUnload,
    FaultEffect,
    ForcedThrottle,
    GpuLoss,
    MemoryErrors,
    MigReconfiguration,
    NvlinkDegradation,
    ScenarioFault,
    XidReport,
)
from rightsizer.simulator.physics import lowest_limit_watts
from rightsizer.simulator.scenario import BoardSlot
from rightsizer.simulator.scenario_document import (
    EFFECT_OF,
    MOST_GPUS,
    REASONS,
    BoardsEntry,
    FaultEntry,
    MigCut,
    RuleError,
    ThrottleCause,
)

Path = tuple[str | int, ...]
_LAST_WITH_PAGES: Final = (7, 5)


def read_slots(entries: Sequence[BoardsEntry], catalogue: Catalogue) -> tuple[BoardSlot, ...]:
    """Read the slots of the node, one per GPU; unknown boards raise a `RuleError`."""
    slots: list[BoardSlot] = []
    for place, entry in enumerate(entries):
        slots.extend(_slots(entry, ("boards", place), catalogue, len(slots)))
    if len(slots) > MOST_GPUS:
        fault = f"{len(slots)} GPUs are more than a node has; at most {MOST_GPUS}"
        raise RuleError(("boards",), fault)
    return tuple(slots)


def _slots(entry: BoardsEntry, path: Path, catalogue: Catalogue, first: int) -> Iterator[BoardSlot]:
    try:
        board = catalogue.get(entry.board)
    except UsageError as error:
        raise RuleError((*path, "board"), str(error)) from None
    check_limit(board, entry.power_limit_watts, path)
    check_within((*path, "pcie_generation"), entry.pcie_generation, 1, board.pcie_generation)
    check_within((*path, "pcie_width"), entry.pcie_width, 1, board.pcie_width)
    for offset in range(entry.count):
        yield BoardSlot(
            index=first + offset,
            board=board,
            profiles=read_profiles(entry.mig, (*path, "mig"), board),
            power_limit_watts=entry.power_limit_watts,
            ambient_celsius=entry.ambient_celsius,
            pcie_generation=entry.pcie_generation or board.pcie_generation,
            pcie_width=entry.pcie_width or board.pcie_width,
            is_persistent=entry.persistence,
        )


def check_within(path: Path, value: float | None, least: float, maximum: float) -> None:
    """Raise a `RuleError` for a value beyond what the board allows."""
    if value is not None and not least <= value <= maximum:
        raise RuleError(path, f"must be between {least:g} and {maximum:g} (got {value:g})")


def check_limit(board: Board, limit_watts: float | None, path: Path) -> None:
    """Raise a `RuleError` for a power limit beyond those of a board."""
    watts = board.power_limit_watts
    check_within((*path, "power_limit_watts"), limit_watts, lowest_limit_watts(board), watts)


def slot_of(gpu: object, path: Path, slots: tuple[BoardSlot, ...]) -> BoardSlot:
    """Return the slot of a GPU; raise a `RuleError` if the node lacks it."""
    if not isinstance(gpu, int) or not 0 <= gpu < len(slots):
        fault = f"'{gpu}' is not a GPU of this node; it has 0 to {len(slots) - 1}"
        raise RuleError(path, fault)
    return slots[gpu]


def read_profiles(names: Sequence[str], path: Path, board: Board) -> tuple[MigProfile, ...]:
    """Return MIG profiles; raise a `RuleError` if the board lacks one or has no room for all."""
    by_name = {profile.name: profile for profile in board.mig_profiles}
    for name in names:
        if name not in by_name:
            offered = ", ".join(by_name) or "none: it has no MIG"
            raise RuleError(path, f"'{name}' is not a MIG profile of {board.key}; known: {offered}")
    chosen = tuple(by_name[name] for name in names)
    compute = sum(profile.compute_share for profile in chosen)
    memory = sum(profile.memory_share for profile in chosen)
    for what, total in (("compute", compute), ("memory", memory)):
        if total > 1.0 + 1e-9:
            raise RuleError(path, f"the profiles take {total:.0%} of the {what}; remove some")
    return chosen


def read_faults(
    entries: Sequence[FaultEntry], slots: tuple[BoardSlot, ...], midnight_seconds: float
) -> tuple[tuple[BoardSlot, ...], tuple[ScenarioFault, ...]]:
    """Read the faults; return the slots updated with MIG reconfigurations, and the faults."""
    faults: list[ScenarioFault] = []
    for place, entry in enumerate(entries):
        for fault in _faults(entry, ("faults", place), slots, midnight_seconds):
            faults.append(fault)
            if isinstance(fault.effect, MigReconfiguration):
                (gpu,) = fault.gpus
                cuts = (*slots[gpu].mig_reconfigurations, (fault.window, fault.effect))
                changed = replace(slots[gpu], mig_reconfigurations=cuts)
                slots = (*slots[:gpu], changed, *slots[gpu + 1 :])
    return slots, tuple(faults)


def _faults(
    entry: FaultEntry, path: Path, slots: tuple[BoardSlot, ...], midnight_seconds: float
) -> Iterator[ScenarioFault]:
    kind: Any = EFFECT_OF[type(entry)]
    try:
        stated = kind(**{name: getattr(entry, name) for name in kind.__struct_fields__})
    except ValueError as error:
        raise RuleError(path, str(error)) from None
    window = _window(entry, midnight_seconds)
    if isinstance(stated, DriverUnload):
        if entry.gpus:
            fault = "the driver is unloaded from all GPUs; leave 'gpus' out"
            raise RuleError((*path, "gpus"), fault)
        if entry.for_ is None:
            raise RuleError(path, "a driver that never comes back is no driver; add 'for: 20s'")
        yield ScenarioFault(window, (), stated)
        return
    if not entry.gpus:
        raise RuleError(path, "befalls nothing; add 'gpus: [0]'")
    if isinstance(stated, MigCut) and len(entry.gpus) > 1:
        raise RuleError((*path, "gpus"), "is of one GPU; write an entry for each")
    for gpu in entry.gpus:
        slot = slot_of(gpu, (*path, "gpus"), slots)
        effect = _effect(stated, path, slot)
        yield ScenarioFault(window, (gpu,), effect)
        xid = _usual_xid(effect, slot) if entry.xid is None else entry.xid
        if xid:
            yield ScenarioFault(window, (gpu,), XidReport(xid))


def _effect(stated: object, path: Path, slot: BoardSlot) -> FaultEffect:
    """Return what a fault does on a board."""
    match stated:
        case MigCut(profiles=names):
            profiles = read_profiles(names, (*path, "profiles"), slot.board)
            return MigReconfiguration(profiles, len(slot.all_profiles))
        case ThrottleCause(power_limit_watts=float() as limit_watts):
            check_limit(slot.board, limit_watts, path)
            return ForcedThrottle(limit_watts)
        case ThrottleCause(ambient_celsius=float() as ambient_celsius):
            return ForcedThrottle(ambient_celsius=ambient_celsius)
        case ThrottleCause(reason=reason, clock_ratio=clock_ratio):
            return ForcedThrottle(clock_ratio=clock_ratio, reasons=REASONS[reason])
    return cast(FaultEffect, stated)


def _window(entry: FaultEntry, midnight_seconds: float) -> ActivePeriod:
    length = None if entry.for_ is None else nanoseconds(entry.for_)
    if entry.at is not None:
        rest = DAY_SECONDS - entry.at % DAY_SECONDS
        begin = nanoseconds((entry.at + midnight_seconds) % DAY_SECONDS)
        return ActivePeriod(begin, length or nanoseconds(rest), is_daily=True)
    period = None if entry.every is None else nanoseconds(entry.every)
    return ActivePeriod(nanoseconds(entry.after or 0.0), length, period)


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

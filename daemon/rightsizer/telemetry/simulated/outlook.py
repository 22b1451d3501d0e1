"""Which faults of a scenario hold on which GPU at a time, and what they add up to."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.fault import (
    Effect,
    Fault,
    MemoryErrors,
    NvlinkTrouble,
    PcieTrouble,
    Unload,
    XidReport,
)
from rightsizer.telemetry.simulated.window import Window

__all__ = ["HEALTHY", "Health", "LinkErrors", "Outlook"]

_Kind = TypeVar("_Kind", bound=Effect)


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """Of one NVLink."""

    replay: int = 0
    recovery: int = 0
    crc: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.replay + self.recovery + self.crc


@dataclass(frozen=True, slots=True)
class Health:
    """What has gone wrong with a GPU up to a time."""

    corrected_errors: int = 0
    uncorrected_errors: int = 0
    rows_correctable: int = 0
    rows_uncorrectable: int = 0
    is_remapping_pending: bool = False
    has_remapping_failed: bool = False
    pcie_replays: int = 0
    links_down: Mapping[int, Nanoseconds] = field(default_factory=dict)
    """Since when, by link."""
    link_errors: Mapping[int, LinkErrors] = field(default_factory=dict)

    def since(self, earlier: "Health") -> "Health":
        """The same with what was counted after an earlier time alone."""
        if self is earlier:
            return self
        return replace(
            self,
            corrected_errors=self.corrected_errors - earlier.corrected_errors,
            uncorrected_errors=self.uncorrected_errors - earlier.uncorrected_errors,
        )


HEALTHY: Final = Health()


class Outlook:
    """The faults of a node, by GPU and kind. Times are counted from the simulation's start."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        """The faults of a scenario."""
        self._by_place: dict[tuple[int, type], tuple[tuple[Window, Any], ...]] = {}
        self._unloads: list[tuple[Window, Unload]] = []
        for fault in faults:
            if isinstance(fault.effect, Unload):
                self._unloads.append((fault.window, fault.effect))
            for gpu in fault.gpus:
                place = gpu, type(fault.effect)
                before = self._by_place.get(place, ())
                self._by_place[place] = (*before, (fault.window, fault.effect))

    def __bool__(self) -> bool:
        return bool(self._by_place or self._unloads)

    def has(self, gpu: int, *kinds: type[Effect]) -> bool:
        """Whether anything of these kinds ever happens to a GPU."""
        return any((gpu, kind) in self._by_place for kind in kinds)

    def effects(
        self, gpu: int, kind: type[_Kind], time: Nanoseconds, start: Nanoseconds
    ) -> Iterator[_Kind]:
        """What of a kind holds on a GPU."""
        for window, effect in self._by_place.get((gpu, kind), ()):
            if window.since(time, start) is not None:
                yield effect

    def unload(self, time: Nanoseconds, start: Nanoseconds) -> Unload | None:
        """How the driver is away, `None` where it is there."""
        for window, effect in self._unloads:
            if window.since(time, start) is not None:
                return effect
        return None

    def loaded_at(self, time: Nanoseconds, start: Nanoseconds) -> Nanoseconds:
        """When the driver was last loaded: at the start, or when it last came back.

        While it is away, when it will come back.
        """
        begun = ((window.last_begun(time, start), window.length) for window, _ in self._unloads)
        return max([start, *(at + (length or 0) for at, length in begun if at is not None)])

    def health(self, gpu: int, time: Nanoseconds, start: Nanoseconds) -> Health:
        """The GPU's errors since a start."""
        if not self.has(gpu, MemoryErrors, PcieTrouble, NvlinkTrouble):
            return HEALTHY
        memory = list(self._counted(gpu, MemoryErrors, time, start))
        held = list(self.effects(gpu, MemoryErrors, time, start))
        return Health(
            corrected_errors=sum(n * effect.corrected for n, effect in memory),
            uncorrected_errors=sum(n * effect.uncorrected for n, effect in memory),
            rows_correctable=sum(n * effect.rows_correctable for n, effect in memory),
            rows_uncorrectable=sum(n * effect.rows_uncorrectable for n, effect in memory),
            is_remapping_pending=any(effect.is_pending for effect in held),
            has_remapping_failed=any(effect.has_failed for effect in held),
            pcie_replays=sum(
                n * effect.replays for n, effect in self._counted(gpu, PcieTrouble, time, start)
            ),
            links_down=self._links_down(gpu, time, start),
            link_errors=self._link_errors(gpu, time, start),
        )

    def xids(
        self, gpu: int, after: Nanoseconds, until: Nanoseconds, start: Nanoseconds
    ) -> list[tuple[Nanoseconds, int]]:
        """The Xids of a GPU between two times, the second included, in order."""
        found: list[tuple[Nanoseconds, int]] = []
        for window, effect in self._by_place.get((gpu, XidReport), ()):
            begun = window.last_begun(until, start)
            while begun is not None and begun > after:
                found.append((begun, effect.code))
                begun = window.last_begun(begun - 1, start)
        return sorted(found)

    def _counted(
        self, gpu: int, kind: type[_Kind], time: Nanoseconds, start: Nanoseconds
    ) -> Iterator[tuple[int, _Kind]]:
        for window, effect in self._by_place.get((gpu, kind), ()):
            yield window.begun(time, start), effect

    def _links_down(
        self, gpu: int, time: Nanoseconds, start: Nanoseconds
    ) -> dict[int, Nanoseconds]:
        down: dict[int, Nanoseconds] = {}
        for window, effect in self._by_place.get((gpu, NvlinkTrouble), ()):
            elapsed = window.since(time, start) if effect.is_down else None
            if elapsed is not None:
                for link in effect.links:
                    down[link] = min(time - elapsed, down.get(link, time))
        return down

    def _link_errors(
        self, gpu: int, time: Nanoseconds, start: Nanoseconds
    ) -> dict[int, LinkErrors]:
        errors: dict[int, LinkErrors] = {}
        for times, effect in self._counted(gpu, NvlinkTrouble, time, start):
            for link in effect.links:
                before = errors.get(link, LinkErrors())
                errors[link] = LinkErrors(
                    before.replay + times * effect.replay_errors,
                    before.recovery + times * effect.recovery_errors,
                    before.crc + times * effect.crc_errors,
                )
        return errors

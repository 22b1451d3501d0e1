"""Exporters whose collection stands still while they go on answering."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.dcgm.exposition import Exposition

__all__ = ["Stillness"]

_Evidence: TypeAlias = Mapping[Signal, float]
_ALWAYS_GROWS: Final = Signal.ENERGY_JOULES
_ALWAYS_JITTERS: Final = Signal.POWER_WATTS


class Stillness:
    """Finds devices whose values repeat for longer than a running GPU's can.

    A GPU that draws power uses energy, so its counter grows with every collection. Where the
    exporter leaves energy out, all values of the GPU must repeat, the power draw among them.
    Whatever has neither follows the GPU that it is a part of, or else all the others.
    """

    def __init__(self, longest_age: Nanoseconds) -> None:
        """Nothing was seen yet."""
        self._longest_age = longest_age
        self._seen: dict[str, tuple[_Evidence, Nanoseconds]] = {}

    def see(self, page: Exposition, now: Nanoseconds) -> frozenset[str]:
        """The devices of a page that stand still.

        Args:
            page: The newest one.
            now: When it was fetched, on the steady clock.
        """
        seen: dict[str, tuple[_Evidence, Nanoseconds]] = {}
        for device, values in page.values.items():
            evidence = _evidence(values)
            if evidence is None:
                continue
            before = self._seen.get(device)
            is_same = before is not None and before[0] == evidence
            seen[device] = before if before is not None and is_same else (evidence, now)
        self._seen = seen
        still = {device for device, (_, since) in seen.items() if now - since > self._longest_age}
        is_all_still = bool(still) and len(still) == len(seen)
        for device in page.values.keys() - seen.keys():
            parent, _ = page.instances.get(device, ("", 0))
            if parent in still or (parent not in seen and is_all_still):
                still.add(device)
        return frozenset(still)


def _evidence(values: Mapping[Signal, float]) -> _Evidence | None:
    """What cannot stay the same; `None` where everything may."""
    energy = values.get(_ALWAYS_GROWS)
    if energy:
        return {_ALWAYS_GROWS: energy}
    return values if values.get(_ALWAYS_JITTERS) else None

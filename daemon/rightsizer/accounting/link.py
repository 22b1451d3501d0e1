"""The PCIe generation that a GPU reaches under load; at rest its link is slow to save power."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.settings import setting
from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["LinkSettings", "LinkWatch"]

_PARTS: Final = 6


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How long a link is watched before its generation is believed."""

    window_seconds: float = setting(
        60.0,
        help="How far back the highest generation under load counts.",
        unit="seconds",
        minimum=1,
        maximum=3600,
        source="telemetry of real boards: a link trains up some time after the load begins",
    )
    loaded_seconds: float = setting(
        5.0,
        help="Time under load in that window before the generation is judged.",
        unit="seconds",
        minimum=0,
        maximum=3600,
        source="a link that trains down at rest is slow when a short burst finds it so",
    )


@dataclass(slots=True)
class _Part:
    """A sixth of the window."""

    number: int
    loaded: Nanoseconds = 0
    highest: float = 0.0


class LinkWatch:
    """One GPU's link over the last minute."""

    def __init__(self, settings: LinkSettings | None = None) -> None:
        """Nothing seen yet."""
        settings = settings or LinkSettings()
        self._length = max(1, nanoseconds(settings.window_seconds) // _PARTS)
        self._needed = nanoseconds(settings.loaded_seconds)
        self._parts: deque[_Part] = deque(maxlen=_PARTS)

    def see(
        self, now: Nanoseconds, duration: Nanoseconds, generation: float | None, *, is_loaded: bool
    ) -> float | None:
        """The highest generation under load of late; `None` before there was load enough.

        Args:
            now: The end of a stretch, on the source's steady clock.
            duration: How long it is.
            generation: What was negotiated at its end, `None` where nobody says.
            is_loaded: Whether the GPU was at work.
        """
        number = now // self._length
        while self._parts and self._parts[0].number <= number - _PARTS:
            self._parts.popleft()
        if is_loaded and generation:
            if not self._parts or self._parts[-1].number != number:
                self._parts.append(_Part(number))
            part = self._parts[-1]
            part.loaded += duration
            part.highest = max(part.highest, generation)
        if not self._parts or sum(part.loaded for part in self._parts) < self._needed:
            return None
        return max(part.highest for part in self._parts)

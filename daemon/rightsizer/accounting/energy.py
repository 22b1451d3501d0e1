"""What a device drew over a stretch: by the driver's counter of energy, else by power x time.

The draw is a mean over a second on some boards and a moment's on others, so that the counter is
better wherever it can be believed.
"""

from dataclasses import dataclass

from rightsizer.domain.energy_source import EnergySource
from rightsizer.domain.settings import setting
from rightsizer.domain.units import Nanoseconds, seconds

__all__ = ["Energy", "EnergyMeter", "EnergySettings"]


@dataclass(frozen=True, slots=True)
class EnergySettings:
    """When the driver's counter of energy is not believed."""

    plausible_limit_ratio: float = setting(
        2.0,
        help="Mean draw by the energy counter, of the power limit, above which it has jumped.",
        unit="ratio",
        minimum=1,
        source="a counter that falls to 0 and comes back would book its whole life at once",
    )


@dataclass(frozen=True, slots=True)
class Energy:
    """What was drawn, and how that is known."""

    joules: float
    source: EnergySource


class EnergyMeter:
    """Reads one device's counter of energy, stretch by stretch.

    A counter that is refreshed less often than it is read stands still and then jumps. While it
    stands, the draw says what goes to each stretch; what was booked so is taken from the jump,
    so that the sum stays the counter's.
    """

    def __init__(self, settings: EnergySettings | None = None) -> None:
        """Knows no counter yet."""
        self._settings = settings or EnergySettings()
        self._counter_joules: float | None = None
        self._still: Nanoseconds = 0
        self._ahead_joules = 0.0
        """Booked beyond what the counter says."""
        self._owed_joules = 0.0
        """Of that, what even the counter's last step did not bear out."""

    def restart(self, counter_joules: float | None) -> None:
        """Count from here: what lies before belongs to no stretch."""
        self._counter_joules, self._still = counter_joules, 0
        self._ahead_joules = self._owed_joules = 0.0

    def measure(
        self,
        elapsed: Nanoseconds,
        watts: float | None,
        counter_joules: float | None,
        limit_watts: float | None,
    ) -> Energy | None:
        """What was drawn since the last call; `None` where neither draw nor counter tell.

        Args:
            elapsed: How long the stretch is.
            watts: The draw at its end.
            counter_joules: The driver's counter at its end.
            limit_watts: The power limit; without one every step of the counter is believed.
        """
        drawn = None if watts is None else watts * seconds(elapsed)
        before = self._counter_joules
        if counter_joules is None or before is None or counter_joules < before:
            self.restart(counter_joules)
            return _by_power(drawn)
        self._still += elapsed
        moved = counter_joules - before
        if moved == 0:
            return _by_power(self._while_still(drawn))
        if limit_watts is not None and moved > self._most(limit_watts):
            self.restart(counter_joules)
            return _by_power(drawn)
        rest = moved - self._ahead_joules
        self.restart(counter_joules)
        self._ahead_joules = self._owed_joules = max(0.0, -rest)
        return Energy(max(0.0, rest), EnergySource.COUNTER)

    def _while_still(self, drawn: float | None) -> float | None:
        if drawn is None:
            return None
        paid = min(self._owed_joules, drawn)
        self._owed_joules -= paid
        self._ahead_joules += drawn - paid
        return drawn - paid

    def _most(self, limit_watts: float) -> float:
        return self._settings.plausible_limit_ratio * limit_watts * seconds(self._still)


def _by_power(joules: float | None) -> Energy | None:
    return None if joules is None else Energy(joules, EnergySource.POWER)

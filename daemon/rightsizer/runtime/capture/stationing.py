"""Whether an agent has to do with profiles as they land; most have not, and load nothing for it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from rightsizer.domain.profile import Profile
from rightsizer.edge.clock import Clock
from rightsizer.profiles.reader import ReadLimits
from rightsizer.runtime.capture.book import CaptureBook
from rightsizer.runtime.capture.witness import Witness
from rightsizer.runtime.profile_settings import ProfileSettings
from rightsizer.telemetry.controls import Controls, Release

if TYPE_CHECKING:
    from rightsizer.runtime.capture.station import Station

__all__ = ["Taker", "station_of"]


class Taker(Protocol):
    """Whoever makes something of profiles."""

    def take(self, profiles: Sequence[Profile]) -> object:
        """Judge profiles and keep what they say."""


def station_of(  # noqa: PLR0913 - what it brings together.
    settings: ProfileSettings,
    witness: Witness,
    book: CaptureBook,
    taker: Taker,
    *,
    limits: Callable[[], ReadLimits],
    controls: Controls,
    still_held: Callable[[Release], str | None],
    clock: Clock,
) -> "Station | None":
    """The station that the settings ask for, `None` where they name no folder.

    Args:
        settings: Of profiles, as they are when the agent starts.
        witness: What captures go by.
        book: Remembers captures and files.
        taker: Gets what was read.
        limits: What a file may ask of its reader, as it is configured now.
        controls: Where the profiling counters are let go.
        still_held: Why they are not yet, `None` once they are.
        clock: The agent's.
    """
    if not settings.drop_folder.path:
        return None
    from rightsizer.runtime.capture.station import Station  # noqa: PLC0415 - as said above.

    return Station(
        settings.drop_folder,
        settings.capture,
        witness,
        book,
        taker,
        limits=limits,
        controls=controls,
        still_held=still_held,
        clock=clock,
    )

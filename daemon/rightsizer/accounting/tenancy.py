"""Who holds a device, and since when; a restart of the holder is no end."""

from rightsizer.domain.entry import Entry
from rightsizer.domain.state import State
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Holding, Workload

__all__ = ["Tenancy"]


class Tenancy:
    """One device's present holder."""

    def __init__(self, gap: Nanoseconds) -> None:
        """Nobody holds the device yet.

        Args:
            gap: How long a device may stand empty before its holder has left.
        """
        self._gap = gap
        self._empty_since: Nanoseconds | None = None
        self.holder: Workload | None = None
        """The workload with the largest share, `None` where nobody holds the device."""
        self.since: Nanoseconds = 0
        """When the holder took the device, or left it; wall time."""

    def restore(self, holder: Workload | None, since: Nanoseconds) -> None:
        """Go on where a history ended."""
        self.holder, self.since = holder, since

    def see(self, holdings: tuple[Holding, ...], entry: Entry) -> bool:
        """Take note of who held the device over a stretch; whether somebody has taken it."""
        if entry.end < self.since:  # The clock was set back, and nobody holds it from then on.
            self.since = entry.start
        if holdings:
            largest = max(holdings, key=lambda held: held.share_ratio)
            return self._take(largest.workload, entry.start)
        if entry.state is State.IDLE_EMPTY:
            self._stand_empty(entry)
        elif entry.state is not State.UNKNOWN:
            self._empty_since = None
        return False

    def _take(self, holder: Workload, start: Nanoseconds) -> bool:
        is_new = self.holder is None or holder.key != self.holder.key
        if is_new:
            self.since = start
        self.holder, self._empty_since = holder, None
        return is_new

    def _stand_empty(self, entry: Entry) -> None:
        if self._empty_since is None or entry.end < self._empty_since:
            self._empty_since = entry.start
        if self.holder is not None and entry.end - self._empty_since >= self._gap:
            self.holder, self.since = None, self._empty_since

"""One look at a device: what several answers of one call share, read once."""

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.counters import Counters
from rightsizer.telemetry.simulated.library.driver import Driver
from rightsizer.telemetry.simulated.library.handle import Handle
from rightsizer.telemetry.simulated.moments import instant_watts
from rightsizer.telemetry.simulated.outlook import Health
from rightsizer.telemetry.simulated.physics import BoardState

__all__ = ["Look"]


class Look:
    """A device at one time; nothing is worked out that nobody asks for."""

    __slots__ = ("_counters", "_driver", "_health", "_state", "device", "time")

    def __init__(self, driver: Driver, device: Handle) -> None:
        """A device as it is now."""
        self.device = device
        self.time: Nanoseconds = driver.now()
        self._driver = driver
        self._state: BoardState | None = None
        self._counters: Counters | None = None
        self._health: Health | None = None

    @property
    def state(self) -> BoardState:
        """What is true of the device."""
        if self._state is None:
            self._state = self.device.state_at(self.time)
        return self._state

    @property
    def counters(self) -> Counters:
        """What the GPU has used and moved."""
        if self._counters is None:
            self._counters = self._driver.node.counters(self.device.uuid, self.time)
        return self._counters

    @property
    def health(self) -> Health:
        """What has gone wrong with the GPU in its life."""
        if self._health is None:
            self._health = self.device.health
        return self._health

    @property
    def recent(self) -> Health:
        """What of it was counted since the driver was loaded."""
        return self.device.recent_health

    @property
    def instant_watts(self) -> float:
        """The draw of this moment."""
        return instant_watts(self.state, self.device.unit.around, self.time)

    def link_counters(self, link: int) -> Counters:
        """What the GPU had moved while a link was last up."""
        since = self.health.links_down.get(link)
        if since is None:
            return self.counters
        return self._driver.node.counters(self.device.uuid, since)

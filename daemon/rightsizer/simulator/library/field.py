"""Definition of a numbered field: where it is supported, and how it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from rightsizer.model.units import Nanoseconds
from rightsizer.simulator.counters import GpuCounters
from rightsizer.simulator.faults import GpuHealth
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
from rightsizer.simulator.physics import BoardState
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import instant_watts


class FieldContext:
    """A device at one time; nothing is worked out that nobody asks for."""

    __slots__ = ("_counters", "_driver", "_health", "_state", "device", "time")

    def __init__(self, driver: SimulatedDriver, device: SimulatedHandle) -> None:
        """A device as it is now."""
        self.device = device
        self.time: Nanoseconds = driver.now()
        self._driver = driver
        self._state: BoardState | None = None
        self._counters: GpuCounters | None = None
        self._health: GpuHealth | None = None

    @property
    def state(self) -> BoardState:
        """What is true of the device."""
        if self._state is None:
            self._state = self.device.state_at(self.time)
        return self._state

    @property
    def counters(self) -> GpuCounters:
        """What the GPU has used and moved."""
        if self._counters is None:
            self._counters = self._driver.node.counters(self.device.uuid, self.time)
        return self._counters

    @property
    def health(self) -> GpuHealth:
        """What has gone wrong with the GPU in its life."""
        if self._health is None:
            self._health = self.device.health
        return self._health

    @property
    def recent(self) -> GpuHealth:
        """What of it was counted since the driver was loaded."""
        return self.device.recent_health

    @property
    def instant_watts(self) -> float:
        """The draw of this moment."""
        return instant_watts(self.state, self.device.unit.around, self.time)

    def link_counters(self, link: int) -> GpuCounters:
        """What the GPU had moved while a link was last up."""
        since = self.health.links_down.get(link)
        if since is None:
            return self.counters
        return self._driver.node.counters(self.device.uuid, since)


ALL_LINKS = 0xFFFFFFFF
"""The scope that means the sum over all links."""


class FieldValueType(IntEnum):
    """NVML's types of values."""

    UNSIGNED_INT = 1
    UNSIGNED_LONG_LONG = 3
    SIGNED_INT = 5


@dataclass(frozen=True, slots=True)
class BoardField:
    """Of the GPU as a whole; the scope does not matter."""

    kind: FieldValueType
    read: Callable[[FieldContext], float]
    feature: BoardFeature = BoardFeature.MEMORY
    """Without it the field is not supported; every board has memory."""


@dataclass(frozen=True, slots=True)
class LinkField:
    """Of one NVLink, which the scope names."""

    kind: FieldValueType
    read: Callable[[FieldContext, int], float]
    feature: BoardFeature = BoardFeature.NVLINK
    total: Callable[[FieldContext], float] | None = None
    """Over all links; `None` where that means nothing."""
    link: int | None = None
    """The link, where the field itself names it and the scope does not matter."""
    needs_link_up: bool = True
    """Whether it is not supported on a board whose links lead nowhere."""

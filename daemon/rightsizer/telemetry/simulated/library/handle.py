"""A device as the library's functions see it."""

from collections.abc import Callable
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.counters import Counters
from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.calls import Code, Refusal
from rightsizer.telemetry.simulated.node import Node, Unit
from rightsizer.telemetry.simulated.outlook import Health
from rightsizer.telemetry.simulated.physics import BoardState, Surroundings
from rightsizer.telemetry.simulated.support import Support, support_of
from rightsizer.telemetry.simulated.waking import waking

__all__ = ["Handle"]

_INSTANCE_STRIDE: Final = 0x100


class Handle:
    """A GPU or a MIG instance at an address."""

    __slots__ = (
        *("_node", "_now", "_sleeps", "address", "course", "parent", "parts", "support"),
        *("unit", "uuid", "woken_at"),
    )

    def __init__(
        self,
        node: Node,
        now: Callable[[], Nanoseconds],
        unit: Unit,
        address: int,
        parent: "Handle | None",
    ) -> None:
        """A device at an address."""
        self._node = node
        self._now = now
        self._sleeps = not unit.slot.is_persistent
        self.unit = unit
        self.uuid = unit.device.uuid
        self.address = address
        self.parent = parent or self
        self.course = node.course(unit)
        self.support: Support = support_of(unit.slot.board)
        self.woken_at: Nanoseconds = 0
        self.parts: tuple[Handle, ...] = tuple(
            Handle(node, now, instance, address + (number + 1) * _INSTANCE_STRIDE, self)
            for number, instance in enumerate(unit.instances)
        )

    @property
    def instances(self) -> "tuple[Handle, ...]":
        """The MIG instances that the GPU has now."""
        if not self.parts or not self.unit.slot.recuts:
            return self.parts
        return tuple(self.parts[spot.instance or 0] for spot in self.course.spots(self._now()))

    @property
    def state(self) -> BoardState:
        """What is true of the device now, or seems to be where the driver has just woken it."""
        return self.state_at(self._now())

    def state_at(self, time: Nanoseconds) -> BoardState:
        """The same at another time."""
        state = self._node.state(self.uuid, time)
        return waking(state, self.around, time - self.woken_at) if self._sleeps else state

    @property
    def around(self) -> Surroundings:
        """The slot's power, cooling and links now."""
        return self.course.around(self._now())

    @property
    def counters(self) -> Counters:
        """What the GPU has used and moved until now."""
        return self._node.counters(self.uuid, self._now())

    @property
    def health(self) -> Health:
        """What has gone wrong with the GPU in its life."""
        return self._node.health(self.uuid, self._now())

    @property
    def recent_health(self) -> Health:
        """What of it was counted since the driver was loaded."""
        return self._node.recent_health(self.uuid, self._now())

    def need(self, feature: Feature) -> None:
        """Answer that something is not supported unless it is.

        Raises:
            Refusal: the board does not offer it, or not while it is cut into instances.
        """
        support = self.support
        if feature not in (support.features_when_cut if self.instances else support.features):
            raise Refusal(Code.NOT_SUPPORTED)

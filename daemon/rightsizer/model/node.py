"""The machine around a workload, as it stands now: what the rules know beside windows of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rightsizer.model.driver_codes import XidLog
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.reading import Reading
from rightsizer.model.topology import Topology
from rightsizer.model.workload import Holding

if TYPE_CHECKING:
    from rightsizer.model.device import Device
    from rightsizer.model.finding import Case


@dataclass(frozen=True, slots=True)
class Node:
    """What the last snapshot held, and what else is judged beside a case."""

    devices: tuple[Device, ...] = ()
    """All of the node, parents of MIG instances included."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """The last of each device, by uuid."""
    xids: Mapping[str, XidLog] = field(default_factory=dict)
    """By uuid, of devices that are down too."""
    holdings: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)
    """Who holds each device, by uuid."""
    topology: Topology | None = None
    """`None` where not measured."""
    cases: tuple[Case, ...] = ()
    """All workloads of the node over the same span, this one included; these have no node."""

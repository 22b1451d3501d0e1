"""Cases with the machine around them, for the rules of hardware, power and placement."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from msgspec.structs import replace

from readings import gpu
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.finding import Case, Node
from rightsizer.model.reading import Process, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.topology import GpuLink, LinkKind, Topology
from rightsizer.model.workload import Holding, Workload

HEALTHY: Final[Mapping[Signal, float]] = {
    Signal.POWER_LIMIT_WATTS: 700.0,
    Signal.SM_CLOCK_HERTZ: 1.98e9,
    Signal.CLOCK_EVENT_REASONS: 0.0,
    Signal.TEMPERATURE_CELSIUS: 60.0,
    Signal.PCIE_LINK_GENERATION: 5.0,
    Signal.PCIE_LINK_WIDTH: 16.0,
    Signal.NVLINK_LINKS: 18.0,
    Signal.NVLINK_LINKS_UP: 18.0,
    Signal.FABRIC_STATE: 3.0,
    Signal.ECC_UNCORRECTED_ERRORS: 0.0,
    Signal.RECOVERY_ACTION: 0.0,
}
LIMITS: Final[Mapping[str, float]] = {
    "power_limit_minimum_watts": 200.0,
    "power_limit_maximum_watts": 700.0,
}


def ranged(index: int = 0, **facts: Any) -> Device:
    """An H100 whose power limit may be set."""
    return gpu(index, **{**LIMITS, **facts})


def instance() -> Device:
    """A seventh of GPU-0."""
    mig = MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8)
    return gpu(0, uuid="MIG-0", mig=mig)


def around(
    judged: Case,
    values: Mapping[str, Mapping[Signal, float | None]] | None = None,
    *,
    others: Sequence[Device] = (),
    pids: Mapping[str, Sequence[int]] | None = None,
    **node: Any,
) -> Case:
    """The case with its node, healthy but for some values by uuid; `None` is a missing one."""
    devices = (*judged.devices, *others)
    readings = {
        device.uuid: Reading(
            device.uuid,
            0,
            _present({**HEALTHY, **(values or {}).get(device.uuid, {})}),
            processes=tuple(Process(pid) for pid in (pids or {}).get(device.uuid, ())),
        )
        for device in devices
    }
    return replace(judged, node=Node(**{"devices": devices, "readings": readings} | node))


def _present(values: Mapping[Signal, float | None]) -> dict[Signal, float]:
    return {signal: value for signal, value in values.items() if value is not None}


def joined(kinds: Mapping[tuple[int, int], LinkKind], count: int, **facts: Any) -> Topology:
    """GPUs whose pairs are joined over the NUMA link but for some."""
    links = tuple(
        GpuLink(
            f"GPU-{one}",
            f"GPU-{other}",
            kinds.get((one, other), LinkKind.SYSTEM),
            4 if kinds.get((one, other)) is LinkKind.NVLINK else 0,
        )
        for one, other in combinations(range(count), 2)
    )
    return Topology(links=links, **facts)


def held(workload: Workload, *indices: int) -> dict[str, tuple[Holding, ...]]:
    """GPUs that one workload holds."""
    return {f"GPU-{index}": (Holding(workload, 1.0),) for index in indices}

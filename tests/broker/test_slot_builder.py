"""Slots of a report: holders, faults and headroom, each as read."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from publish_reports import node_report
from rightsizer.advice.rules.hardware_unhealthy import RULE
from rightsizer.broker.slot import LeaseSlot, SlotHolder
from rightsizer.broker.slot_builder import SlotView, slots_of
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Severity
from rightsizer.model.reading import Missing, Process, Reading
from rightsizer.model.report import DeviceReport, NodeReport, Report, StripCell
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down
from rightsizer.model.state import Condition, Resource, State, Tier
from rightsizer.model.topology import Placement, Topology
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.model.workload import Holding, Workload, WorkloadKind

_WHOLE: Final = node_report()
_NOW: Final = _WHOLE.wall_time
_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_NAMED: Final = Workload("slurm/7", WorkloadKind.SLURM, "train")


def device(**facts: Any) -> DeviceReport:
    """A new, idle and empty H100 with changed facts."""
    values = {
        Signal.MEMORY_USED_BYTES: 5e8,
        Signal.POWER_WATTS: 70.0,
        Signal.POWER_LIMIT_WATTS: 700.0,
        Signal.TEMPERATURE_CELSIUS: 30.0,
        **facts.pop("values", {}),
    }
    base = DeviceReport(
        device=Device("GPU-a", 0, name="H100", temperature_slowdown_celsius=87.0),
        down=None,
        last_sample=_NOW,
        reading=Reading("GPU-a", 0, values, processes=()),
        signals=values,
        state=State.IDLE_EMPTY,
        conditions=frozenset(),
        tier=Tier.PROFILING,
        totals=_WHOLE.devices[0].totals,
        provisioning={},
        xids=XidLog({}),
    )
    return replace(base, **facts)


def slot(*devices: DeviceReport, view: SlotView | None = None, **facts: Any) -> LeaseSlot:
    """The first device's slot on a node with these devices."""
    report = replace(_WHOLE, devices=devices, advice=(), **facts)
    return slots_of(report, view or SlotView(_NOW))[0]


def processes(*pids: int) -> Reading:
    """A reading with processes."""
    return Reading("GPU-a", 0, {}, processes=tuple(map(Process, pids)))


def test_slot_headroom_comes_from_the_reading() -> None:
    """Memory in use, and the distance to the limits of power and temperature."""
    found = slot(device())
    assert found.memory_used_bytes == 5e8
    assert found.power_headroom_watts == 630.0
    assert found.temperature_headroom_celsius == 57.0
    assert found.holders == ()
    assert found.trouble is None
    margin = slot(device(values={Signal.TEMPERATURE_MARGIN_CELSIUS: 40.0}))
    assert margin.temperature_headroom_celsius == 40.0
    silent = slot(device(signals={}))
    assert silent.power_headroom_watts is None
    assert silent.temperature_headroom_celsius is None
    assert silent.memory_used_bytes is None


@pytest.mark.parametrize(
    ("of", "trouble"),
    [
        (device(down=Down(Missing.LOST, "GPU is lost")), "down: GPU is lost"),
        (device(last_sample=_NOW - _HOUR), "gives no fresh reading"),
        (device(last_sample=None), "gives no fresh reading"),
        (
            device(values={Signal.REMAPPED_ROWS_FAILED: 1.0}),
            "remapping a memory row has failed",
        ),
        (device(values={Signal.ECC_UNCORRECTED_ERRORS: 2.0}), "2 uncorrected memory errors"),
        (device(values={Signal.RECOVERY_ACTION: 1.0}), "the driver asks for a reset"),
        (
            device(values={Signal.FABRIC_STATE: 1.0}),
            "the GPU has not joined the NVLink fabric",
        ),
        (
            device(xids=XidLog({79: 1}, 79, _NOW - 60 * NANOSECONDS_PER_SECOND)),
            "Xid 79 once, last 1 min ago",
        ),
        (device(xids=XidLog({79: 1}, 79, _NOW - 48 * _HOUR)), None),
        (device(xids=XidLog({31: 5}, 31, _NOW)), None),
        (device(values={Signal.REMAPPED_ROWS_PENDING: 1.0}), None),
        (device(values={Signal.PCIE_REPLAYS: 5000.0}), None),
    ],
)
def test_trouble_is_what_would_end_work(of: DeviceReport, trouble: str | None) -> None:
    """By the driver's current state; program errors and minor faults block nothing."""
    assert slot(of).trouble == trouble


def test_slot_is_unhealthy_by_hardware_advice_after_a_restart() -> None:
    """A restarted agent has lost its Xids, but not its advice."""
    advice = _WHOLE.advice[0]
    finding = replace(
        advice.finding, rule=RULE.name, culprits=("GPU-a",), severity=Severity.CRITICAL
    )
    about = replace(advice, finding=finding)
    report = replace(_WHOLE, devices=(device(),), advice=(about,))
    expected = f"unhealthy by advice {about.id}: see `rightsizer explain {about.id}`"
    assert about.is_open
    assert slots_of(report, SlotView(_NOW))[0].trouble == expected
    lesser = replace(about, finding=replace(finding, severity=Severity.MEDIUM))
    elsewhere = replace(about, finding=replace(finding, culprits=("GPU-b",)))
    report = replace(report, advice=(lesser, elsewhere))
    assert slots_of(report, SlotView(_NOW))[0].trouble is None


@pytest.mark.parametrize(
    ("holdings", "pids", "leased", "holders"),
    [
        ((Holding(_NAMED, 1.0),), (7, 8), (), (SlotHolder("train", True),)),
        ((Holding(_NAMED, 1.0, has_process=False),), (), (), (SlotHolder("train", False),)),
        ((), (7,), (), (SlotHolder("process 7", True),)),
        ((), (7, 8, 9), (), (SlotHolder("process 7 and 2 more", True),)),
        ((Holding(_NAMED, 1.0),), (7, 8), (7, 8), ()),
        ((Holding(_NAMED, 1.0),), (7, 8), (8,), (SlotHolder("train", True),)),
        (
            (Holding(_NAMED, 1.0, has_process=False),),
            (7,),
            (7,),
            (SlotHolder("train", False),),
        ),
        (
            (Holding(_NAMED, 0.5), Holding(replace(_NAMED, name="other"), 0.5)),
            (7, 8),
            (),
            (SlotHolder("train", True), SlotHolder("other", True)),
        ),
    ],
)
def test_holders_are_those_who_have_no_lease(
    holdings: tuple[Holding, ...],
    pids: tuple[int, ...],
    leased: tuple[int, ...],
    holders: tuple[SlotHolder, ...],
) -> None:
    """Workloads by name, and processes of unknown owner."""
    of = device(holdings=holdings, reading=processes(*pids))
    view = SlotView(_NOW, leased_pids=frozenset(leased))
    assert slot(of, view=view).holders == holders


def test_a_gpu_is_idle_since_its_last_cell_at_work() -> None:
    """Over whole cells of the day."""

    def cell(**states: int) -> StripCell:
        return StripCell(0, 0, {State(name): value * _HOUR for name, value in states.items()})

    cells = (cell(productive=1), cell(idle_held=1), cell(idle_held=1, idle_empty=1))
    assert slot(device(strip=cells)).idle_seconds == 3 * 3600.0
    assert slot(device(strip=(*cells, cell(unknown=1)))).idle_seconds is None
    assert slot(device()).idle_seconds is None


def test_demand_is_that_of_the_present() -> None:
    """The decaying window; a demand measured too briefly is absent."""
    report_of_device = next(each for each in _WHOLE.devices if each.provisioning)
    found = slot(device(provisioning=report_of_device.provisioning)).demand
    current = report_of_device.provisioning["current"].resources
    assert found == {
        resource: each.demand for resource, each in current.items() if each.demand is not None
    }
    assert Resource.COMPUTE in found
    assert slot(device()).demand == {}


def test_an_instance_stands_as_its_gpu_does() -> None:
    """Position, power, temperature and faults are the GPU's; state, memory and holders its own."""
    mig = MigInstance("GPU-a", "1g.10gb", 3, 0, 1 / 7, 1 / 8)
    instance = device(
        device=Device("MIG-b", 0, mig=mig),
        values={Signal.POWER_WATTS: 1.0},
        signals={Signal.MEMORY_USED_BYTES: 1e9},
    )
    parent = device(
        conditions=frozenset({Condition.HARDWARE_SLOWDOWN, Condition.NETWORK_BOUND}),
        values={Signal.ECC_UNCORRECTED_ERRORS: 1.0},
        device=replace(device().device, has_mig_instances=True),
    )
    placement = Placement("GPU-a", numa_node=1)
    topology = Topology({"GPU-a": placement}, numa_nodes={1: (4, 5, 6)})
    found = slot(instance, parent, node=NodeReport(topology=topology))
    assert found.memory_used_bytes == 1e9
    assert found.power_headroom_watts == 630.0
    assert found.conditions == {Condition.HARDWARE_SLOWDOWN}
    assert found.trouble == "1 uncorrected memory error"
    assert found.device.board_uuid == "GPU-a"
    assert (found.numa_node, found.cpus) == (1, (4, 5, 6))


def test_every_device_of_a_node_has_a_seat() -> None:
    """Those that are down, partitioned or silent too."""
    report: Report = _WHOLE
    found = slots_of(report, SlotView(_NOW))
    assert [each.uuid for each in found] == [each.device.uuid for each in report.devices]
    assert any(each.trouble for each in found)

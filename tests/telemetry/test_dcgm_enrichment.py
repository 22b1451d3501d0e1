"""Driver snapshots enriched with a dcgm-exporter's values."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from dcgm_exporter import BUSY, OTHER, Exporter, dcgm_exporter, lines, page
from foreign_documents import node_bus
from readings import SECOND, gpu, snapshot, workload
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.telemetry.dcgm.enrichment import DcgmSecondarySource
from rightsizer.telemetry.dcgm.settings import DcgmSettings

MIG: Final = {"GPU_I_PROFILE": "3g.40gb", "GPU_I_ID": "2"}
ACTIVE: Final = {"DCGM_FI_PROF_SM_ACTIVE": 0.5, "DCGM_FI_DEV_POWER_USAGE": 300}
A100: Final = gpu(uuid=BUSY, pci_bus_id="00000000:1b:00.0")
WHOLE: Final = replace(A100, has_mig_instances=True)
NVML: Final = {Signal.GPU_BUSY: 0.99, Signal.POWER_WATTS: 310.0}
NOTHING: Final = snapshot(5, [], {})
NOWHERE: Final = Path("/nowhere")


def instance(uuid: str, gpu_instance_id: int = 2, compute_instance_id: int = 0) -> Device:
    """A MIG instance as the driver reports it."""
    place = MigInstance(BUSY, "3g.40gb", gpu_instance_id, compute_instance_id, 3 / 7, 0.5)
    return gpu(uuid=uuid, pci_bus_id=A100.pci_bus_id, mig=place)


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sysfs of a node with two GPUs."""
    return node_bus(tmp_path_factory.mktemp("sysfs"), "0000:1b:00.0", "0000:5e:00.0")


@contextmanager
def exporting(
    text: str, sysfs: Path = NOWHERE
) -> Iterator[tuple[DcgmSecondarySource, Exporter, FastClock]]:
    """An endpoint that has read a page."""
    clock = FastClock(0)
    with dcgm_exporter(text) as exporter:
        settings = DcgmSettings(url=exporter.url)
        endpoint = DcgmSecondarySource(settings, built_in(), clock, sysfs=sysfs)
        try:
            assert endpoint.view(10).readings
            yield endpoint, exporter, clock
        finally:
            endpoint.close()


def supplemented(text: str, *snapshots: Snapshot, sysfs: Path = NOWHERE) -> list[Snapshot]:
    """Each snapshot, enriched from a page."""
    with exporting(text, sysfs) as (endpoint, _, _):
        return [endpoint.enrich(each) for each in snapshots]


def test_a_gpu_that_both_know_is_read_better_and_not_twice() -> None:
    """Profiling comes from the exporter; NVML's own values stay."""
    ours = snapshot(5, [A100], {A100: NVML})
    [found] = supplemented(page(), ours)
    reading = found.readings[BUSY]

    assert found.devices == ours.devices
    assert (reading.get(Signal.GPU_BUSY), reading.get(Signal.POWER_WATTS)) == (0.875, 310.0)
    assert reading.get(Signal.DRAM_ACTIVE) == 0.5
    assert reading.origins[Signal.DRAM_ACTIVE] == "dcgm"
    assert found.collectors["dcgm"].success


def test_supplementing_twice_is_supplementing_once(two_gpus: Path) -> None:
    """Nothing is added twice."""
    with exporting(page() + page(uuid=OTHER, gpu="1"), two_gpus) as (endpoint, _, _):
        once = endpoint.enrich(snapshot(5, [A100], {A100: NVML}))

        assert endpoint.enrich(once) == once


@pytest.mark.parametrize("uuid", ["MIG-1234", f"{BUSY}/gi2"])
def test_an_instance_is_found_by_its_place(uuid: str) -> None:
    """An A100's instances get profiling, which NVML lacks, but not the card's power."""
    ours = instance(uuid)
    [found] = supplemented(
        page() + lines(BUSY, ACTIVE, **MIG), snapshot(5, [WHOLE, ours], {WHOLE: {}, ours: {}})
    )
    assert found.readings[uuid].values == {Signal.SM_ACTIVE: 0.5}
    assert found.readings[BUSY].get(Signal.POWER_WATTS) == 231.5
    assert found.readings[BUSY].get(Signal.SM_ACTIVE) is None
    assert len(found.devices) == 2


def test_an_instance_is_found_by_its_own_uuid() -> None:
    """Exporters write it when they query Kubernetes for devices."""
    ours = instance("MIG-1234", gpu_instance_id=9)
    text = lines("MIG-1234", ACTIVE, **MIG)
    [found] = supplemented(page() + text, snapshot(5, [WHOLE, ours], {WHOLE: {}, ours: {}}))

    assert found.readings["MIG-1234"].values == {Signal.SM_ACTIVE: 0.5}


def test_compute_instances_are_not_told_of_what_they_share() -> None:
    """A GPU instance's activity belongs to neither of its two compute instances."""
    pair = [instance("MIG-a"), instance("MIG-b", compute_instance_id=1)]
    ours = snapshot(5, [WHOLE, *pair], {each: {} for each in pair})
    [found] = supplemented(page() + lines(BUSY, ACTIVE, **MIG), ours)

    assert found.readings == ours.readings
    assert found.devices == ours.devices


def test_without_a_driver_the_exporter_is_the_source() -> None:
    """It provides GPUs, instances, holders and versions, with readings while values are valid."""
    text = page(pod="ranker-0", namespace="shop", DCGM_FI_DRIVER_VERSION="570.1")
    text += lines(OTHER, {"DCGM_FI_DEV_POWER_USAGE": 60}, gpu="1") + lines(
        OTHER, {"DCGM_FI_PROF_SM_ACTIVE": 0.25}, **MIG, gpu="1"
    )
    first, second = supplemented(
        text, replace(NOTHING, trouble="NVML is not there"), snapshot(6, [], {})
    )
    assert [(device.uuid, device.index) for device in first.devices] == [
        (BUSY, 0),
        (OTHER, 1),
        (f"{OTHER}/gi2", 1),
    ]
    assert first.devices[1].has_mig_instances
    assert first.readings[f"{OTHER}/gi2"].values == {Signal.SM_ACTIVE: 0.25}
    assert [each.readings[BUSY].time for each in (first, second)] == [5 * SECOND, 6 * SECOND]
    assert set(first.readings[BUSY].origins.values()) == {"dcgm"}
    assert first.holdings[BUSY][0].workload.pod == "ranker-0"
    assert (first.trouble, first.driver) == (None, {"driver_version": "570.1"})


def test_gpus_that_the_driver_hides_are_added_under_free_indices(two_gpus: Path) -> None:
    """A container may see one of the node's GPUs as index 0."""
    ours = gpu(uuid=OTHER, pci_bus_id="0000:5e:00.0")
    text = page() + page(uuid=OTHER, gpu="1", pci_bus_id="00000000:5E:00.0")
    [found] = supplemented(text, snapshot(5, [ours], {ours: NVML}), sysfs=two_gpus)

    assert [(device.uuid, device.index) for device in found.devices] == [(OTHER, 0), (BUSY, 1)]
    assert [device.title for device in found.devices] == ["GPU 0", BUSY]


def test_gpus_of_another_node_are_not_added() -> None:
    """The address may be that of a service, or of the wrong node."""
    ours = snapshot(5, [A100], {A100: NVML})
    [found] = supplemented(page(uuid=OTHER, Hostname="gpu-2"), ours)

    assert (found.devices, found.readings) == (ours.devices, ours.readings)
    assert "none of this node's GPUs" in str(found.collectors["dcgm"].failure)


def test_own_page_is_read_after_another_nodes() -> None:
    """A service of several exporters may be asked by chance first for another node's page."""
    ours = snapshot(5, [A100], {A100: NVML})
    xid = {"DCGM_FI_DEV_XID_ERRORS": 31}
    with exporting(page(uuid=OTHER, Hostname="gpu-2")) as (endpoint, exporter, clock):
        assert not endpoint.enrich(ours).collectors["dcgm"].success
        exporter.text = page() + lines(BUSY, xid)
        clock.wait_until(15 * SECOND, threading.Event())
        endpoint.view(10)
        own = endpoint.enrich(ours)
        exporter.text = page(uuid=OTHER, Hostname="gpu-2")
        clock.wait_until(30 * SECOND, threading.Event())
        endpoint.view(10)
        others = endpoint.enrich(ours)
    assert own.collectors["dcgm"].success
    assert own.readings[BUSY].get(Signal.DRAM_ACTIVE) == 0.5
    assert own.xids[BUSY].total == 0
    assert own.devices == others.devices == (A100,)
    assert "none of this node's GPUs" in str(others.collectors["dcgm"].failure)


def test_a_gpu_without_uuid_is_known_by_its_slot() -> None:
    """It is never added beside GPUs that may be the same."""
    text = page(uuid="", pci_bus_id="00000000:1B:00.0") + page(uuid="", gpu="7")
    [found] = supplemented(text, snapshot(5, [A100], {A100: NVML}))

    assert found.devices == (A100,)
    assert found.readings[BUSY].get(Signal.DRAM_ACTIVE) == 0.5


def test_an_instance_of_unknown_size_is_not_added() -> None:
    """As a device of its own it would count as a whole GPU."""
    [found] = supplemented(page() + page(GPU_I_ID="3", modelName="Unheard-of"), NOTHING)

    assert [device.uuid for device in found.devices] == [BUSY]


def test_device_down_in_the_driver_stays_down() -> None:
    """The exporter's values may be older than the failure."""
    ours = snapshot(5, [A100], {}, down=[A100])
    [found] = supplemented(page(), ours)

    assert (found.readings, found.down) == ({}, ours.down)


@pytest.mark.parametrize(
    ("processes", "has_process"), [((), False), (None, True)], ids=["none", "unknown"]
)
def test_holders_are_filled_in(processes: Sequence[object] | None, has_process: bool) -> None:  # noqa: FBT001 - a parameter.
    """They help where a container hides processes; our own take precedence."""
    text = page(pod="ranker-0", namespace="shop")
    ours = snapshot(5, [A100], {A100: NVML})
    reading = replace(ours.readings[BUSY], processes=None if processes is None else ())
    held = snapshot(5, [A100], {A100: NVML}, holders={A100: workload()})
    filled, kept = supplemented(text, replace(ours, readings={BUSY: reading}), held)

    [holding] = filled.holdings[BUSY]
    assert (holding.workload.key, holding.has_process) == ("kubernetes:shop/ranker-0", has_process)
    assert kept.holdings == held.holdings


def test_xids_of_our_own_go_before_the_gauge() -> None:
    """Events are counted individually; the gauge misses repetitions."""
    text = page() + page(uuid=OTHER, gpu="1")
    own = XidLog({79: 3}, 79)
    with exporting(text) as (endpoint, exporter, clock):
        for uuid in (BUSY, OTHER):
            exporter.text += lines(uuid, {"DCGM_FI_DEV_XID_ERRORS": 79})
        clock.wait_until(15 * SECOND, threading.Event())
        endpoint.view(10)
        found = endpoint.enrich(replace(NOTHING, xids={BUSY: own}))

    assert found.xids[BUSY] is own
    assert found.xids[OTHER].counts == {79: 1}


def test_an_exporter_that_ends_takes_its_values_along(two_gpus: Path) -> None:
    """Our own values remain, and GPUs known only to the exporter are down with the reason."""
    ours = snapshot(5, [A100], {A100: NVML})
    with exporting(page() + page(uuid=OTHER, gpu="1"), two_gpus) as (endpoint, exporter, clock):
        exporter.status = 503
        exporter.text = "restarting"
        for _ in range(3):
            clock.wait_until(clock.time() + 15 * SECOND, threading.Event())
            endpoint.view(10)
        found = endpoint.enrich(ours)

    assert found.readings == ours.readings
    assert found.down[OTHER].reason is Missing.STALE
    assert "503: restarting" in found.down[OTHER].detail
    assert not found.collectors["dcgm"].success

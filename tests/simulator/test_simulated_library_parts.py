"""Simulated library: fabric, links by scope, instances and events."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from rightsizer.simulator.library.faults import XidReportEvent
from simulated_driver import Bench, simulated_driver

ALL_LINKS = 0xFFFFFFFF


@pytest.fixture
def h100() -> Iterator[Bench]:
    """The eight-GPU node at 9:00, when ranks communicate over NVLink."""
    with simulated_driver("eight-gpu-node", 9.0) as made:
        yield made


@pytest.fixture
def a100() -> Iterator[Bench]:
    """Eight A100, some of them MIG-partitioned, at noon."""
    with simulated_driver("a100-mig") as made:
        yield made


def fields(gpu: Any, *wanted: int | tuple[int, int]) -> list[tuple[int, int]]:
    """Codes and integer values of fields."""
    members = {0: "uiVal", 1: "uiVal", 3: "ullVal", 5: "siVal"}
    return [
        (
            nvmldevicegetfieldvalue.nvmlReturn,
            getattr(nvmldevicegetfieldvalue.value, members[nvmldevicegetfieldvalue.valueType]),
        )
        for nvmldevicegetfieldvalue in pynvml.nvmlDeviceGetFieldValues(gpu, list(wanted))
    ]


def test_links_add_up_to_their_total(h100: Bench) -> None:
    """Each scope is a link, the highest value all of them; a missing link is refused."""
    tx = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
    found = fields(h100.gpu(2), *((tx, link) for link in range(18)), (tx, ALL_LINKS), (tx, 18))
    assert all(code == 0 for code, _ in found[:19])
    assert sum(value for _, value in found[:18]) == pytest.approx(found[18][1], rel=1e-6)
    assert found[19][0] == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_speed_has_no_total(h100: Bench) -> None:
    """Fields that are not counters need a link."""
    speed = pynvml.NVML_FI_DEV_NVLINK_GET_SPEED
    (code, _), (each, value) = fields(h100.gpu(0), (speed, ALL_LINKS), (speed, 3))
    assert code == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert (each, value) == (0, 26562)


def test_blackwell_counts_bytes() -> None:
    """Bytes by the newer counters agree with the older ones."""
    with simulated_driver("gb200-node") as bench:
        (_, sent), (_, kibibytes) = fields(
            bench.gpu(0),
            (pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, 1),
            (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 1),
        )
        assert sent == pytest.approx(kibibytes * 1024, rel=1e-6)
        version = pynvml.nvmlDeviceGetNvLinkVersion(bench.gpu(0), 1)
        assert version == pynvml.NVML_NVLINK_VERSION_5_0


def test_a_gpu_of_an_hgx_has_joined_its_fabric(h100: Bench) -> None:
    """The state is completed in both versions of the structure; another version is refused."""
    first = pynvml.c_nvmlGpuFabricInfo_t()
    pynvml.nvmlDeviceGetGpuFabricInfo(h100.gpu(0), ctypes.byref(first))
    second = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(h100.gpu(0), ctypes.byref(second))
    assert first.state == second.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
    assert first.status == pynvml.NVML_SUCCESS
    second.version = 1
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlDeviceGetGpuFabricInfoV(h100.gpu(0), ctypes.byref(second))


def test_only_nodes_of_a_rack_form_a_cluster(h100: Bench) -> None:
    """Its ID is empty on an HGX board, and the same on all GPUs of a rack."""
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(h100.gpu(0), ctypes.byref(info))
    assert bytes(info.clusterUuid) == bytes(16)
    with simulated_driver("gb200-node") as rack:
        names = set()
        for index in range(4):
            pynvml.nvmlDeviceGetGpuFabricInfoV(rack.gpu(index), ctypes.byref(info))
            names.add(bytes(info.clusterUuid))
        assert len(names) == 1
        assert names != {bytes(16)}


def test_an_instance_is_found_by_its_number_and_knows_its_profile(a100: Bench) -> None:
    """Instance, profile and MIG device agree."""
    gpu = a100.gpu(5)
    instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu, 1)
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    profile = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(
        gpu, pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE
    )
    assert (info.id, info.profileId) == (1, profile.id)
    assert profile.name == "MIG 3g.40gb"
    device = a100.instance(5, 0)
    assert pynvml.nvmlDeviceGetName(device).endswith("3g.40gb")
    attributes = pynvml.nvmlDeviceGetAttributes(device)
    assert attributes.memorySizeMB == profile.memorySizeMB
    assert attributes.sharedDecoderCount == profile.decoderCount
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetGpuInstanceById(gpu, 9)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpuInstanceGetInfo(pynvml.c_nvmlGpuInstance_t())


def test_profiles_of_all_sizes_are_reported(a100: Bench) -> None:
    """One slice, and one slice with twice the memory, are different profiles."""
    names = {
        number: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(a100.gpu(0), number).name
        for number in (0, 1, 2, 3, 4, 9)
    }
    assert names[0] == "MIG 1g.10gb"
    assert names[9] == "MIG 1g.20gb"
    assert names[4] == "MIG 7g.80gb"
    first = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(a100.gpu(0), 0)
    assert (first.sliceCount, first.multiprocessorCount, first.instanceCount) == (1, 14, 7)


def test_an_event_may_be_of_an_instance(a100: Bench) -> None:
    """The event has the instance's IDs."""
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(a100.gpu(5), pynvml.nvmlEventTypeXidCriticalError, events)
    uuid = a100.node.units[5].device.uuid
    a100.library.faults.report(XidReportEvent(uuid, 31, gpu_instance_id=2, compute_instance_id=0))
    data = pynvml.nvmlEventSetWait_v2(events, 1000)
    assert (data.eventData, data.gpuInstanceId, data.computeInstanceId) == (31, 2, 0)


def test_boards_without_ecc_have_no_events_of_it() -> None:
    """All boards report Xids."""
    with simulated_driver("zoo") as bench:
        kinds = [pynvml.nvmlDeviceGetSupportedEventTypes(bench.gpu(gpu)) for gpu in (7, 8)]
        assert [kind & pynvml.nvmlEventTypeXidCriticalError for kind in kinds] == [8, 8]
        assert [kind & pynvml.nvmlEventTypeDoubleBitEccError for kind in kinds] == [0, 2]


def test_processes_are_listed_by_what_they_do() -> None:
    """Compute, graphics and MPS clients have lists of their own, in both versions."""
    with simulated_driver("zoo") as bench:
        lists = (
            (pynvml.nvmlDeviceGetComputeRunningProcesses_v2, 8, 1),
            (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, 10, 0),
            (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2, 10, 3),
            (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, 10, 3),
            (pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, 11, 1),
        )
        for call, gpu, count in lists:
            assert len(call(bench.gpu(gpu))) == count


def test_the_older_call_sees_nothing_of_processes_on_blackwell() -> None:
    """It lists them with 0; the newer call has their shares."""
    with simulated_driver("gb200-node") as bench:
        (older,) = pynvml.nvmlDeviceGetProcessUtilization(bench.gpu(0), 0)
        (newer,) = pynvml.nvmlDeviceGetProcessesUtilizationInfo(bench.gpu(0), 0)
        assert older.pid == newer.pid
        assert (older.smUtil, newer.smUtil > 80) == (0, True)


def test_serials_tell_boards_apart(h100: Bench) -> None:
    """Each has its own serial, and its slot on the baseboard."""
    serials = [pynvml.nvmlDeviceGetSerial(h100.gpu(gpu)) for gpu in range(8)]
    assert len(set(serials)) == 8
    assert [pynvml.nvmlDeviceGetModuleId(h100.gpu(gpu)) for gpu in range(8)] == list(range(1, 9))

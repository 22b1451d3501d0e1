"""Simulated library: processes, samples, fields, MIG instances, GPM and events."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from rightsizer.simulator.library.faults import XidReportEvent
from simulated_driver import Bench, simulated_driver

METRICS = (
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    pynvml.NVML_GPM_METRIC_SM_UTIL,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    pynvml.NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC,
)


@pytest.fixture
def h100() -> Iterator[Bench]:
    """The eight-GPU node during its stall: 12:30."""
    with simulated_driver("eight-gpu-node", 12.5) as made:
        yield made


@pytest.fixture
def a100() -> Iterator[Bench]:
    """Eight A100, some of them MIG-partitioned, at noon."""
    with simulated_driver("a100-mig") as made:
        yield made


def query(first: Any, second: Any) -> dict[int, float | str]:
    """Metrics between two samples, or the reason why there are none."""
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(METRICS)
    request.sample1 = first
    request.sample2 = second
    for place, metric in enumerate(METRICS):
        request.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(request)
    return {
        metric.metricId: metric.value if metric.nvmlReturn == 0 else "refused"
        for metric in request.metrics[: len(METRICS)]
    }


def test_processes_hold_the_memory_of_their_gpu(h100: Bench) -> None:
    """Both versions list the same processes; they hold the memory in use."""
    gpu = h100.gpu(2)
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    (older,) = pynvml.nvmlDeviceGetComputeRunningProcesses_v2(gpu)
    assert (process.pid, process.usedGpuMemory) == (older.pid, older.usedGpuMemory)
    used = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2).used
    assert used - 4 * 2**20 < process.usedGpuMemory <= used
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(gpu) == []


def test_too_little_room_for_processes_tells_how_many_there_are(h100: Bench) -> None:
    """The count is set when the code says that the array is too small."""
    count = ctypes.c_uint(0)
    code = h100.library.nvmlDeviceGetComputeRunningProcesses_v3(
        h100.gpu(2), ctypes.byref(count), None
    )
    assert (code, count.value) == (pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 1)


def test_a_busy_process_has_its_share(h100: Bench) -> None:
    """Its SM and memory percentages are those of its GPU."""
    gpu = h100.gpu(1)
    (sample,) = pynvml.nvmlDeviceGetProcessUtilization(gpu, 0)
    (same,) = pynvml.nvmlDeviceGetProcessesUtilizationInfo(gpu, 0)
    assert (sample.pid, sample.smUtil) == (same.pid, same.smUtil)
    assert 80 < sample.smUtil <= 100
    assert 30 < sample.memUtil < 50
    assert (sample.encUtil, sample.decUtil) == (0, 0)


def test_an_idle_process_has_no_samples(h100: Bench) -> None:
    """NOT_FOUND means idle, also when all samples are older than the caller's last one."""
    for call in (
        pynvml.nvmlDeviceGetProcessUtilization,
        pynvml.nvmlDeviceGetProcessesUtilizationInfo,
    ):
        with pytest.raises(pynvml.NVMLError_NotFound):
            call(h100.gpu(7), 0)
        with pytest.raises(pynvml.NVMLError_NotFound):
            call(h100.gpu(1), h100.time // 1000)


def test_samples_go_back_to_the_last_look(h100: Bench) -> None:
    """Sixteen seconds are kept, six samples a second; those after the given time are returned."""
    gpu = h100.gpu(2)
    kind, samples = pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    assert kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    assert len(samples) == 99
    assert all(sample.sampleValue.uiVal >= 97 for sample in samples)
    times = [sample.timeStamp for sample in samples]
    assert times == sorted(times)
    assert times[-1] == h100.time // 1000
    assert (times[-1] - times[0]) / 98 == pytest.approx(1e6 / 6, rel=1e-3)
    _, later = pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, times[-5])
    assert [sample.timeStamp for sample in later] == times[-4:]
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, times[-1])
    h100.pass_seconds(1)
    _, new = pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, times[-1])
    assert len(new) == 6


def test_samples_swing_around_the_mean_of_their_second() -> None:
    """Samples between two ticks show gaps in the load, and their mean is the busy share."""
    with simulated_driver("eight-gpu-node", 9.0) as bench:
        gpu = bench.gpu(5)
        since = (bench.time // 1000) - 1_000_000
        _, samples = pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, since)
        values = [sample.sampleValue.uiVal for sample in samples]
        mean = sum(values) / len(values)
        assert mean == pytest.approx(pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu, abs=2)
        assert max(values) - min(values) > 10


def test_an_unknown_kind_of_sample_is_refused(h100: Bench) -> None:
    """Only the GPU and its memory controller have sample buffers."""
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetSamples(h100.gpu(0), 77, 0)


def fields(gpu: Any, *wanted: int | tuple[int, int]) -> list[tuple[int, Any]]:
    """Codes and values of fields."""
    members = {0: "dVal", 1: "uiVal", 3: "ullVal", 5: "siVal"}
    return [
        (
            nvmldevicegetfieldvalue.nvmlReturn,
            getattr(nvmldevicegetfieldvalue.value, members[nvmldevicegetfieldvalue.valueType]),
        )
        for nvmldevicegetfieldvalue in pynvml.nvmlDeviceGetFieldValues(gpu, list(wanted))
    ]


def test_fields_agree_with_their_functions(h100: Bench) -> None:
    """Energy is the same both ways, and memory is hotter than the GPU."""
    gpu = h100.gpu(0)
    (_, energy), (_, memory) = fields(
        gpu, pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, pynvml.NVML_FI_DEV_MEMORY_TEMP
    )
    assert energy == pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    assert memory > pynvml.nvmlDeviceGetTemperature(gpu, 0)


def test_a_field_that_is_not_there_has_its_own_code(h100: Bench) -> None:
    """Other fields of the request stay valid; the same holds on a board without NVLink."""
    found = fields(h100.gpu(0), 297, pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION)
    assert [code for code, _ in found] == [pynvml.NVML_ERROR_NOT_SUPPORTED, 0]
    with simulated_driver("t4-pair") as t4:
        absent = (
            pynvml.NVML_FI_DEV_MEMORY_TEMP,
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
            pynvml.NVML_FI_DEV_REMAPPED_PENDING,
            pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
        )
        codes = [
            nvmldevicegetfieldvalue.nvmlReturn
            for nvmldevicegetfieldvalue in pynvml.nvmlDeviceGetFieldValues(t4.gpu(0), absent)
        ]
        assert codes == [pynvml.NVML_ERROR_NOT_SUPPORTED] * 3 + [0]


def test_traffic_over_nvlink_is_counted_by_link_and_in_all() -> None:
    """Each of eighteen links carries an eighteenth, and the counters grow."""
    with simulated_driver("eight-gpu-node", 9.0) as bench:
        gpu = bench.gpu(2)
        whole = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0xFFFFFFFF)
        one = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0)
        (_, before), (_, part) = fields(gpu, whole, one)
        assert part == pytest.approx(before / 18, rel=1e-6)
        bench.pass_seconds(10)
        ((_, after),) = fields(gpu, whole)
        rate = (after - before) * 1024 / 10
        assert rate == pytest.approx(0.30 * 450e9, rel=0.1)
        ((_, links),) = fields(gpu, pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT)
        assert links == 18


def test_mig_mode_tells_cut_gpus_from_whole_ones(a100: Bench) -> None:
    """It is on where instances exist, and not supported where none can exist."""
    assert pynvml.nvmlDeviceGetMigMode(a100.gpu(0)) == [0, 0]
    assert pynvml.nvmlDeviceGetMigMode(a100.gpu(5)) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(a100.gpu(0)) == 7
    with simulated_driver("l4-pair") as l4:
        assert pynvml.nvmlDeviceGetMaxMigDeviceCount(l4.gpu(0)) == 0
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetMigMode(l4.gpu(0))


def test_instances_are_listed_by_number(a100: Bench) -> None:
    """The first free number is not found; one beyond all numbers is an invalid argument."""
    names = [pynvml.nvmlDeviceGetName(a100.instance(5, number)) for number in range(3)]
    assert [name.rpartition(" ")[2] for name in names] == ["3g.40gb", "2g.20gb", "1g.10gb"]
    with pytest.raises(pynvml.NVMLError_NotFound):
        a100.instance(5, 3)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        a100.instance(5, 7)


def test_an_instance_knows_its_gpu_and_its_part(a100: Bench) -> None:
    """IDs, SMs, slices and memory are the profile's."""
    instance = a100.instance(5, 0)
    assert pynvml.nvmlDeviceGetGpuInstanceId(instance) == 1
    assert pynvml.nvmlDeviceGetComputeInstanceId(instance) == 0
    attributes = pynvml.nvmlDeviceGetAttributes(instance)
    assert (attributes.multiprocessorCount, attributes.gpuInstanceSliceCount) == (42, 3)
    memory = pynvml.nvmlDeviceGetMemoryInfo(instance)
    assert attributes.memorySizeMB == memory.total >> 20
    uuid = pynvml.nvmlDeviceGetUUID(instance)
    assert uuid.startswith("MIG-")
    again = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    assert pynvml.nvmlDeviceGetName(again) == pynvml.nvmlDeviceGetName(instance)


def test_a_cut_gpu_lists_the_processes_of_all_its_instances(a100: Bench) -> None:
    """Each has the IDs of its instance; an instance lists its own."""
    found = pynvml.nvmlDeviceGetComputeRunningProcesses(a100.gpu(5))
    assert sorted(process.gpuInstanceId for process in found) == [1, 2]
    (own,) = pynvml.nvmlDeviceGetComputeRunningProcesses(a100.instance(5, 1))
    assert own.pid in {process.pid for process in found}
    (whole,) = pynvml.nvmlDeviceGetComputeRunningProcesses(a100.gpu(0))
    assert whole.gpuInstanceId == 0xFFFFFFFF


def test_profiling_is_for_hopper_and_later(h100: Bench) -> None:
    """An H100 has GPM; an A100 reports that it has none, and refuses samples."""
    assert pynvml.nvmlGpmQueryDeviceSupport(h100.gpu(0)).isSupportedDevice == 1
    with simulated_driver("a100-mig") as a100:
        assert pynvml.nvmlGpmQueryDeviceSupport(a100.gpu(0)).isSupportedDevice == 0
        sample = pynvml.nvmlGpmSampleAlloc()
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlGpmSampleGet(a100.gpu(0), sample)


def test_profiling_gives_averages_between_two_samples(h100: Bench) -> None:
    """Over a second of training the averages equal the model's at both ends."""
    gpu = h100.gpu(1)
    uuid = h100.node.units[1].device.uuid
    first = pynvml.nvmlGpmSampleAlloc()
    second = pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(gpu, first)
    begin = h100.node.state(uuid, h100.time).load
    h100.pass_seconds(1)
    pynvml.nvmlGpmSampleGet(gpu, second)
    end = h100.node.state(uuid, h100.time).load
    found = query(first, second)
    assert found[METRICS[2]] == pytest.approx(50 * (begin.tensor_active + end.tensor_active))
    assert found[METRICS[3]] == pytest.approx(50 * (begin.dram_active + end.dram_active))
    assert found[METRICS[5]] == 0.0
    assert found[METRICS[6]] == "refused"


def test_profiling_sees_what_lies_between_its_samples() -> None:
    """A minute of work between two stalls is not a stall."""
    with simulated_driver("eight-gpu-node", 10.0) as bench:
        gpu = bench.gpu(2)
        first = pynvml.nvmlGpmSampleAlloc()
        second = pynvml.nvmlGpmSampleAlloc()
        bench.pass_seconds(3600 - 50)
        pynvml.nvmlGpmSampleGet(gpu, first)
        bench.pass_seconds(100)
        pynvml.nvmlGpmSampleGet(gpu, second)
        tensor = query(first, second)[METRICS[2]]
        assert isinstance(tensor, float)
        assert tensor == pytest.approx(0.5 * 58.0, rel=0.15)


def test_a_stall_shows_empty_pipes(h100: Bench) -> None:
    """The GPU is always busy, with hardly any tensor or memory activity."""
    gpu = h100.gpu(2)
    first = pynvml.nvmlGpmSampleAlloc()
    second = pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(gpu, first)
    h100.pass_seconds(1)
    pynvml.nvmlGpmSampleGet(gpu, second)
    found = query(first, second)
    assert float(found[METRICS[0]]) > 98
    assert found[METRICS[2]] == 0.0
    assert float(found[METRICS[3]]) < 5


def test_samples_must_be_two_of_one_device_in_order(h100: Bench) -> None:
    """Two devices, the same moment, the wrong order and an empty buffer are rejected."""
    one, other, later = (pynvml.nvmlGpmSampleAlloc() for _ in range(3))
    empty = pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(h100.gpu(0), one)
    pynvml.nvmlGpmSampleGet(h100.gpu(1), other)
    h100.pass_seconds(1)
    pynvml.nvmlGpmSampleGet(h100.gpu(0), later)
    for pair in ((one, one), (other, later), (later, one), (one, empty), (empty, one)):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            query(*pair)


def test_a_buffer_is_freed_once(h100: Bench) -> None:
    """A buffer that was freed or never allocated is an invalid argument."""
    sample = pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleFree(sample)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpmSampleFree(sample)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpmSampleGet(h100.gpu(0), sample)


def test_an_event_set_waits_for_errors_of_its_gpus(h100: Bench) -> None:
    """An Xid of a registered GPU arrives once, with its number; others do not arrive."""
    events = pynvml.nvmlEventSetCreate()
    xid = pynvml.nvmlEventTypeXidCriticalError
    pynvml.nvmlDeviceRegisterEvents(h100.gpu(2), xid, events)
    h100.library.faults.report(XidReportEvent(h100.node.units[3].device.uuid, 48))
    h100.library.faults.report(XidReportEvent(h100.node.units[2].device.uuid, 79))
    data = pynvml.nvmlEventSetWait_v2(events, 1000)
    assert (data.eventType, data.eventData) == (xid, 79)
    assert pynvml.nvmlDeviceGetIndex(data.device) == 2
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 1)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(h100.gpu(2), 1 << 40, events)
    pynvml.nvmlEventSetFree(events)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetWait_v2(events, 0)

"""Simulated library: identity, memory, power, clocks, temperature, links, modes."""

import ctypes
from collections.abc import Iterator

import pynvml
import pytest

from simulated_driver import Bench, simulated_driver


@pytest.fixture
def h100() -> Iterator[Bench]:
    """The eight-GPU node during its stall: 12:30."""
    with simulated_driver("eight-gpu-node", 12.5) as made:
        yield made


def test_versions_are_those_of_one_driver(h100: Bench) -> None:
    """Driver, library and CUDA versions belong together."""
    driver = pynvml.nvmlSystemGetDriverVersion()
    assert driver == "580.95.05"
    assert pynvml.nvmlSystemGetNVMLVersion() == f"13.{driver}"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 13000


def test_a_gpu_is_found_by_index_uuid_and_bus(h100: Bench) -> None:
    """All three lookups give the same device, also with the kernel's short bus ID."""
    gpu = h100.gpu(3)
    uuid = pynvml.nvmlDeviceGetUUID(gpu)
    bus = pynvml.nvmlDeviceGetPciInfo(gpu).busId
    assert (pynvml.nvmlDeviceGetIndex(gpu), bus) == (3, "00000000:5D:00.0")
    for found in (
        pynvml.nvmlDeviceGetHandleByUUID(uuid.encode()),
        pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode()),
        pynvml.nvmlDeviceGetHandleByPciBusId(b"0000:5d:00.0"),
        pynvml.nvmlDeviceGetHandleByPciBusId(b"5d:00.0"),
    ):
        assert pynvml.nvmlDeviceGetUUID(found) == uuid


def test_absent_device_is_not_found(h100: Bench) -> None:
    """Covers an index beyond the last, an unknown UUID, and an empty slot."""
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        h100.gpu(8)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID(b"GPU-0")
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByPciBusId(b"0000:00:00.0")


def test_a_handle_of_nothing_is_refused(h100: Bench) -> None:
    """A null handle and an unknown one are invalid arguments."""
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetName(pynvml.c_nvmlDevice_t())


def test_names_and_architecture_are_the_boards(h100: Bench) -> None:
    """The catalog's name, Hopper, compute capability 9.0, and the number of cores are returned."""
    gpu = h100.gpu(0)
    assert pynvml.nvmlDeviceGetName(gpu) == "NVIDIA H100 80GB HBM3"
    assert pynvml.nvmlDeviceGetArchitecture(gpu) == pynvml.NVML_DEVICE_ARCH_HOPPER
    assert pynvml.nvmlDeviceGetCudaComputeCapability(gpu) == (9, 0)
    assert pynvml.nvmlDeviceGetNumGpuCores(gpu) == 132 * 128
    assert pynvml.nvmlDeviceGetBrand(gpu) == pynvml.NVML_BRAND_NVIDIA
    assert pynvml.nvmlDeviceGetMinorNumber(gpu) == 0


def test_pci_information_agrees_with_itself(h100: Bench) -> None:
    """Domain, bus and device are the parts of the bus ID."""
    info = pynvml.nvmlDeviceGetPciInfo(h100.gpu(1))
    assert (info.domain, info.bus, info.device) == (0, 0x3B, 0)
    assert (info.busIdLegacy, info.busId) == ("0000:3B:00.0", "00000000:3B:00.0")
    assert info.pciDeviceId & 0xFFFF == 0x10DE


def test_the_two_forms_of_memory_differ_by_what_is_reserved(h100: Bench) -> None:
    """Version 1 counts the driver's reserved part as used; both have the same total."""
    first = pynvml.nvmlDeviceGetMemoryInfo(h100.gpu(1))
    second = pynvml.nvmlDeviceGetMemoryInfo(h100.gpu(1), version=pynvml.nvmlMemory_v2)
    assert first.total == second.total == 81559 * 2**20
    assert first.used == second.used + second.reserved
    assert first.used + first.free == first.total
    assert second.used + second.reserved + second.free == second.total
    assert second.used + second.free != second.total


def test_another_version_of_the_structure_is_refused(h100: Bench) -> None:
    """Unknown versions give a mismatch error, not garbage."""
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlDeviceGetMemoryInfo(h100.gpu(0), version=0x03000028)


def test_the_window_on_memory_holds_all_of_it(h100: Bench) -> None:
    """BAR1 of an H100 is 128 GiB, the power of two above its memory."""
    window = pynvml.nvmlDeviceGetBAR1MemoryInfo(h100.gpu(0))
    assert window.bar1Total == 128 * 2**30
    assert window.bar1Free + window.bar1Used == window.bar1Total


def test_a_stalled_gpu_is_busy_at_low_power(h100: Bench) -> None:
    """At least 99% at under 170 W: a hidden stall is visible without profiling."""
    gpu = h100.gpu(2)
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu >= 99
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) < 170_000


def test_an_idle_gpu_says_so(h100: Bench) -> None:
    """It has no kernel, 345 MHz, about 70 W, P0, and the reason `gpu_idle`."""
    h100.pass_seconds(11 * 3600)
    gpu = h100.gpu(7)
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 0
    assert pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM) == 345
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == pytest.approx(70_000, rel=0.02)
    assert pynvml.nvmlDeviceGetPerformanceState(gpu) == pynvml.NVML_PSTATE_0
    reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
    assert reasons == pynvml.nvmlClocksEventReasonGpuIdle
    assert pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu) == 5


def test_a_capped_gpu_says_why(h100: Bench) -> None:
    """At its limit the clock falls, and the reason is the software power cap."""
    gpu = h100.gpu(0)
    reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
    assert reasons == pynvml.nvmlClocksEventReasonSwPowerCap
    sm = pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)
    assert sm < 0.9 * pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM) == 0.9 * 1980


def test_limits_of_power_agree(h100: Bench) -> None:
    """Enforced, default and highest limit are 700 W; the lowest is below."""
    gpu = h100.gpu(0)
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == 700_000
    assert pynvml.nvmlDeviceGetPowerManagementLimit(gpu) == 700_000
    assert pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu) == 700_000
    assert pynvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu) == [210_000, 700_000]


def test_energy_grows_with_power(h100: Bench) -> None:
    """Ten seconds add ten times the draw."""
    gpu = h100.gpu(2)
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    draw = None
    draw = pynvml.nvmlDeviceGetPowerUsage(gpu)
    h100.pass_seconds(10)
    spent = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) - before
    assert spent == pytest.approx(10 * draw, rel=0.03)


def test_readings_stand_still_between_refreshes(h100: Bench) -> None:
    """Within a tenth of a second the driver returns the same reading."""
    gpu = h100.gpu(0)
    first = pynvml.nvmlDeviceGetPowerUsage(gpu)
    h100.pass_seconds(0.05)
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == first
    h100.pass_seconds(0.1)
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) != first


def test_temperatures_agree_and_leave_a_margin(h100: Bench) -> None:
    """Both calls read the same sensor; from Hopper on, margins replace thresholds."""
    gpu = h100.gpu(0)
    celsius = pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU)
    assert pynvml.nvmlDeviceGetTemperatureV(gpu, pynvml.NVML_TEMPERATURE_GPU) == celsius
    assert pynvml.nvmlDeviceGetMarginTemperature(gpu) == 87 - celsius > 0
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetTemperatureThreshold(gpu, pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetTemperature(gpu, 5)


def test_an_l4_has_margins_and_thresholds() -> None:
    """Ada has both: slowdown and shutdown are above the highest temperature."""
    with simulated_driver("l4-pair") as l4:
        gpu = l4.gpu(0)
        threshold = pynvml.nvmlDeviceGetTemperatureThreshold
        highest = threshold(gpu, pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX)
        celsius = pynvml.nvmlDeviceGetTemperature(gpu, 0)
        assert pynvml.nvmlDeviceGetMarginTemperature(gpu) == highest - celsius
        slowdown = threshold(gpu, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        assert highest < slowdown < threshold(gpu, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)


def test_ampere_knows_no_margins() -> None:
    """They exist from Ada on."""
    with simulated_driver("a100-mig") as a100, pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMarginTemperature(a100.gpu(0))


def test_a_sleeping_t4_trains_its_link_down() -> None:
    """It is at generation 1 and P8 without a process, and at generation 3 and P0 with one."""
    with simulated_driver("t4-pair", 8.9) as t4:
        gpu = t4.gpu(1)
        read = (pynvml.nvmlDeviceGetCurrPcieLinkGeneration, pynvml.nvmlDeviceGetPerformanceState)
        assert [call(gpu) for call in read] == [1, 8]
        t4.pass_seconds(3600)
        assert [call(gpu) for call in read] == [3, 0]
        assert pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu) == 3
        assert pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu) == 16


def test_a_degraded_link_shows_in_width_and_speed() -> None:
    """Half of the lanes carry half as much; the maximum of the board is unchanged."""
    with simulated_driver("a100-mig") as a100:
        gpu = a100.gpu(4)
        assert pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu) == 8
        assert pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu) == 16
        received = pynvml.nvmlDeviceGetPcieThroughput(gpu, pynvml.NVML_PCIE_UTIL_RX_BYTES)
        assert 0.6 * 15.75e9 < received * 1024 < 15.75e9
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetPcieThroughput(gpu, 7)


def test_a_transcoder_hides_from_gpu_utilization() -> None:
    """The encoder is two thirds busy while GPU utilization is less than a tenth."""
    with simulated_driver("l4-pair") as l4:
        gpu = l4.gpu(1)
        assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu < 10
        assert pynvml.nvmlDeviceGetEncoderUtilization(gpu)[0] > 60
        assert pynvml.nvmlDeviceGetDecoderUtilization(gpu)[0] > 35
        sessions, frames, latency = pynvml.nvmlDeviceGetEncoderStats(gpu)
        assert (sessions, frames > 0, latency > 0) == (1, True, True)
        assert pynvml.nvmlDeviceGetEncoderStats(l4.gpu(0))[0] == 0


def test_links_of_an_hgx_lead_to_switches(h100: Bench) -> None:
    """18 links of generation 4 are up, and links to a switch have no peer."""
    gpu = h100.gpu(0)
    states = [pynvml.nvmlDeviceGetNvLinkState(gpu, link) for link in range(18)]
    assert states == [1] * 18
    assert pynvml.nvmlDeviceGetNvLinkVersion(gpu, 0) == pynvml.NVML_NVLINK_VERSION_4_0 == 6
    assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, 0).busId == "FFFFFFFF:FF:FF.0"
    assert (
        pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, 0) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    )
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNvLinkState(gpu, 18)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetNvLinkState(gpu, 99)


def test_healthy_boards_have_no_errors(h100: Bench) -> None:
    """ECC is on with counts of 0; no row is remapped."""
    gpu = h100.gpu(0)
    assert pynvml.nvmlDeviceGetEccMode(gpu) == [1, 1]
    assert pynvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0) == 0
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 0, 0, 0)
    with simulated_driver("t4-pair") as t4:
        assert pynvml.nvmlDeviceGetRetiredPages(t4.gpu(0), 0) == []
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetRetiredPages(t4.gpu(0), 5)


def test_volatile_errors_of_a_cut_gpu_are_its_instances() -> None:
    """With MIG instances, only the aggregate counters are the GPU's."""
    with simulated_driver("a100-mig") as a100:
        assert pynvml.nvmlDeviceGetTotalEccErrors(a100.gpu(5), 1, 1) == 0
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetTotalEccErrors(a100.gpu(5), 1, 0)


def test_processors_near_a_gpu_are_those_of_its_socket(h100: Bench) -> None:
    """GPU 0 is near the first 56 of 112 cores, GPU 7 near the others, and none near both."""

    def near(index: int) -> int:
        low, high = pynvml.nvmlDeviceGetCpuAffinity(h100.gpu(index), 2)
        return int(low | high << 64)

    assert near(0) == (1 << 56) - 1
    assert near(7) == ((1 << 112) - 1) ^ near(0)
    assert list(pynvml.nvmlDeviceGetMemoryAffinity(h100.gpu(7), 1, 0)) == [0b10]
    with pytest.raises(pynvml.NVMLError_InsufficientSize):
        pynvml.nvmlDeviceGetCpuAffinity(h100.gpu(0), 1)


def test_gpus_of_one_socket_are_nearer_to_each_other(h100: Bench) -> None:
    """Same GPU, same node and across sockets are three levels."""
    zero, one, seven = (h100.gpu(index) for index in (0, 1, 7))
    level = pynvml.nvmlDeviceGetTopologyCommonAncestor
    assert level(zero, one) == pynvml.NVML_TOPOLOGY_NODE
    assert level(zero, seven) == pynvml.NVML_TOPOLOGY_SYSTEM
    assert level(zero, zero) == pynvml.NVML_TOPOLOGY_INTERNAL
    assert pynvml.nvmlDeviceGetP2PStatus(zero, seven, pynvml.NVML_P2P_CAPS_INDEX_NVLINK) == 0


def test_a_cut_gpu_has_no_peers() -> None:
    """MIG disables peer access."""
    with simulated_driver("a100-mig") as a100:
        status = pynvml.nvmlDeviceGetP2PStatus(a100.gpu(0), a100.gpu(5), 1)
        assert status == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


def test_a_text_needs_room(h100: Bench) -> None:
    """A buffer that is too small gives the error of the C library."""
    buffer = ctypes.create_string_buffer(5)
    code = h100.library.nvmlDeviceGetName(h100.gpu(0), buffer, ctypes.c_uint(5))
    assert code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE


def test_nothing_works_before_the_library_is_started(h100: Bench) -> None:
    """After the last shutdown every function returns the code for uninitialized."""
    gpu = h100.gpu(0)
    pynvml.nvmlShutdown()
    for call in (
        pynvml.nvmlDeviceGetCount,
        lambda: pynvml.nvmlDeviceGetName(gpu),
        pynvml.nvmlShutdown,
    ):
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            call()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 8


def test_a_function_that_is_not_there_is_a_missing_symbol(h100: Bench) -> None:
    """It raises AttributeError, as a loaded library does, which the bindings turn into a code."""
    with pytest.raises(AttributeError, match="undefined symbol: nvmlNothing"):
        h100.library.nvmlNothing  # noqa: B018 - looking is the test.
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetClkMonStatus(h100.gpu(0))

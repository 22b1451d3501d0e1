"""Boards: each refuses exactly what the published support matrix says that its kind lacks."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pynvml
import pytest

from instrumented_library import InstrumentedLibrary
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario import BoardSlot, SimulatedScenario
from rightsizer.simulator.support import ARCHITECTURES, SUPPORT_TABLE, BoardFeature, support_of
from rightsizer.telemetry.nvml.library import use_library
from simulated_driver import hour

BOARDS = (
    "V100-SXM2-32GB",
    "T4",
    "A100-SXM4-40GB",
    "A100-SXM4-80GB",
    "A100-PCIE-40GB",
    "A10",
    "L4",
    "L40S",
    "RTX4090",
    "H100-SXM5-80GB",
    "H100-PCIE-80GB",
    "H200-SXM-141GB",
    "B200",
    "GB200",
)
SWITCHED = {"A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM-141GB", "B200", "GB200"}
LINKED = {"V100-SXM2-32GB", "A100-PCIE-40GB", "H100-PCIE-80GB", *SWITCHED}
GA100 = {"A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB"}
HOPPER = {"H100-SXM5-80GB", "H100-PCIE-80GB", "H200-SXM-141GB"}
BLACKWELL = {"B200", "GB200"}
ADA = {"L4", "L40S", "RTX4090"}
EVERY = set(BOARDS)
PROFESSIONAL = EVERY - {"RTX4090"}


def field(number: int, scope: int = 0) -> Callable[[Any], Any]:
    """A request for one numbered field."""

    def ask(handle: Any) -> Any:
        (answer,) = pynvml.nvmlDeviceGetFieldValues(handle, [(number, scope)])
        if answer.nvmlReturn:
            raise pynvml.NVMLError(answer.nvmlReturn)
        return answer

    return ask


def fabric(handle: Any) -> None:
    """A request for the fabric state."""
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(pynvml.c_nvmlGpuFabricInfo_v2_t()))


def profiling(handle: Any) -> None:
    """A sample of the profiling counters."""
    pynvml.nvmlGpmSampleGet(handle, pynvml.nvmlGpmSampleAlloc())


# Support by architecture and mode, after the published matrix: repeated by hand, so that the
# simulator's own table is checked against something.
MATRIX: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "utilization": (pynvml.nvmlDeviceGetUtilizationRates, EVERY),
    "encoder": (pynvml.nvmlDeviceGetEncoderUtilization, EVERY),
    "jpeg": (pynvml.nvmlDeviceGetJpgUtilization, GA100 | ADA | HOPPER | BLACKWELL),
    "optical flow": (pynvml.nvmlDeviceGetOfaUtilization, EVERY - {"V100-SXM2-32GB"}),
    "memory": (pynvml.nvmlDeviceGetMemoryInfo, EVERY),
    "power": (pynvml.nvmlDeviceGetPowerUsage, EVERY),
    "power limit": (pynvml.nvmlDeviceGetEnforcedPowerLimit, EVERY),
    "energy": (pynvml.nvmlDeviceGetTotalEnergyConsumption, EVERY),
    "clock": (lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM), EVERY),
    "application clock": (
        lambda h: pynvml.nvmlDeviceGetApplicationsClock(h, pynvml.NVML_CLOCK_SM),
        PROFESSIONAL,
    ),
    "clock events": (pynvml.nvmlDeviceGetCurrentClocksEventReasons, EVERY),
    "violations": (lambda h: pynvml.nvmlDeviceGetViolationStatus(h, 0), EVERY),
    "temperature": (lambda h: pynvml.nvmlDeviceGetTemperature(h, 0), EVERY),
    "threshold": (
        lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 0),
        EVERY - HOPPER - BLACKWELL,
    ),
    "margin": (pynvml.nvmlDeviceGetMarginTemperature, ADA | HOPPER | BLACKWELL),
    "memory temperature": (
        field(pynvml.NVML_FI_DEV_MEMORY_TEMP),
        GA100 | HOPPER | BLACKWELL | {"V100-SXM2-32GB"},
    ),
    "fans": (pynvml.nvmlDeviceGetNumFans, {"RTX4090"}),
    "pcie link": (pynvml.nvmlDeviceGetCurrPcieLinkGeneration, EVERY),
    "pcie throughput": (lambda h: pynvml.nvmlDeviceGetPcieThroughput(h, 0), EVERY),
    "pcie replays": (pynvml.nvmlDeviceGetPcieReplayCounter, EVERY),
    "pcie bytes": (field(197), HOPPER | BLACKWELL),
    "nvlink": (lambda h: pynvml.nvmlDeviceGetNvLinkState(h, 0), LINKED),
    "nvlink throughput": (
        field(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
        SWITCHED | {"V100-SXM2-32GB"},
    ),
    "nvlink bytes": (field(pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES), BLACKWELL),
    "fabric": (fabric, SWITCHED & (HOPPER | BLACKWELL)),
    "ecc": (lambda h: pynvml.nvmlDeviceGetTotalEccErrors(h, 0, 0), PROFESSIONAL),
    "row remapping": (
        pynvml.nvmlDeviceGetRemappedRows,
        PROFESSIONAL - {"V100-SXM2-32GB", "T4"},
    ),
    "retired pages": (pynvml.nvmlDeviceGetRetiredPagesPendingStatus, {"V100-SXM2-32GB", "T4"}),
    "recovery": (field(pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION), EVERY),
    "profiling": (profiling, HOPPER | BLACKWELL),
    "processes": (pynvml.nvmlDeviceGetComputeRunningProcesses, EVERY),
    "mig": (pynvml.nvmlDeviceGetMigMode, GA100 | HOPPER | BLACKWELL),
    "numa node": (pynvml.nvmlDeviceGetNumaNodeId, {"GB200"}),
    "serial": (pynvml.nvmlDeviceGetSerial, PROFESSIONAL),
}


@contextmanager
def library_of(key: str, profile: str | None = None) -> Iterator[Any]:
    """A library over two boards of a kind; the first is partitioned where a profile is given."""
    board = built_in().boards[key]
    profiles = tuple(
        mig_profile for mig_profile in board.mig_profiles if mig_profile.name == profile
    )
    slots = (BoardSlot(0, board, profiles), BoardSlot(1, board))
    node = SimulatedNode(SimulatedScenario("test", 1, slots, (), 32.0), built_in(), hour(0.0))
    use_library(InstrumentedLibrary(node, lambda: hour(0.0) + 60 * NANOSECONDS_PER_SECOND))
    pynvml.nvmlInit()
    try:
        yield pynvml.nvmlDeviceGetHandleByIndex(0)
    finally:
        use_library(None)


def answers(ask: Callable[[Any], Any], handle: Any) -> bool:
    """Whether a device returns a value; any error other than 'not supported' is raised."""
    try:
        ask(handle)
    except pynvml.NVMLError_NotSupported:
        return False
    return True


@pytest.mark.parametrize("key", BOARDS)
def test_a_board_answers_what_its_kind_supports(key: str) -> None:
    """Covers every group of signals of the matrix, on every board."""
    with library_of(key) as gpu:
        found = {name: answers(ask, gpu) for name, (ask, _) in MATRIX.items()}
    assert found == {name: key in boards for name, (_, boards) in MATRIX.items()}


@pytest.mark.parametrize(
    ("key", "profile"), [("A100-SXM4-80GB", "3g.40gb"), ("H100-SXM5-80GB", "3g.40gb")]
)
def test_a_cut_board_loses_what_mig_takes(key: str, profile: str) -> None:
    """It lacks utilization, volatile errors and row remapping, and keeps all of the board's own."""
    with library_of(key, profile) as gpu:
        lost = {
            name
            for name, (ask, boards) in MATRIX.items()
            if key in boards and not answers(ask, gpu)
        }
    assert lost == {
        "utilization",
        "encoder",
        "jpeg",
        "optical flow",
        "ecc",
        "row remapping",
    }


@pytest.mark.parametrize(
    ("key", "profile"), [("A100-SXM4-80GB", "3g.40gb"), ("H100-SXM5-80GB", "3g.40gb")]
)
def test_an_instance_has_memory_and_processes(key: str, profile: str) -> None:
    """It also has this run's uncorrected memory errors; nothing else of the board's."""
    with library_of(key, profile) as gpu:
        instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
        assert {name for name, (ask, _) in MATRIX.items() if answers(ask, instance)} == {
            "memory",
            "processes",
        }
        count = pynvml.nvmlDeviceGetMemoryErrorCounter
        assert count(instance, 1, 0, pynvml.NVML_MEMORY_LOCATION_SRAM) == 0


def test_the_table_has_a_cell_for_every_architecture() -> None:
    """Every row is complete, and every feature has a row."""
    assert SUPPORT_TABLE.keys() == set(BoardFeature)
    assert all(
        row[architecture] for row in SUPPORT_TABLE.values() for architecture in ARCHITECTURES
    )


def test_power_is_a_mean_or_of_the_moment() -> None:
    """An A100 reports the instantaneous draw, an H100 the mean of a second."""
    for key, averages in (("A100-SXM4-80GB", False), ("H100-SXM5-80GB", True)):
        board = built_in().boards[key]
        assert support_of(board).has(BoardFeature.POWER_AVERAGE) is averages


def test_links_of_a_v100_lead_to_its_neighbors() -> None:
    """On boards without switches a link ends at another GPU, which links back."""
    with library_of("V100-SXM2-32GB") as one:
        other = pynvml.nvmlDeviceGetHandleByIndex(1)
        for near, far in ((one, other), (other, one)):
            for link in range(6):
                info = pynvml.nvmlDeviceGetNvLinkRemotePciInfo(near, link)
                assert info.busId == pynvml.nvmlDeviceGetPciInfo(far).busId
                kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(near, link)
                assert kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
        assert pynvml.nvmlDeviceGetNvLinkVersion(one, 0) == pynvml.NVML_NVLINK_VERSION_2_0
        status = pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        assert status == pynvml.NVML_P2P_STATUS_OK


def test_a_card_without_a_bridge_has_links_that_lead_nowhere() -> None:
    """Links are counted, but inactive, without speed or peer."""
    with library_of("A100-PCIE-40GB") as gpu:
        assert field(pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT)(gpu).value.uiVal == 12
        assert [pynvml.nvmlDeviceGetNvLinkState(gpu, link) for link in range(12)] == [0] * 12
        assert field(pynvml.NVML_FI_DEV_NVLINK_GET_STATE)(gpu).value.uiVal == 0
        for ask in (
            lambda handle: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, 0),
            field(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED),
        ):
            assert not answers(ask, gpu)


def test_consumer_boards_have_no_peer_access_over_pcie() -> None:
    """Two RTX 4090 cannot access each other's memory; two L4 can."""
    for key, status in (
        ("RTX4090", pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED),
        ("L4", pynvml.NVML_P2P_STATUS_OK),
    ):
        with library_of(key) as one:
            other = pynvml.nvmlDeviceGetHandleByIndex(1)
            assert pynvml.nvmlDeviceGetP2PStatus(one, other, 0) == status
            linked = pynvml.nvmlDeviceGetP2PStatus(one, other, 2)
            assert linked == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


def test_grace_boards_are_numa_nodes_of_their_own() -> None:
    """Their numbers differ from those of the processors and from one another."""
    with library_of("GB200") as one:
        nodes = [
            pynvml.nvmlDeviceGetNumaNodeId(gpu)
            for gpu in (one, pynvml.nvmlDeviceGetHandleByIndex(1))
        ]
        assert len(set(nodes)) == 2
        assert min(nodes) >= 1

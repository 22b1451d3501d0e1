"""Every function of the simulated library through the real bindings, on every kind of board."""

import ctypes
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import pynvml
import pytest

from rightsizer.simulator.library.simulated_library import SimulatedLibrary
from simulated_driver import MIDNIGHT, Bench, node_of, simulated_driver

FUNCTIONS: Final = SimulatedLibrary(node_of("single-h100"), lambda: MIDNIGHT).functions


def takes_a_device_alone(name: str) -> bool:
    """Whether the bindings call a function with a device, and everything else is optional."""
    parameters = [*inspect.signature(getattr(pynvml, name, object)).parameters.values()]
    first = parameters[0].name if parameters else ""
    return first in {"device", "handle"} and all(
        parameter.default is not parameter.empty for parameter in parameters[1:]
    )


DEVICE_CALLS: dict[str, Callable[[Any], Any]] = {
    name: getattr(pynvml, name) for name in FUNCTIONS if takes_a_device_alone(name)
} | {
    "violation": lambda h: pynvml.nvmlDeviceGetViolationStatus(h, pynvml.NVML_PERF_POLICY_POWER),
    "fabric": lambda h: pynvml.nvmlDeviceGetGpuFabricInfo(
        h, ctypes.byref(pynvml.c_nvmlGpuFabricInfo_t())
    ),
    "fabric 2": lambda h: pynvml.nvmlDeviceGetGpuFabricInfoV(
        h, ctypes.byref(pynvml.c_nvmlGpuFabricInfo_v2_t())
    ),
    "profile": lambda h: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(h, 0),
    "instance": lambda h: pynvml.nvmlDeviceGetGpuInstanceById(h, 1),
    "memory 2": lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2),
    "clock": lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM),
    "max clock": lambda h: pynvml.nvmlDeviceGetMaxClockInfo(h, pynvml.NVML_CLOCK_MEM),
    "application": lambda h: pynvml.nvmlDeviceGetApplicationsClock(h, 0),
    "temperature": lambda h: pynvml.nvmlDeviceGetTemperature(h, 0),
    "temperature 1": lambda h: pynvml.nvmlDeviceGetTemperatureV(h, 0),
    "threshold": lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 1),
    "fan 2": lambda h: pynvml.nvmlDeviceGetFanSpeed_v2(h, 0),
    "throughput": lambda h: pynvml.nvmlDeviceGetPcieThroughput(h, 1),
    "process utilization": lambda h: pynvml.nvmlDeviceGetProcessUtilization(h, 0),
    "processes": lambda h: pynvml.nvmlDeviceGetProcessesUtilizationInfo(h, 0),
    "samples": lambda h: pynvml.nvmlDeviceGetSamples(h, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0),
    "fields": lambda h: pynvml.nvmlDeviceGetFieldValues(h, [pynvml.NVML_FI_DEV_ENERGY]),
    "ecc": lambda h: pynvml.nvmlDeviceGetTotalEccErrors(h, 0, 1),
    "ecc of memory": lambda h: pynvml.nvmlDeviceGetMemoryErrorCounter(h, 0, 1, 2),
    "retired": lambda h: pynvml.nvmlDeviceGetRetiredPages(h, 0),
    "mig": lambda h: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(h, 0),
    "nvlink": lambda h: pynvml.nvmlDeviceGetNvLinkState(h, 0),
    "nvlink version": lambda h: pynvml.nvmlDeviceGetNvLinkVersion(h, 0),
    "nvlink peer": lambda h: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(h, 0),
    "nvlink kind": lambda h: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(h, 0),
    "affinity": lambda h: pynvml.nvmlDeviceGetCpuAffinity(h, 2),
    "memory affinity": lambda h: pynvml.nvmlDeviceGetMemoryAffinity(h, 1, 0),
    "ancestor": lambda h: pynvml.nvmlDeviceGetTopologyCommonAncestor(h, h),
    "peer": lambda h: pynvml.nvmlDeviceGetP2PStatus(h, h, 0),
}
POLITE = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_NotFound,
    pynvml.NVMLError_InvalidArgument,
)


def answered(call: Callable[[Any], Any], handle: Any) -> str:
    """Whether a call returns a value, or its error."""
    try:
        call(handle)
    except POLITE as error:
        return type(error).__name__
    return "value"


def call_without_a_device(bench: Bench) -> None:
    """Calls without a device, and pairs of calls that belong together."""
    gpu = bench.gpu(0)
    uuid = pynvml.nvmlDeviceGetUUID(gpu)
    pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    pynvml.nvmlDeviceGetHandleByPciBusId(pynvml.nvmlDeviceGetPciInfo(gpu).busId.encode())
    part = pynvml.c_nvmlGpuInstance_t()
    answered(pynvml.nvmlGpuInstanceGetInfo, part)
    pynvml.nvmlErrorString(9)
    pynvml.nvmlSystemGetNVMLVersion()
    pynvml.nvmlSystemGetCudaDriverVersion()
    pynvml.nvmlSystemGetCudaDriverVersion_v2()
    pynvml.nvmlSystemGetDriverVersion()
    pynvml.nvmlDeviceGetCount()
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, events)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 0)
    pynvml.nvmlEventSetFree(events)
    sample = pynvml.nvmlGpmSampleAlloc()
    for take in (
        lambda: pynvml.nvmlGpmSampleGet(gpu, sample),
        lambda: pynvml.nvmlGpmMigSampleGet(gpu, 1, sample),
        lambda: pynvml.nvmlGpmMetricsGet(pynvml.c_nvmlGpmMetricsGet_t(version=1)),
    ):
        answered(lambda _, take=take: take(), None)
    pynvml.nvmlGpmSampleFree(sample)


@pytest.fixture(params=["eight-gpu-node", "a100-mig", "l4-pair", "zoo"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A library for each scenario in turn."""
    with simulated_driver(request.param) as made:
        yield made


def test_the_bindings_reach_every_function(bench: Bench) -> None:
    """Bindings and this file cover all functions of the library."""
    call_without_a_device(bench)
    for call in DEVICE_CALLS.values():
        answered(call, bench.gpu(0))
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    reached = set(pynvml._nvmlGetFunctionPointer_cache)
    assert set(bench.library.functions) <= reached


def test_every_gpu_answers_every_question_politely(bench: Bench) -> None:
    """It returns a value or a code with the reason: never a crash, never an unknown error."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        values = [answered(call, bench.gpu(index)) for call in DEVICE_CALLS.values()]
        assert values.count("value") > 0.55 * len(values)
        assert values.count("NVMLError_NotSupported") > 0


def test_answers_do_not_depend_on_their_order(bench: Bench) -> None:
    """A call returns the same before and after all other calls."""
    before = {name: answered(call, bench.gpu(0)) for name, call in DEVICE_CALLS.items()}
    after = {name: answered(DEVICE_CALLS[name], bench.gpu(0)) for name in reversed(before)}
    assert before == after


def unsupported(bench: Bench, handle: Any) -> set[str]:
    """The calls that a device does not support."""
    found = {name: answered(call, handle) for name, call in DEVICE_CALLS.items()}
    return {name for name, answer in found.items() if answer == "NVMLError_NotSupported"}


INSTANCES_ONLY = {
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetAttributes_v2",
}


def test_gpu_with_instances_lacks_utilization_calls() -> None:
    """These are utilization, processes' utilization, remapped rows and the core count."""
    with simulated_driver("a100-mig") as bench:
        more = unsupported(bench, bench.gpu(5)) - unsupported(bench, bench.gpu(0))
        assert more == {
            "nvmlDeviceGetRemappedRows",
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetEncoderUtilization",
            "nvmlDeviceGetDecoderUtilization",
            "nvmlDeviceGetJpgUtilization",
            "nvmlDeviceGetOfaUtilization",
            "nvmlDeviceGetEncoderStats",
            "nvmlDeviceGetNumGpuCores",
            "samples",
            "process utilization",
            "processes",
        }


def test_instance_supports_its_own_calls() -> None:
    """Covers names, memory, processes, and its parent; calls of the board are not supported."""
    with simulated_driver("a100-mig") as bench:
        supported = DEVICE_CALLS.keys() - unsupported(bench, bench.instance(5, 0))
        assert supported == {
            "nvmlDeviceGetName",
            "nvmlDeviceGetUUID",
            "nvmlDeviceGetBrand",
            "nvmlDeviceGetArchitecture",
            "nvmlDeviceGetCudaComputeCapability",
            "nvmlDeviceGetMemoryInfo",
            "memory 2",
            "ecc of memory",
            "nvmlDeviceGetBAR1MemoryInfo",
            "nvmlDeviceGetComputeRunningProcesses_v2",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetGraphicsRunningProcesses_v2",
            "nvmlDeviceGetGraphicsRunningProcesses_v3",
            "nvmlDeviceGetMPSComputeRunningProcesses_v2",
            "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            "nvmlDeviceGetGpuInstanceId",
            "nvmlDeviceGetComputeInstanceId",
            "nvmlDeviceGetAttributes_v2",
        }

"""Faults of the simulated driver: codes, hangs, lost GPUs, missing symbols, no driver."""

import threading
from collections.abc import Iterator

import pynvml
import pytest

from simulated_driver import Bench, simulated_driver


@pytest.fixture
def bench() -> Iterator[Bench]:
    """The eight-GPU node at noon."""
    with simulated_driver("eight-gpu-node") as made:
        yield made


def uuid_of(bench: Bench, index: int) -> str:
    """UUID of a GPU."""
    return bench.node.units[index].device.uuid


def test_a_function_answers_with_a_code_for_one_device(bench: Bench) -> None:
    """The function works for other devices, and other functions work for this device."""
    bench.library.faults.answer(
        "nvmlDeviceGetPowerUsage", pynvml.NVML_ERROR_UNKNOWN, uuid_of(bench, 1)
    )
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetPowerUsage(bench.gpu(1))
    assert pynvml.nvmlDeviceGetPowerUsage(bench.gpu(0)) > 0
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(bench.gpu(1)) > 0


def test_a_function_answers_with_a_code_for_all(bench: Bench) -> None:
    """Without a device, every call of the function returns the code until faults are cleared."""
    bench.library.faults.answer("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_NO_PERMISSION)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceGetCount()
    bench.library.faults.clear()
    assert pynvml.nvmlDeviceGetCount() == 8


def test_a_lost_gpu_answers_nothing(bench: Bench) -> None:
    """Neither its old handle nor a new lookup works; other GPUs are unaffected."""
    gpu = bench.gpu(4)
    bench.library.faults.lose(uuid_of(bench, 4))
    for call in (lambda: pynvml.nvmlDeviceGetPowerUsage(gpu), lambda: bench.gpu(4)):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call()
    assert pynvml.nvmlDeviceGetCount() == 8
    assert pynvml.nvmlDeviceGetPowerUsage(bench.gpu(5)) > 0


def test_instances_are_lost_with_their_gpu() -> None:
    """Losing the GPU includes its MIG instances."""
    with simulated_driver("a100-mig") as bench:
        instance = bench.instance(5, 0)
        bench.library.faults.lose(uuid_of(bench, 5))
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetMemoryInfo(instance)


def test_an_older_library_lacks_functions(bench: Bench) -> None:
    """A removed function is a missing symbol, even where the bindings have cached it."""
    pynvml.nvmlDeviceGetMemoryInfo(bench.gpu(0), version=pynvml.nvmlMemory_v2)
    bench.library.faults.remove("nvmlDeviceGetMemoryInfo_v2")
    bench.library.faults.remove("nvmlDeviceGetName")
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetMemoryInfo(bench.gpu(0), version=pynvml.nvmlMemory_v2)
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetName(bench.gpu(0))
    assert not hasattr(bench.library, "nvmlDeviceGetName")
    assert "nvmlDeviceGetName" not in bench.library.functions
    assert pynvml.nvmlDeviceGetMemoryInfo(bench.gpu(0)).total > 0


def test_a_driver_of_2021_does_not_fit_the_bindings(bench: Bench) -> None:
    """Without version 3 of the process list the bindings raise an error that is no NVMLError."""
    bench.library.faults.remove("nvmlDeviceGetComputeRunningProcesses_v3")
    with pytest.raises(pynvml.NVMLLibraryMismatchError):
        pynvml.nvmlDeviceGetComputeRunningProcesses(bench.gpu(0))
    assert pynvml.nvmlDeviceGetComputeRunningProcesses_v2(bench.gpu(0))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVMLError_DriverNotLoaded),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, pynvml.NVMLError_LibRmVersionMismatch),
    ],
)
def test_without_its_driver_the_library_only_explains(
    bench: Bench, code: int, error: type[Exception]
) -> None:
    """Every call fails with the same error; its text is still available."""
    gpu = bench.gpu(0)
    bench.library.faults.unload(code)
    for call in (
        pynvml.nvmlInit,
        pynvml.nvmlDeviceGetCount,
        lambda: pynvml.nvmlDeviceGetName(gpu),
    ):
        with pytest.raises(error):
            call()
    assert pynvml.nvmlErrorString(code).endswith(("loaded", "mismatch"))


def test_a_hanging_device_holds_its_caller_alone(bench: Bench) -> None:
    """A call on it blocks until it is released; calls on other devices do not block."""
    bench.library.faults.hang(uuid=uuid_of(bench, 2))
    gpu = bench.gpu(2)
    answers = []
    caller = threading.Thread(
        target=lambda: answers.append(pynvml.nvmlDeviceGetPowerUsage(gpu)), daemon=True
    )
    caller.start()
    caller.join(0.05)
    assert caller.is_alive()
    assert pynvml.nvmlDeviceGetPowerUsage(bench.gpu(3)) > 0
    bench.library.faults.clear()
    caller.join(10)
    assert not caller.is_alive()
    assert answers[0] > 0


def test_a_hanging_function_hangs_on_every_device(bench: Bench) -> None:
    """Other functions of the same device work."""
    bench.library.faults.hang("nvmlDeviceGetPowerUsage")
    gpu = bench.gpu(0)
    caller = threading.Thread(target=lambda: pynvml.nvmlDeviceGetPowerUsage(gpu), daemon=True)
    caller.start()
    caller.join(0.05)
    assert caller.is_alive()
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == 700_000
    bench.library.faults.clear()
    caller.join(10)
    assert not caller.is_alive()

"""The edge over the bindings: every failure becomes a value."""

import ctypes

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_driver import FakeDriver, FakeGpu, installed
from rightsizer.model.reading import Missing
from rightsizer.telemetry.nvml.driver import explain
from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary, use_library

CALL = "nvmlDeviceGetPowerUsage"


def answer_of(driver: FakeDriver, name: str = CALL) -> object:
    """Answer of the first GPU."""
    with installed(driver):
        library = NvmlLibrary()
        return library.ask(name, library.ask("nvmlDeviceGetHandleByIndex", 0))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, Missing.NOT_SUPPORTED),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, Missing.NOT_SUPPORTED),
        (pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, Missing.NOT_SUPPORTED),
        (pynvml.NVML_ERROR_NO_PERMISSION, Missing.NO_PERMISSION),
        (pynvml.NVML_ERROR_GPU_IS_LOST, Missing.LOST),
        (pynvml.NVML_ERROR_UNINITIALIZED, Missing.LOST),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, Missing.LOST),
        (pynvml.NVML_ERROR_RESET_REQUIRED, Missing.LOST),
        (pynvml.NVML_ERROR_TIMEOUT, Missing.TIMED_OUT),
        (pynvml.NVML_ERROR_UNKNOWN, Missing.FAILED),
        (pynvml.NVML_ERROR_MEMORY, Missing.FAILED),
    ],
)
def test_codes_become_reasons(code: int, reason: Missing) -> None:
    """Each of NVML's codes maps to the reason of a missing value."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.codes[CALL] = code
    answer = answer_of(driver)
    assert isinstance(answer, NvmlFailure)
    assert (answer.reason, answer.code, answer.call) == (reason, code, CALL)


@given(st.integers(min_value=1, max_value=100_000))
def test_any_code_becomes_a_failure(code: int) -> None:
    """An unknown code is a failure too, even without an error text."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.codes[CALL] = code
    answer = answer_of(driver)
    assert isinstance(answer, NvmlFailure)
    assert answer.detail


def test_absent_function_is_not_supported() -> None:
    """The signal counts as not supported."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.lacking.add(CALL)
    answer = answer_of(driver)
    assert isinstance(answer, NvmlFailure)
    assert answer.reason is Missing.NOT_SUPPORTED


def test_function_that_the_bindings_lack_is_not_supported() -> None:
    """Functions missing in older bindings count like those missing in a driver."""
    answer = answer_of(FakeDriver(FakeGpu("GPU-0")), "nvmlDeviceGetSomethingOfTheFuture")
    assert isinstance(answer, NvmlFailure)
    assert answer.reason is Missing.NOT_SUPPORTED


@pytest.mark.parametrize("code", [pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND])
def test_no_process_samples_means_none(code: int) -> None:
    """Process utilization raises success or not found where it has no samples."""

    class Quiet(FakeDriver):
        def nvmlDeviceGetProcessUtilization(self, *_: object) -> int:  # noqa: N802
            return code

    with installed(Quiet(FakeGpu("GPU-0"))):
        library = NvmlLibrary()
        handle = library.ask("nvmlDeviceGetHandleByIndex", 0)
        answer = library.ask("nvmlDeviceGetProcessUtilization", handle, 0)
    assert isinstance(answer, NvmlFailure)
    assert answer.reason is Missing.NO_SAMPLE


@pytest.mark.parametrize("error", [ctypes.ArgumentError("no"), AttributeError("no"), OSError(5)])
def test_exception_of_the_library_is_a_failure(error: Exception) -> None:
    """Exceptions from below the bindings end at the edge."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.raising[CALL] = error
    answer = answer_of(driver)
    assert isinstance(answer, NvmlFailure)
    assert answer.reason is Missing.FAILED
    assert type(error).__name__ in answer.detail


def test_fields_have_codes_of_their_own() -> None:
    """A field value may be unsupported although the call succeeds."""

    class Sensorless(FakeDriver):
        def nvmlDeviceGetFieldValues(self, _handle: object, _count: object, values: object) -> int:  # noqa: N802
            values._obj[0].nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED  # type: ignore[attr-defined]
            return int(pynvml.NVML_SUCCESS)

    with installed(Sensorless(FakeGpu("GPU-0"))):
        library = NvmlLibrary()
        handle = library.ask("nvmlDeviceGetHandleByIndex", 0)
        key = pynvml.NVML_FI_DEV_MEMORY_TEMP
        answers = library.ask_fields(handle, (key,))
    assert not isinstance(answers, NvmlFailure)
    answer = answers[key]
    assert isinstance(answer, NvmlFailure)
    assert answer.reason is Missing.NOT_SUPPORTED


def test_operator_is_told_what_to_do() -> None:
    """Messages for a missing library, an unloaded driver and a mismatched module differ."""
    messages = []
    for code in (
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    ):
        driver = FakeDriver()
        driver.codes["nvmlInitWithFlags"] = code
        with installed(driver):
            failure = NvmlLibrary().ask("nvmlInit")
        assert failure.driver_is_gone
        messages.append(explain(failure))
    assert "install the NVIDIA driver" in messages[0]
    assert "modprobe nvidia" in messages[1]
    assert "updated" in messages[2]


def test_real_loading_comes_back() -> None:
    """Without a substitute the bindings look for the machine's own library again."""
    use_library(FakeDriver())
    use_library(None)
    assert pynvml.nvmlLib is None
    assert pynvml._nvmlGetFunctionPointer_cache == {}

"""Reports of Nsight Compute, read through the module that NVIDIA ships with it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightsizer.model.errors import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_compute.reader import NSIGHT_COMPUTE, read
from rightsizer.profiles.reader import Head

LIMITS = ReadLimits()
MODULE = """
class Metric:
    def __init__(self, value, unit): self._value, self._unit = value, unit
    def as_double(self): return float(self._value)
    def as_string(self): return str(self._value)
    def unit(self): return self._unit

class Action:
    _metrics = {
        "gpu__time_duration.sum": Metric(2000, "nsecond"),
        "sm__inst_executed_pipe_tensor.sum": Metric(3, "inst"),
        "device__attribute_display_name": Metric("NVIDIA H200", ""),
        "smsp__pcsamp_sample_buffer_full": Metric(1, ""),
    }
    def name(self): return "gemm"
    def metric_names(self): return list(self._metrics)
    def metric_by_name(self, name): return self._metrics.get(name)
    def rule_results_as_dicts(self):
        said = {"rule_message": {"message": "Use less."}, "speedup_estimation": {"speedup": 9}}
        return [said, {}]

class Part:
    def num_actions(self): return 2
    def action_by_idx(self, place): return Action()

class Report:
    def num_ranges(self): return 1
    def range_by_idx(self, place): return Part()

def load_report(path):
    with open(path, "rb") as file:
        if b"broken" in file.read():
            raise RuntimeError("/home/SECRET")
    return Report()
"""


@pytest.fixture
def vendor_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NVIDIA's module interface, as documented."""
    folder = tmp_path / "extras"
    folder.mkdir()
    (folder / "ncu_report.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop("ncu_report", None)


@pytest.mark.usefixtures("vendor_module")
def test_a_report_is_read_through_the_vendors_module(tmp_path: Path) -> None:
    """Covers metrics, the GPU's name and the rules."""
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"NVR\0" + bytes(64))
    profile = read(path, LIMITS)

    (device,) = profile.devices
    assert device.device.name == "NVIDIA H200"
    (kernel,) = device.kernels
    assert (kernel.count, kernel.uses_tensor_cores) == (2, True)
    assert kernel.seconds == pytest.approx(4e-6)
    assert "gemm: Use less." in profile.notes
    assert profile.events == 2


@pytest.mark.usefixtures("vendor_module")
def test_a_report_that_the_module_cannot_read_is_refused(tmp_path: Path) -> None:
    """The foreign module's message is not shown, as it may contain paths."""
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"NVR\0broken")

    with pytest.raises(ProfileError, match=r"cannot read it \(RuntimeError\); run `ncu --import"):
        read(path, LIMITS)


def test_a_report_without_the_module_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """The remedy is the command that writes a page, or the module's location."""
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"\x08\0\0")

    assert NSIGHT_COMPUTE.recognizes(Head(path.name, path.read_bytes()))
    with pytest.raises(
        ProfileError, match=r"ncu --import run\.ncu-rep --csv --page raw.*PYTHONPATH"
    ):
        read(path, LIMITS)

"""Real TensorFlow and JAX profiles against values computed from their raw events."""

import os
from pathlib import Path

import pytest

from rightsizer.model.profile import DeviceProfile, Profile, ProfileFormat
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

MILLISECOND = 1e-3
TENSORFLOW = "tfprofiler_gpu_multi_worker"
JAX = "tracelens_jax_te_fused_attn"
BOTH_FORMS = (".xplane.pb", ".trace.json.gz")


def read(name: str) -> Profile:
    """A file in the folder named by RIGHTSIZER_TRUTH."""
    folder = os.environ.get("RIGHTSIZER_TRUTH", "")
    path = Path(folder) / "profiles" / "xla" / name
    if not folder or not path.is_file():
        pytest.skip(f"RIGHTSIZER_TRUTH does not name a folder with profiles/xla/{name}")
    return open_profile(path, ReadLimits())


def device_of(profile: Profile, index: int) -> DeviceProfile:
    """One of its devices."""
    return next(device for device in profile.devices if device.device.index == index)


@pytest.mark.parametrize("suffix", BOTH_FORMS)
@pytest.mark.parametrize(
    ("name", "index", "kernels", "busy", "span"),
    [
        (TENSORFLOW, 4, 665, 14.83, 19.87),
        (TENSORFLOW, 6, 665, 14.87, 21.31),
        (JAX, 0, 150, 12.13, 12.96),
    ],
)
def test_busy_time_and_span(  # noqa: PLR0913, PLR0917 - the table's columns.
    name: str, suffix: str, index: int, kernels: int, busy: float, span: float
) -> None:
    """They agree to the last digit; kernels and idle time sum to the span."""
    device = device_of(read(f"{name}{suffix}"), index)
    assert sum(kernel.count for kernel in device.kernels) == kernels
    assert device.time is not None
    assert device.time.kernel_seconds == pytest.approx(busy * MILLISECOND, abs=0.005 * MILLISECOND)
    assert device.time.span_seconds == pytest.approx(span * MILLISECOND, abs=0.005 * MILLISECOND)
    assert device.time.kernel_seconds + device.time.idle_seconds == pytest.approx(
        device.time.span_seconds, abs=1e-12
    )


@pytest.mark.parametrize("name", [TENSORFLOW, JAX])
def test_both_forms_say_the_same(name: str) -> None:
    """One was made from the other; three decimals of a microsecond lose nothing."""
    plane, trace = (read(f"{name}{suffix}") for suffix in BOTH_FORMS)
    assert [device.time for device in trace.devices] == [device.time for device in plane.devices]
    assert [device.copies for device in trace.devices] == [
        device.copies for device in plane.devices
    ]
    assert [device.launches for device in trace.devices] == [
        device.launches for device in plane.devices
    ]
    assert [device.steps for device in trace.devices] == [device.steps for device in plane.devices]
    assert trace.host_spans == plane.host_spans


def test_tensorflow_profile_has_the_facts_of_its_gpus() -> None:
    """Eight V100 of 16 GB, two of them active, for one step."""
    profile = read(f"{TENSORFLOW}.xplane.pb")
    assert profile.format is ProfileFormat.XPLANE
    assert [device.device.index for device in profile.devices if device.time] == [4, 6]
    assert {device.device.multiprocessors for device in profile.devices} == {80}
    assert {device.device.memory_bytes for device in profile.devices} == {16945512448}
    assert [len(device.steps) for device in profile.devices if device.time] == [1, 1]
    assert "5 of its 8 GPUs did nothing." in profile.notes


def test_jax_profile_has_the_facts_of_its_gpu() -> None:
    """An AMD GPU with 256 cores and 309 GB; the profiler's own plane has the wall time."""
    profile = read(f"{JAX}.xplane.pb")
    (device,) = profile.devices
    assert device.device.multiprocessors == 256
    assert device.device.memory_bytes == 309220868096
    assert profile.start == 1_779_266_702_889_805_563
    assert device.launches is not None
    assert device.launches.matched == 150
    assert "7 of its 8 GPUs did nothing." in profile.notes


@pytest.mark.parametrize("name", [f"{TENSORFLOW}.xplane.pb", f"{JAX}.xplane.pb"])
def test_no_event_is_dropped_unsaid(name: str) -> None:
    """Used and counted events sum to all events."""
    profile = read(name)
    device = sum(
        sum(kernel.count for kernel in each.kernels)
        + sum(copy.count for copy in each.copies)
        + len(each.steps)
        for each in profile.devices
    )
    unread = sum(profile.unread.values())
    assert unread + device <= profile.events
    assert "unknown fields" not in profile.unread
    assert profile.events == {TENSORFLOW: 23128, JAX: 1992}[name.removesuffix(".xplane.pb")]

"""GPUs of a captured profile whose profiler does not name them."""

import pytest

from rightsizer.model.profile import DeviceProfile, Profile, ProfiledDevice, ProfileFormat
from rightsizer.profiler.capture.drop_folder import with_origin


@pytest.mark.parametrize(
    ("index", "uuid", "devices", "expected"),
    [
        (0, "", ("GPU-5",), "GPU-5"),
        (5, "", ("GPU-5",), "GPU-5"),
        (None, "", ("GPU-5",), "GPU-5"),
        (1, "", ("GPU-4", "GPU-5"), "GPU-5"),
        (4, "", ("GPU-4", "GPU-5"), ""),
        (None, "", ("GPU-4", "GPU-5"), ""),
        (0, "GPU-7", ("GPU-5",), "GPU-7"),
        (0, "", (), ""),
    ],
)
def test_a_gpu_without_a_name_is_one_of_those_asked_for(
    index: int | None, uuid: str, devices: tuple[str, ...], expected: str
) -> None:
    """Its index counts among the requested ones; a name in the profile takes precedence."""
    device = ProfiledDevice("k", index, "NVIDIA H100", uuid)
    profile = Profile(ProfileFormat.PYTORCH, "a.json", devices=(DeviceProfile(device, None),))
    assert with_origin(profile, devices).devices[0].device.uuid == expected

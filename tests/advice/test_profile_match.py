"""Matching of a profile to a GPU of a node, and when that is impossible."""

import pytest
from msgspec.structs import replace

from readings import gpu
from rightsizer.model.device import MigInstance
from rightsizer.model.profile import ProfiledDevice
from rightsizer.profiler.join import match_device

H100 = "NVIDIA H100 80GB HBM3"
NODE = (gpu(0), gpu(1), gpu(2, name="NVIDIA L4"))
INSTANCE = replace(
    gpu(3, uuid="MIG-a", name="NVIDIA H100 80GB HBM3 MIG 3g.40gb"),
    mig=MigInstance("GPU-0", "3g.40gb", 1, 0, 3 / 7, 0.5),
)
CUT = replace(gpu(0), has_mig_instances=True)


@pytest.mark.parametrize("uuid", ["GPU-1", "gpu-1", "1"])
def test_a_uuid_tells_however_it_is_written(uuid: str) -> None:
    """The program's own number for it does not matter."""
    found = match_device(ProfiledDevice("0", 0, uuid=uuid), NODE)

    assert found.device == NODE[1]
    assert (found.matched_by, found.note) == ("uuid", "")


def test_a_uuid_of_another_node_is_foreign() -> None:
    """Matching number and name do not count."""
    found = match_device(ProfiledDevice("0", 0, H100, uuid="GPU-9"), NODE)

    assert found.device is None
    assert found.is_foreign
    assert found.unmatched == "no GPU of this node has the uuid GPU-9"


def test_number_and_name_tell_and_say_how_sure_that_is() -> None:
    """Among GPUs of one kind, a program may have seen other numbers."""
    alike = match_device(ProfiledDevice("0", 1, H100), NODE)
    only = match_device(ProfiledDevice("0", 2, "NVIDIA L4"), NODE)

    assert (alike.device, alike.matched_by) == (NODE[1], "index and name")
    assert "CUDA_VISIBLE_DEVICES" in alike.note
    assert (only.device, only.note) == (NODE[2], "")


@pytest.mark.parametrize(
    ("found", "why", "is_foreign"),
    [
        (ProfiledDevice("0", 2, H100), "and GPU 2 here is a NVIDIA L4", True),
        (ProfiledDevice("7", 7, H100), "this node has no GPU 7", True),
        (ProfiledDevice("0", 0), "it tells the number of its GPU, and this node has 3", False),
        (ProfiledDevice("?"), "it tells nothing of its GPU, and this node has 3", False),
    ],
)
def test_unmatched_profile_says_why(
    found: ProfiledDevice,
    why: str,
    is_foreign: bool,  # noqa: FBT001 - a case's.
) -> None:
    """Another GPU's profile is distinguished from an ambiguous one."""
    match = match_device(found, NODE)

    assert match.device is None
    assert why in match.unmatched
    assert match.is_foreign is is_foreign


def test_the_only_gpu_of_a_node_needs_no_name() -> None:
    """A GPU of another name is another node's."""
    assert match_device(ProfiledDevice("/device:GPU:0", 0), NODE[:1]).matched_by == "only GPU"
    assert match_device(ProfiledDevice("0", 0, "NVIDIA A100-SXM4-40GB"), NODE[:1]).is_foreign


def test_the_only_instance_of_a_gpu_that_is_cut_stands_for_it() -> None:
    """Several instances are ambiguous."""
    both = (CUT, INSTANCE, replace(INSTANCE, uuid="MIG-b"))

    assert match_device(ProfiledDevice("0", 0, uuid="GPU-0"), both[:2]).device == INSTANCE
    found = match_device(ProfiledDevice("0", 0, uuid="GPU-0"), both)
    assert found.device is None
    assert "cut into 2 MIG instances" in found.unmatched
    assert match_device(ProfiledDevice("0", 0, uuid="MIG-b"), both).device == both[2]

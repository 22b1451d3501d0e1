"""The gres.conf fragment: cores in Slurm's numbering, links in the order of lines."""

from msgspec.structs import replace

from placement_nodes import PlacementNode, bridged_pairs, cube_mesh, hgx, mig_node
from rightsizer.model.device import Device
from rightsizer.model.topology import Placement, Topology
from rightsizer.report.schedulers import gres_conf

CORES = {cpu: cpu % 16 for cpu in range(32)}
"""Sixteen cores whose second threads come last."""


def topology_of(node: PlacementNode) -> Topology:
    """Topology with links and slots' places."""
    places = {slot.uuid: slot.placement or Placement(slot.uuid) for slot in node.slots}
    return replace(node.topology, placements=places)


def conf(node: PlacementNode, **more: object) -> list[str]:
    """The lines without the header."""
    devices = [slot.device for slot in node.slots]
    files = {
        device.uuid: (f"/dev/nvidia{device.index}",) for device in devices if device.mig is None
    }
    options = {"files": files, "cores": CORES, "host": "gpu-1", **more}
    return gres_conf(devices, topology_of(node), **options).splitlines()[1:]  # type: ignore[arg-type] # Mixed on purpose.


def test_each_gpu_is_a_line_with_its_near_cores_and_its_links() -> None:
    """A switch joins all GPUs equally; -1 is the GPU itself."""
    lines = conf(hgx())

    assert lines[0] == (
        "Name=gpu Type=h100 File=/dev/nvidia0 Cores=0-7 Links=-1,18,18,18,18,18,18,18"
    )
    assert lines[7] == (
        "Name=gpu Type=h100 File=/dev/nvidia7 Cores=8-15 Links=18,18,18,18,18,18,18,-1"
    )
    assert lines[8:] == ["# slurm.conf: GresTypes=gpu, and NodeName=gpu-1 Gres=gpu:h100:8"]


def test_links_are_counted_where_not_all_are_joined() -> None:
    """PCIe is not a link to Slurm."""
    assert conf(bridged_pairs())[2].endswith("Links=0,0,-1,12")
    assert conf(cube_mesh())[0].endswith("Links=-1,1,1,2,2,0,0,0")


def test_links_are_as_in_the_other_ones_line() -> None:
    """The matrix is symmetric."""
    rows = [line.rpartition("Links=")[2].split(",") for line in conf(cube_mesh())[:8]]

    assert rows == [list(column) for column in zip(*rows, strict=True)]


def test_threads_of_one_core_are_one_core() -> None:
    """Slurm's cores are not the kernel's CPUs."""
    node = hgx()
    near = Placement("GPU-0", cpus=(0, 1, 16, 17))
    seats = (replace(node.slots[0], placement=near), *node.slots[1:])

    assert " Cores=0-1 " in conf(replace(node, slots=seats))[0]


def test_cores_are_left_out_where_nobody_knows_them() -> None:
    """A wrong number would bind jobs to the wrong socket."""
    assert "Cores" not in "".join(conf(hgx(), cores={}))


def test_a_mig_instance_is_all_its_device_files_and_has_no_links() -> None:
    """Its partitioned GPU is not listed itself."""
    node = mig_node([["1g.10gb", "2g.20gb"], []])
    files = {
        "GPU-1": ("/dev/nvidia1",),
        "MIG-0-0": ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21"),
        "MIG-0-1": ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30"),
    }

    assert conf(node, files=files) == [
        (
            "Name=gpu Type=h100_1g.10gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21"
            " Cores=0-7"
        ),
        (
            "Name=gpu Type=h100_2g.20gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap30"
            " Cores=0-7"
        ),
        "Name=gpu Type=h100 File=/dev/nvidia1 Cores=8-15",
        (
            "# slurm.conf: GresTypes=gpu, and NodeName=gpu-1 "
            "Gres=gpu:h100_1g.10gb:1,gpu:h100_2g.20gb:1,gpu:h100:1"
        ),
    ]


def test_a_device_without_a_known_file_is_named_and_not_given() -> None:
    """A guess could give jobs another GPU."""
    lines = conf(bridged_pairs(), files={"GPU-2": ("/dev/nvidia5",)})

    assert lines[0] == "Name=gpu Type=a100_pcie File=/dev/nvidia5 Cores=0-7"
    assert lines[1] == "# A100 PCIe GPU-0: its device file is not known, so no job gets it"
    assert lines[-1].endswith("Gres=gpu:a100_pcie:1")


def test_a_name_that_would_end_a_word_is_spelled_otherwise() -> None:
    """Slurm splits at blanks, commas and colons."""
    device = Device("GPU-0", 0, name="NVIDIA H100: 80GB, HBM3")

    text = gres_conf([device], Topology(), {"GPU-0": ("/dev/nvidia0",)}, {}, "n")

    assert "Type=nvidia_h100_80gb_hbm3 " in text


def test_a_gpu_that_waits_for_instances_is_given_to_nobody() -> None:
    """In MIG mode nothing can run on the whole of it."""
    node = hgx()
    first = node.slots[0].device
    waiting = replace(first, facts={**first.facts, "mig_mode": "enabled"})
    seats = (replace(node.slots[0], device=waiting), *node.slots[1:])

    lines = conf(replace(node, slots=seats))
    assert lines[0].startswith("Name=gpu Type=h100 File=/dev/nvidia1 ")
    assert lines[-1].endswith("Gres=gpu:h100:7")

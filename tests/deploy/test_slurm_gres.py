"""The lines of gres.conf against Slurm's own parser."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from placement_nodes import PlacementNode, bridged_pairs, cube_mesh, hgx, mig_node
from rightsizer.model.topology import Placement
from rightsizer.report.schedulers import gres_conf
from slurm_node import slurm_faults


def text_of(node: PlacementNode) -> str:
    """The whole file, of two sockets with eight cores each; instances have files of their own."""
    devices = [slot.device for slot in node.slots]
    boards = {device.uuid: device.index for device in devices if device.mig is None}
    files = {
        device.uuid: (f"/dev/nvidia{boards[device.uuid]}",)
        if device.mig is None
        else (
            f"/dev/nvidia{boards[device.mig.parent_uuid]}",
            f"/dev/nvidia-caps/nvidia-cap{30 + at}",
        )
        for at, device in enumerate(devices)
    }
    places = {slot.uuid: slot.placement or Placement(slot.uuid) for slot in node.slots}
    topology = replace(node.topology, placements=places)
    return gres_conf(devices, topology, files, {cpu: cpu for cpu in range(16)}, "gpu-1")


@pytest.mark.parametrize(
    "node",
    [hgx(), bridged_pairs(), cube_mesh(), mig_node([["1g.10gb", "2g.20gb"], []])],
    ids=["hgx", "bridged", "cube", "mig"],
)
def test_slurm_takes_every_line(node: PlacementNode, tmp_path: Path) -> None:
    """Cores, links and files of whole GPUs and of instances."""
    assert slurm_faults(text_of(node), tmp_path, sockets=2, cores_each=8) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (("Cores=0-7", "Cores=0-99"), "Invalid GRES data for gpu, Cores=0-99"),
        (("Links=-1,18", "Links=x,18"), "Ignoring invalid Links=x,18"),
        (("Cores=", "Core="), "unrecognized key: Core"),
    ],
)
def test_slurm_complains_of_what_is_wrong(
    wrong: tuple[str, str], complaint: str, tmp_path: Path
) -> None:
    """Otherwise the other test would prove nothing."""
    text = text_of(hgx()).replace(*wrong, 1)
    found = slurm_faults(text, tmp_path, sockets=2, cores_each=8)

    assert any(complaint in each for each in found), found

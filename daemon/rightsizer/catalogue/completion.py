"""What a board tells of a device of its kind."""

from dataclasses import replace
from typing import Any

from rightsizer.catalogue.board import Board
from rightsizer.model.device import Device, MigInstance


def completed(device: Device, board: Board) -> Device:
    """A device with the figures of a board where it has none of its own."""
    if device.board is not None:
        return device
    share = 1.0 if device.mig is None else device.mig.memory_share
    figures: dict[str, Any] = {
        "memory_total_bytes": board.memory_bytes * share,
        "power_limit_watts": board.power_limit_watts,
        "sm_clock_maximum_hertz": board.sm_clock_maximum_hertz,
        "pcie_generation_maximum": board.pcie_generation,
        "pcie_width_maximum": board.pcie_width,
        "nvlink_bytes_per_second": board.nvlink_bytes_per_second or None,
    }
    assumed = {name: figure for name, figure in figures.items() if not getattr(device, name)}
    return replace(
        device,
        board=board.key,
        architecture=device.architecture or board.architecture,
        achievable_compute_ratio=board.achievable_compute_ratio,
        achievable_bandwidth_ratio=board.achievable_bandwidth_ratio,
        assumed=(*device.assumed, *assumed),
        **assumed,
    )


def mig_instance(
    board: Board, profile: str, parent_uuid: str, gpu_instance_id: int
) -> MigInstance | None:
    """An instance of a board's profile; `None` where the board has no such profile."""
    known = next((each for each in board.mig_profiles if each.name == profile), None)
    if known is None:
        return None
    return MigInstance(
        parent_uuid=parent_uuid,
        profile=profile,
        gpu_instance_id=gpu_instance_id,
        compute_instance_id=0,
        compute_share=known.compute_share,
        memory_share=known.memory_share,
    )

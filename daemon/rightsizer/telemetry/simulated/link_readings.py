"""The NVLinks of a GPU straight from the model."""

from typing import Final

from rightsizer.domain.nvlink import Nvlink
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.node import Node, Unit
from rightsizer.telemetry.simulated.nvlinks import (
    has_switches,
    link_count,
    link_megabytes_per_second,
    peer_of_link,
)
from rightsizer.telemetry.simulated.outlook import LinkErrors

__all__ = ["read_links"]

_MEGABYTE: Final = 1e6


def read_links(node: Node, unit: Unit, time: Nanoseconds) -> tuple[Nvlink, ...]:
    """Those that lead somewhere."""
    board, gpu = unit.slot.board, unit.spot.gpu
    health, links = node.health(unit.device.uuid, time), link_count(board)
    counters = node.counters(unit.device.uuid, time)
    found: list[Nvlink] = []
    for link in range(links):
        peer = peer_of_link(board, gpu, link, len(node.units))
        if peer is None and not has_switches(board):
            continue
        if link in health.links_down:
            found.append(Nvlink(link, is_up=False))
            continue
        errors = health.link_errors.get(link, LinkErrors())
        found.append(
            Nvlink(
                link,
                is_up=True,
                generation=board.nvlink_generation,
                bytes_per_second=link_megabytes_per_second(board) * _MEGABYTE,
                remote_pci_bus_id=None if peer is None else node.units[peer].device.pci_bus_id,
                leads_to_switch=peer is None,
                receive_bytes=counters.nvlink_receive_bytes / links,
                transmit_bytes=counters.nvlink_transmit_bytes / links,
                crc_errors=errors.crc,
                replay_errors=errors.replay,
                recovery_errors=errors.recovery,
            )
        )
    return tuple(found)

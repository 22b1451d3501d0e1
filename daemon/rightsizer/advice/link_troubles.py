"""What is wrong with a GPU's links: NVLink, its fabric, PCIe."""

from collections.abc import Iterator
from typing import Final

from rightsizer.advice.trouble import Board, Trouble, TroubleSettings
from rightsizer.advice.trouble_remedies import DIAGNOSE_LINKS, FABRIC, RESEAT
from rightsizer.domain.finding import Severity
from rightsizer.domain.signal import Signal

__all__ = ["link_troubles"]

_FABRIC_COMPLETED: Final = 3


def link_troubles(board: Board, settings: TroubleSettings) -> Iterator[Trouble]:
    """Links that are down or make mistakes."""
    yield from _down(board, settings)
    yield from _mistakes(board, settings)
    state = board.standing.get(Signal.FABRIC_STATE)
    if state is not None and 0 < state < _FABRIC_COMPLETED:
        yield Trouble(
            "the GPU has not joined the NVLink fabric",
            "CUDA does not start on it, or sees no other GPU",
            Severity.HIGH,
            FABRIC,
            settings.momentary_ratio,
            {"fabric_state": state},
        )
    replays = board.standing.get(Signal.PCIE_REPLAYS) or 0.0
    if replays >= settings.pcie_replays_maximum:
        yield Trouble(
            f"{replays:.0f} PCIe packets were sent again",
            "since the driver was loaded; a contact, a riser or the slot makes mistakes",
            Severity.LOW,
            RESEAT,
            settings.momentary_ratio,
            {"pcie_replays": replays},
        )


def _down(board: Board, settings: TroubleSettings) -> Iterator[Trouble]:
    """By comparison with GPUs of its kind: boards without bridges have links that lead nowhere."""
    links, up = _links(board)
    most = _most_of_its_kind(board)
    if links is None or up is None or most is None or up >= most:
        return
    numbers = [link.number for link in board.standing.reading.nvlinks if not link.is_up]
    named = f" ({', '.join(map(str, numbers))})" if numbers else ""
    yield Trouble(
        f"{most - up:.0f} of {links:.0f} NVLinks are down{named}",
        f"other GPUs of its kind have {most:.0f} up; collectives are as fast as the slowest",
        Severity.HIGH,
        DIAGNOSE_LINKS,
        settings.momentary_ratio,
        {"nvlink_links": links, "nvlink_links_up": up, "nvlink_links_up_elsewhere": most},
    )


def _links(board: Board) -> tuple[float | None, float | None]:
    standing = board.standing
    return standing.get(Signal.NVLINK_LINKS), standing.get(Signal.NVLINK_LINKS_UP)


def _most_of_its_kind(board: Board) -> float | None:
    own = board.standing.device
    readings = (
        board.node.readings.get(each.uuid)
        for each in board.node.devices
        if each.uuid != own.uuid and each.mig is None and each.name == own.name
    )
    known = (reading.get(Signal.NVLINK_LINKS_UP) for reading in readings if reading is not None)
    return max((value for value in known if value is not None), default=None)


def _mistakes(board: Board, settings: TroubleSettings) -> Iterator[Trouble]:
    recoveries = sum(link.recovery_errors or 0 for link in board.standing.reading.nvlinks)
    if recoveries:
        yield Trouble(
            f"NVLinks had to be trained anew {recoveries} times",
            "since the driver was loaded; each time traffic stood still",
            Severity.MEDIUM,
            DIAGNOSE_LINKS,
            evidence={"nvlink_recoveries": recoveries},
        )
        return
    errors = board.standing.get(Signal.NVLINK_ERRORS) or 0.0
    if errors >= settings.nvlink_errors_maximum:
        yield Trouble(
            f"{errors:.0f} NVLink errors",
            "since the driver was loaded; what was hit was sent again",
            Severity.LOW,
            DIAGNOSE_LINKS,
            evidence={"nvlink_errors": errors},
        )

"""MIG profiles from a board's entry."""

from typing import Any, Final

from rightsizer.catalogue.board import MigProfile
from rightsizer.catalogue.row import Row, shown

_KEY: Final = "mig_profiles"
_OVERHEAD_BYTES: Final = 205 * 2**20
"""Taken once from each slice, and once more by its share: so what an H100 shows is met within 0.3 %
(9984, 20096, 40448 and 81152 MiB), what an A100 of 80 GB does within 1.5 % (9856 MiB)."""


def read_mig_profiles(row: Row, board_bytes: float) -> tuple[MigProfile, ...]:
    """The profiles of a board of so much memory."""
    profiles = (_profile(row, cells, board_bytes) for cells in row.items(_KEY))
    return tuple(profile for profile in profiles if profile is not None)


def _profile(row: Row, cells: Any, board_bytes: float) -> MigProfile | None:
    try:
        name, compute, memory, sm_count, maximum, *visible = (
            cells if isinstance(cells, list) else []
        )
        compute_share, memory_share = _share(compute), _share(memory)
    except (ValueError, ZeroDivisionError):
        row.fault(
            _KEY,
            f"must be like [1g.10gb, 1/7, 1/8, 16, 7], with SMs or null (got {shown(cells)})",
        )
        return None
    if not (0 < compute_share <= 1 and 0 < memory_share <= 1):
        row.fault(
            _KEY,
            f"{name}: shares must be above 0 and at most 1 (got {shown(compute)}, {shown(memory)})",
        )
    mib = row.checked_number(_KEY, visible[0], 1, 10_000_000) if visible else None
    sms = row.checked_number(_KEY, sm_count, 1, 10_000)
    most = row.checked_number(_KEY, maximum, 1, 100)
    return MigProfile(
        name=str(name),
        compute_share=compute_share,
        memory_share=memory_share,
        sm_count=None if sms is None else int(sms),
        maximum_count=int(most or 1),
        memory_bytes=_visible(board_bytes, memory_share) if mib is None else mib * 2.0**20,
        is_memory_assumed=mib is None,
    )


def _share(value: Any) -> float:
    """`1/7` or `0.125`."""
    above, _, below = str(value).partition("/")
    return float(above) / float(below or 1)


def _visible(board_bytes: float, share: float) -> float:
    return max(0.0, board_bytes * share - _OVERHEAD_BYTES * (1.0 + share))

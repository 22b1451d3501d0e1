"""The bill of a fleet in FOCUS: its hours by part and by state."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.report.focus import FocusCharge, FocusRow, focus_rows

_PAID_STATES: Final = ("used", "headroom", "idle", "stalled", "lost", "free")
"""Parts of the hours held, which the bill is of."""


def fleet_focus(document: Mapping[str, Any]) -> list[FocusRow]:
    """Return a charge for each part of an answer's hours and each of their states."""
    end = document["time"]
    charges = (charge for part in document["usage"]["parts"] for charge in _charges(part))
    return focus_rows(charges, end - document["lookback_seconds"], end)


def _charges(part: Mapping[str, Any]) -> Iterator[FocusCharge]:
    cluster = part["cluster"]
    pool = part["pool"]
    board = part["board"] or "unknown board"
    unknown = FocusCharge(
        state="unknown",
        gpu_hours=part["unknown_gpu_hours"],
        account=cluster,
        owner=part["team"],
        resource_id="/".join(filter(None, (cluster, pool))),
        resource_name=pool,
        board=board,
        provider=part["provider"],
        kind=part["kind"],
        tags={"cluster": cluster, "team": part["team"], "pool": pool},
    )
    priced = replace(
        unknown,
        dollars_per_hour=_dollars_per_hour(part),
        list_dollars_per_hour=_list_dollars_per_hour(board, part["provider"]),
        price_source=part["price_source"],
    )
    for state in _PAID_STATES:
        yield replace(priced, state=state, gpu_hours=part[f"{state}_gpu_hours"])
    yield unknown


def _dollars_per_hour(part: Mapping[str, Any]) -> float | None:
    held = part["held_gpu_hours"]
    if part["dollars"] is None or not held:
        return None
    return float(part["dollars"]["value"]) / float(held)


def _list_dollars_per_hour(board: str, provider: str) -> float | None:
    return built_in_prices().near(provider).dollars_per_hour(board)

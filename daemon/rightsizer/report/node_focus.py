"""The bill of a node's report in FOCUS: the hours of each GPU by state."""

import datetime as dt
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.model.values import Cause, State
from rightsizer.report.focus import FocusCharge, focus_csv, focus_rows
from rightsizer.report.model import DeviceRow, ReportModel

_LEAST_HOURS: Final = 1e-6
_PRICE_DIGITS: Final = 9


def focus_document(model: ReportModel, _: dt.tzinfo) -> str:
    """Return the bill as CSV, times in UTC; unknown hours cost what others do, as in the report."""
    sources = {price.model: price.source for price in model.prices}
    charges = (charge for row in model.devices for charge in _charges(row, sources))
    return focus_csv(focus_rows(charges, model.span.start, model.span.end))


def _charges(row: DeviceRow, sources: dict[str, str]) -> Iterator[FocusCharge]:
    board = row.board or row.model or "unknown"
    total = row.total.gpu_hours
    dollars = row.total.dollars_typical
    price = None if dollars is None or not total else round(dollars / total, _PRICE_DIGITS)
    charge = FocusCharge(
        state="",
        gpu_hours=0.0,
        account="",
        owner="",
        resource_id=row.uuid,
        resource_name=row.label,
        board=board,
        provider="",
        dollars_per_hour=price,
        list_dollars_per_hour=built_in_prices().dollars_per_hour(board),
        price_source=sources.get(board, ""),
    )
    wasted = dict(row.waste_hours)
    hours = {
        "used": row.used_hours,
        "headroom": wasted.pop(Cause.HEADROOM, 0.0),
        "idle": wasted.pop(Cause.IDLE, 0.0),
        "stalled": wasted.pop(Cause.STALLED, 0.0),
        "lost": sum(wasted.values()),
        "free": min(row.states.get(State.IDLE_EMPTY, 0.0), row.waste_hours.get(Cause.IDLE, 0.0)),
    }
    hours["idle"] -= hours["free"]
    unknown = total - sum(hours.values())
    # The rest of a sum is not exactly nothing.
    hours["unknown"] = unknown if unknown > _LEAST_HOURS else 0.0
    holder = row.workloads[0] if len(row.workloads) == 1 else ""
    for state, gpu_hours in hours.items():
        owner = holder if state not in {"free", "unknown"} else ""
        yield replace(charge, state=state, gpu_hours=gpu_hours, owner=owner)

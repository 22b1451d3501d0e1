"""A bill in FOCUS, the FinOps Open Cost and Usage Specification 1.2, by state of the hours.

Source: https://focus.finops.org/focus-specification/v1-2/
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rightsizer.io.codec import encode
from rightsizer.io.files import whole_file
from rightsizer.model.table import table_rows
from rightsizer.report.table_file import (
    ColumnKinds,
    TableColumnKind,
    csv_rows,
    csv_text,
    write_parquet_table,
)

FOCUS: Final = "focus"
"""Name of the format."""
FOCUS_COLUMNS: Final[ColumnKinds] = {
    row["name"]: TableColumnKind(row["kind"]) for row in table_rows(__file__, "focus_columns.csv")
}
_OURS: Final = "Rightsizer"
_UNIT: Final = "GPU-Hours"
_LONGER_THAN_A_MONTH: Final = 32
PARQUET: Final = ".parquet"
"""Suffix of such files."""

FocusRow = dict[str, Any]


class FocusCharge(Struct, frozen=True):
    """GPU-hours in one state, of one owner in one place on boards of one kind."""

    state: str
    gpu_hours: float
    account: str
    """Cluster; empty if it has no name."""
    owner: str
    """Team; empty if unknown."""
    resource_id: str
    resource_name: str
    board: str
    provider: str
    """Cloud; empty if unknown."""
    kind: str = ""
    """Of the holder."""
    dollars_per_hour: float | None = None
    """`None` if unknown, or if the hours are not part of the bill."""
    list_dollars_per_hour: float | None = None
    """Without discounts; `None` if unknown."""
    price_source: str = ""
    tags: Mapping[str, str] = {}


def focus_rows(charges: Iterable[FocusCharge], start: float, end: float) -> list[FocusRow]:
    """Return a row for each charge over a span, in seconds since the epoch.

    `BilledCost` is 0, so that a cloud's own bill counts once. Without a list price, the price that
    is paid is one without discount; without any price, unit prices are missing, and costs are what
    is billed, as the specification requires.
    """
    # A month ends where the next one begins.
    last = datetime.fromtimestamp(end, UTC) - timedelta(microseconds=1)
    first = last.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    period = {
        "BillingPeriodStart": first,
        "BillingPeriodEnd": (first + timedelta(days=_LONGER_THAN_A_MONTH)).replace(day=1),
        "ChargePeriodStart": _whole_second(start),
        "ChargePeriodEnd": _whole_second(end),
    }
    return [_row(charge, period) for charge in charges if charge.gpu_hours > 0]


def focus_csv(rows: Sequence[FocusRow]) -> str:
    """Return the bill as CSV."""
    return csv_text(FOCUS_COLUMNS, rows)


def write_focus(text: str, path: Path) -> None:
    """Write a bill in CSV to a file, as Parquet if it is named so.

    Raises:
        UsageError: it is, and pyarrow is not installed.
    """
    with whole_file(path, "bill") as stream:
        if path.suffix == PARQUET:
            write_parquet_table(FOCUS_COLUMNS, csv_rows(FOCUS_COLUMNS, text), stream)
        else:
            stream.write(text.encode())


def _row(charge: FocusCharge, period: Mapping[str, datetime]) -> FocusRow:
    account = charge.account or _OURS
    provider = charge.provider or _OURS
    hours = charge.gpu_hours
    paid = charge.dollars_per_hour
    listed = charge.list_dollars_per_hour if paid is not None else None
    listed = paid if listed is None else listed
    cost = 0.0 if paid is None else paid * hours
    holder = ", ".join(filter(None, (charge.board, charge.kind)))
    return {
        "BillingAccountId": account,
        "BillingAccountName": account,
        "BillingCurrency": "USD",
        **period,
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeFrequency": "Usage-Based",
        "ChargeDescription": f"{charge.state} hours of {holder}",
        "ServiceCategory": "Compute",
        "ServiceSubcategory": "Other (Compute)",
        "ServiceName": "GPU",
        "ResourceId": charge.resource_id or None,
        "ResourceName": charge.resource_name or None,
        "ResourceType": "GPU",
        "SubAccountId": charge.owner or None,
        "SubAccountName": charge.owner or None,
        "ProviderName": provider,
        "PublisherName": provider,
        "InvoiceIssuerName": provider,
        "InvoiceId": None,
        "SkuId": charge.board,
        "PricingCategory": "Standard",
        "PricingQuantity": hours,
        "PricingUnit": _UNIT,
        "ConsumedQuantity": hours,
        "ConsumedUnit": _UNIT,
        "ListUnitPrice": listed,
        "ContractedUnitPrice": paid,
        "BilledCost": 0.0,
        "EffectiveCost": cost,
        "ListCost": 0.0 if listed is None else listed * hours,
        "ContractedCost": cost,
        "Tags": encode(_tags(charge)).decode(),
        "x_State": charge.state,
        "x_PriceSource": charge.price_source or None,
    }


def _tags(charge: FocusCharge) -> dict[str, str]:
    """Return tags under a prefix of the provider's, as the specification requires of them."""
    tags = {**charge.tags, "kind": charge.kind, "state": charge.state}
    return {f"{_OURS.lower()}/{key}": value for key, value in tags.items() if value}


def _whole_second(time: float) -> datetime:
    return datetime.fromtimestamp(int(time), UTC)

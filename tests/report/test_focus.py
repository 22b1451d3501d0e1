"""The bill in FOCUS 1.2 against the rules of that specification, of a fleet and of a node.

focus_rules.csv has what the specification says of each column for charges of usage.
"""

import csv
import datetime as dt
import json
import re
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from fleet_answers import fleet_answer
from report_samples import report_facts
from rightsizer.agent.report_document import rendered_report
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.focus import fleet_focus
from rightsizer.model.errors import UsageError
from rightsizer.report.builder import report_model
from rightsizer.report.focus import (
    FOCUS_COLUMNS,
    FocusCharge,
    focus_csv,
    focus_rows,
    write_focus,
)
from rightsizer.report.table_file import TableColumnKind, csv_rows, csv_text

RULES: Final = {
    row["column"]: row
    for row in csv.DictReader(
        Path(__file__).with_name("focus_rules.csv").read_text("utf-8").splitlines()
    )
}
FORMS: Final = {
    "string": re.compile(r".*\S.*"),
    "decimal": re.compile(r"-?\d+(\.\d+)?([Ee]-?\d+)?"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "json": re.compile(r"\{.*\}"),
}
KINDS: Final = {
    "string": TableColumnKind.TEXT,
    "decimal": TableColumnKind.NUMBER,
    "time": TableColumnKind.TIME,
    "json": TableColumnKind.TEXT,
}
MARCH: Final = dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp()


def of_fleet(**facts: Any) -> str:
    """The bill of a fleet."""
    return focus_csv(fleet_focus(encode_answer(fleet_answer(**facts))))


def of_node() -> str:
    """The bill of a node."""
    return rendered_report("focus", report_model(report_facts()), dt.UTC)


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a bill."""
    return list(csv.DictReader(StringIO(text, newline="")))


def charge(**facts: Any) -> FocusCharge:
    """Ten hours of an L4 of a team."""
    usual = {
        "state": "used",
        "gpu_hours": 10.0,
        "account": "paris",
        "owner": "web",
        "resource_id": "paris/serve",
        "resource_name": "serve",
        "board": "L4",
        "provider": "aws",
        "kind": "kubernetes",
    }
    return FocusCharge(**usual | facts)


def costs(row: Mapping[str, Any]) -> dict[str, float]:
    """The four costs of a row."""
    return {name: float(row[name]) for name in row if name.endswith("Cost")}


@pytest.mark.parametrize("bill", [of_fleet, of_node])
def test_bill_keeps_the_rules_of_each_column(bill: Any) -> None:
    """Presence, type, form, allowed values, and what may be empty; ours have their prefix, last."""
    rows = rows_of(bill())
    assert rows
    columns = list(rows[0])
    ours = [name for name in columns if name not in RULES]
    assert columns[-len(ours) :] == ours
    assert all(name.startswith("x_") for name in ours)
    assert not [n for n, r in RULES.items() if r["presence"] != "conditional" and n not in columns]
    for name in set(columns) - {*ours}:
        rule = RULES[name]
        assert FOCUS_COLUMNS[name] is KINDS[rule["type"]], name
        for row in rows:
            cell = row[name]
            if not cell:
                assert rule["nullable"] == "yes", f"{name} is empty: {row}"
                continue
            assert FORMS[rule["type"]].fullmatch(cell), f"{name}: {cell}"
            assert not rule["values"] or cell in rule["values"].split(), f"{name}: {cell}"


@pytest.mark.parametrize("bill", [of_fleet, of_node])
def test_bill_keeps_the_rules_between_columns(bill: Any) -> None:
    """Costs are prices times quantities, spans lie in order, tags are flat under our prefix."""
    for row in rows_of(bill()):
        hours = float(row["PricingQuantity"])
        for cost, price in (
            ("ListCost", "ListUnitPrice"),
            ("ContractedCost", "ContractedUnitPrice"),
        ):
            unit = row[price]
            expected = float(unit) * hours if unit else float(row["BilledCost"])
            assert float(row[cost]) == pytest.approx(expected)
        assert row["ConsumedQuantity"] == row["PricingQuantity"]
        assert row["ConsumedUnit"] == row["PricingUnit"] == "GPU-Hours"
        assert bool(row["SubAccountId"]) == bool(row["SubAccountName"])
        assert row["BillingPeriodStart"] < row["BillingPeriodEnd"]
        assert row["ChargePeriodStart"] < row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
        tags = json.loads(row["Tags"])
        assert all(key.startswith("rightsizer/") for key in tags)
        assert all(isinstance(value, str) and value for value in tags.values())


def test_bill_of_a_fleet_sums_to_its_hours_and_dollars() -> None:
    """Used, idle, wasted and free hours are charges of their own; unknown ones cost nothing."""
    answer = fleet_answer()
    (first, *others) = answer.usage
    usage = (replace(first, unknown_gpu_hours=5.0), *others)
    parts = encode_answer(fleet_answer(usage=usage))["usage"]["parts"]
    rows = rows_of(of_fleet(usage=usage))
    assert sum(float(row["ConsumedQuantity"]) for row in rows) == pytest.approx(
        sum(part["held_gpu_hours"] + part["unknown_gpu_hours"] for part in parts)
    )
    assert sum(float(row["EffectiveCost"]) for row in rows) == pytest.approx(
        sum(part["dollars"]["value"] for part in parts if part["dollars"])
    )
    for state in ("used", "free"):
        billed = sum(float(row["ConsumedQuantity"]) for row in rows if row["x_State"] == state)
        assert billed == pytest.approx(sum(part[f"{state}_gpu_hours"] for part in parts))
    unknown = [row for row in rows if row["x_State"] == "unknown"]
    assert [row["ConsumedQuantity"] for row in unknown] == ["5.0"]
    assert {*costs(unknown[0]).values()} == {0.0}
    assert unknown[0]["ListUnitPrice"] == ""


def test_bill_of_a_node_sums_to_its_report() -> None:
    """All its time, which is paid for, known or not."""
    model = report_model(report_facts())
    rows = rows_of(of_node())
    hours = sum(float(row["ConsumedQuantity"]) for row in rows)
    assert hours == pytest.approx(model.summary.total.gpu_hours)
    wasted = {"idle", "stalled", "lost", "free"}
    assert sum(
        float(row["ConsumedQuantity"]) for row in rows if row["x_State"] in wasted
    ) == pytest.approx(model.summary.wasted.gpu_hours)
    priced = sum(row.total.dollars_typical or 0.0 for row in model.devices)
    assert priced > 0
    assert sum(float(row["EffectiveCost"]) for row in rows) == pytest.approx(priced)
    assert {row["ResourceId"] for row in rows} == {row.uuid for row in model.devices}


def test_owner_of_a_node_is_the_one_that_held_the_gpu() -> None:
    """Not of hours in which it was empty, nor of what is unknown."""
    owners = {
        (row["ResourceName"], row["x_State"]): row["SubAccountName"] for row in rows_of(of_node())
    }
    assert owners["GPU 0", "used"] == "kubernetes/research/trainer"
    assert owners["GPU 1", "idle"].startswith("slurm/")
    assert owners["GPU 1", "free"] == owners["GPU 1", "unknown"] == ""


def test_list_cost_is_the_price_without_discount() -> None:
    """The catalogue's where it has one, else the price that is paid; nothing without any price."""
    (paid, alone, free) = focus_rows(
        [
            charge(dollars_per_hour=0.5, list_dollars_per_hour=0.8, price_source="our contract"),
            charge(dollars_per_hour=0.5),
            charge(list_dollars_per_hour=0.8),
        ],
        MARCH - 86400,
        MARCH,
    )
    assert costs(paid) == {
        "BilledCost": 0.0,
        "EffectiveCost": 5.0,
        "ListCost": 8.0,
        "ContractedCost": 5.0,
    }
    assert paid["x_PriceSource"] == "our contract"
    assert alone["ListCost"] == alone["ContractedCost"] == 5.0
    assert {*costs(free).values()} == {0.0}
    assert free["ListUnitPrice"] is free["x_PriceSource"] is None


def test_board_without_a_stated_price_has_the_list_price_of_the_catalogue() -> None:
    """A price of a contract stands beside it."""
    document = encode_answer(fleet_answer())
    row = next(row for row in fleet_focus(document) if row["SkuId"] == "L4")
    assert row["ContractedUnitPrice"] == pytest.approx(0.5)
    assert row["ListUnitPrice"] > row["ContractedUnitPrice"]


def test_last_day_of_a_month_is_billed_in_that_month() -> None:
    """A span that ends at midnight has nothing of the next month."""
    (row,) = focus_rows([charge()], MARCH - 86400, MARCH)
    assert row["BillingPeriodStart"] == dt.datetime(2026, 2, 1, tzinfo=dt.UTC)
    assert row["BillingPeriodEnd"] == row["ChargePeriodEnd"]


def test_parquet_has_the_same_rows_with_types(tmp_path: Path) -> None:
    """Missing values are null, times are in UTC."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="gpu-rightsizer[parquet] is not there")
    file = tmp_path / "bill.parquet"
    write_focus(of_fleet(), file)
    assert parquet.read_table(file).to_pylist() == fleet_focus(encode_answer(fleet_answer()))


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is left behind; CSV needs nothing."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"gpu-rightsizer\[parquet\]"):
        write_focus(of_fleet(), tmp_path / "bill.parquet")
    assert not list(tmp_path.iterdir())
    write_focus(of_fleet(), tmp_path / "bill.csv")
    assert (tmp_path / "bill.csv").read_bytes().decode() == of_fleet()


def test_table_is_read_back_as_it_was() -> None:
    """Names that look like formulas too, which a spreadsheet gets as text."""
    rows = focus_rows([charge(owner="=cmd()", dollars_per_hour=0.1)], MARCH - 86400, MARCH)
    text = csv_text(FOCUS_COLUMNS, rows)
    assert ",'=cmd()," in text
    assert list(csv_rows(FOCUS_COLUMNS, text)) == rows

"""The advice that is open, as a table that leads to what it is about."""

from grafana.links import Board, of_row
from grafana.panels import Panel
from grafana.queries import advice, cells
from grafana.scales import CONFIDENCE
from grafana.tables import Column, rows, sorted_by

__all__ = ["advice_table"]


def advice_table() -> Panel:
    """Surest first."""
    panel = rows(
        "What to do",
        "One row a device; the agent's page has the evidence.",
        (
            Column("finding"),
            Column("reason"),
            Column("action"),
            Column("severity"),
            Column("workload", link=of_row(Board.WORKLOAD, workload="workload")),
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("A", "confidence", "percentunit", 0, CONFIDENCE),
            Column("B", "opened", "dateTimeFromNow"),
            Column("C", "GPUs saved", "short", 1),
            Column("D", "dollars an hour", "currencyUSD", 2),
            Column("E", "risk", "percentunit", 1),
            Column("uuid", link=of_row(Board.GPU, uuid="uuid")),
            Column("state"),
            Column("id"),
        ),
        cells(advice("rightsizer_advice_confidence_ratio")),
        cells(f"{advice('rightsizer_advice_opened_timestamp_seconds')} * 1000", letter="B"),
        cells(advice("rightsizer_advice_savings_gpus"), letter="C"),
        cells(advice("rightsizer_advice_savings_dollars_per_hour"), letter="D"),
        cells(advice("rightsizer_advice_risk_ratio"), letter="E"),
    )
    return sorted_by(panel, "confidence").no_value("No open recommendations")

"""Rows of the table of GPUs in a terminal."""

from rightsizer.console.node_table import NodeFrame, node_rows


def test_of_equally_urgent_advice_top_shows_what_saves_most() -> None:
    """The to-do is that of the page."""

    def advice(found: str, dollars: float) -> dict[str, object]:
        savings = {"dollars_per_hour_low": 0.0, "dollars_per_hour_high": dollars}
        about = {"id": found, "severity": "medium", "confidence": 0.9, "culprits": []}
        return {**about, "devices": ["GPU-0"], "closed": None, "savings": savings}

    device = {
        "uuid": "GPU-0",
        "index": 0,
        "name": None,
        "board": None,
        "state": "productive",
        "signals": {},
        "workloads": [],
        "down": None,
        "mig_profile": None,
        "has_mig_instances": False,
    }
    report = {"devices": [device], "advice": [advice("cheap", 3.0), advice("dear", 5.0)]}
    (row,) = node_rows(NodeFrame(report, {"devices": []}))
    assert row.advice is not None
    assert row.advice["id"] == "dear"

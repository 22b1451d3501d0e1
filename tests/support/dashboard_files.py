"""The committed dashboards for tests: panels, queries, and Grafana's substitutions."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rightsizer.io.yaml import load_yaml

__all__ = [
    "BOARDS",
    "GRAFANA",
    "QUERIES",
    "SELECTOR",
    "VALUES",
    "DashboardQuery",
    "concrete",
    "excluded",
    "panels_of",
]

GRAFANA: Final = Path(__file__).resolve().parents[2] / "grafana"
BOARDS: Final[dict[str, Any]] = {
    path.stem: json.loads(path.read_text())
    for path in sorted((GRAFANA / "dashboards").glob("*.json"))
}
EXCLUSIONS: Final = load_yaml((GRAFANA / ".lint").read_text(), ".lint").data["exclusions"]
SELECTOR: Final = re.compile(r"(?<![\w:])((?:[a-z_]+:)?(?:rightsizer|process)_[\w:]+)(\{[^}]*\})?")
VALUES: Final = {
    "$__rate_interval": "4s",
    "$__range": "1m",
    "$window": "24h",
    "$cluster": ".*",
    "$job": ".+",
    "$instance": ".+",
    "$uuid": ".+",
    "$workload": ".*",
}
"""Grafana's value of each variable with everything selected, soon after a start."""


class DashboardQuery(Struct, frozen=True):
    """One query of one panel."""

    board: str
    panel: str
    letter: str
    expression: str

    @property
    def name(self) -> str:
        """Its display name."""
        return f"{self.board.removeprefix('rightsizer-')}: {self.panel}: {self.letter}"


def panels_of(board: Mapping[str, Any]) -> Iterator[Any]:
    """All panels except row headings, those in folded rows too."""
    for top in board["panels"]:
        if top["type"] == "row":
            yield from top["panels"]
        else:
            yield top


def concrete(expression: str, values: Mapping[str, str] = VALUES) -> str:
    """An expression as sent by Grafana."""
    for name, value in values.items():
        expression = expression.replace(name, value)
    return expression


def excluded(rule: str) -> set[tuple[str, str]]:
    """Dashboards and panel titles exempt from a rule; without a title, the whole dashboard."""
    entries = EXCLUSIONS.get(rule, {}).get("entries", [])
    return {
        (entry["dashboard"], panel["title"])
        for entry in entries
        for panel in panels_of(BOARDS[entry["dashboard"]])
        if entry.get("panel", panel["title"]) == panel["title"]
    }


QUERIES: Final = tuple(
    DashboardQuery(uid, panel["title"], target["refId"], target["expr"])
    for uid, board in BOARDS.items()
    for panel in panels_of(board)
    for target in panel.get("targets", [])
)

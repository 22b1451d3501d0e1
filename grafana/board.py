"""A dashboard: panels in rows, under the same variables, marks and links."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.builders.dashboard import (
    CustomVariable,
    Dashboard,
    Row,
    TextBoxVariable,
)
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from grafana.annotations import annotations
from grafana.links import Board, siblings
from grafana.panels import Panel
from grafana.variables import variables_of

__all__ = ["Section", "board"]

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its panels; folded ones are only asked for when they are opened."""

    title: str
    panels: Sequence[Panel]
    is_folded: bool = False


def board(
    uid: Board,
    title: str,
    description: str,
    sections: Iterable[Section],
    extras: Iterable[CustomVariable | TextBoxVariable] = (),
) -> Dashboard:
    """A read-only dashboard; changes are made here and committed."""
    made = (
        Dashboard(f"Rightsizer / {title}")
        .uid(uid)
        .description(description)
        .tags(["rightsizer", "gpu"])
        .readonly()
        .version(_VERSION)
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("1m")
        .time("now-24h", "now")
        .timezone("browser")
        .annotations(annotations())
        .link(siblings())
    )
    for variable in (*variables_of(uid), *extras):
        made.with_variable(variable)
    return _filled(made, sections)


def _filled(made: Dashboard, sections: Iterable[Section]) -> Dashboard:
    """The SDK finds the places; it leaves the panels' numbers to us."""
    number = 0
    for section in sections:
        number += 1
        row = Row(section.title).id(number).collapsed(section.is_folded)
        numbered = [panel.id(number + place) for place, panel in enumerate(section.panels, 1)]
        number += len(numbered)
        if section.is_folded:
            for panel in numbered:
                row.with_panel(panel)
        made.with_row(row)
        if not section.is_folded:
            for panel in numbered:
                made.with_panel(panel)
    return made

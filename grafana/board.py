"""A dashboard: panels in rows, under the same variables, marks and links."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from grafana_foundation_sdk.builders.dashboard import (
    CustomVariable,
    Dashboard,
    Row,
    TextBoxVariable,
)
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from grafana.annotations import annotations
from grafana.levels import setting_needed
from grafana.links import Board, siblings
from grafana.panels import Panel
from grafana.variables import variables_of

__all__ = ["Section", "board"]

_VERSION: Final = 1
_COLUMNS: Final = 24


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
        .annotations(annotations(uid))
        .link(siblings())
    )
    for variable in (*variables_of(uid), *extras):
        made.with_variable(variable)
    return _filled(made, sections)


def _filled(made: Dashboard, sections: Iterable[Section]) -> Dashboard:
    """The SDK finds the places; it leaves the panels' numbers to us."""
    number = 0
    for section in sections:
        for part in _parts(section):
            number += 1
            row = Row(part.title).id(number).collapsed(part.is_folded)
            _fill_lines(part.panels)
            numbered = [panel.id(number + place) for place, panel in enumerate(part.panels, 1)]
            number += len(numbered)
            if part.is_folded:
                for panel in numbered:
                    row.with_panel(panel)
            made.with_row(row)
            if not part.is_folded:
                for panel in numbered:
                    made.with_panel(panel)
    return made


def _fill_lines(panels: Sequence[Panel]) -> None:
    """Make each line of panels as wide as the board: the SDK neither wraps nor stretches."""
    line: list[Panel] = []
    for panel in panels:
        if sum(map(_width, (*line, panel))) > _COLUMNS:
            _stretch(line)
            line = []
        line.append(panel)
    _stretch(line)


def _stretch(line: Sequence[Panel]) -> None:
    ends = list(accumulate(map(_width, line)))
    places = [0, *(round(_COLUMNS * end / ends[-1]) for end in ends)]
    for panel, (start, end) in zip(line, pairwise(places), strict=True):
        panel.span(end - start)


def _width(panel: Panel) -> int:
    place = panel.build().grid_pos
    return 0 if place is None else place.w


def _parts(section: Section) -> Iterable[Section]:
    """What is there by default, then folded rows that name the setting which the rest needs."""
    by_setting: dict[str, list[Panel]] = {}
    for panel in section.panels:
        asked = [target.expr for target in getattr(panel.build(), "targets", None) or ()]
        by_setting.setdefault(setting_needed(asked), []).append(panel)
    for setting, panels in sorted(by_setting.items()):
        title = f"{section.title} ({setting})" if setting else section.title
        yield Section(title, panels, is_folded=section.is_folded or bool(setting))

"""Builders for panels, and their places in a grid of 24 columns."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from grafana.queries import DATASOURCE, Json

__all__ = [
    "AMBER",
    "BLUE",
    "GRAY",
    "GREEN",
    "RED",
    "Sized",
    "bars",
    "color_overrides",
    "heatmap",
    "place",
    "row",
    "stat",
    "steps",
    "table",
    "text",
    "time_series",
]

Sized: TypeAlias = tuple[Json, int, int]
"""A panel, its width and its height."""

BLUE: Final = "#5794F2"
GREEN: Final = "#73BF69"
AMBER: Final = "#FF9830"
RED: Final = "#E02F44"
GRAY: Final = "#8E8E8E"
_COLUMNS: Final = 24


def steps(*colors: tuple[float | None, str]) -> Json:
    """Colors from these values on; the first value is `None`."""
    return {"mode": "absolute", "steps": [{"value": at, "color": color} for at, color in colors]}


def color_overrides(colors: Mapping[str, str]) -> list[Json]:
    """One fixed color for each series name."""
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for name, color in colors.items()
    ]


def stat(  # noqa: PLR0913 - a panel is what its keywords say.
    title: str,
    description: str,
    target: Json,
    unit: str,
    *,
    thresholds: Json | None = None,
    decimals: int | None = None,
) -> Json:
    """One number."""
    options = {
        "colorMode": "value",
        "graphMode": "none" if target["instant"] else "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    }
    panel = _panel("stat", title, description, [target], unit, options)
    defaults = panel["fieldConfig"]["defaults"]
    defaults["thresholds"] = thresholds or steps((None, BLUE))
    defaults["color"] = {"mode": "thresholds"}
    if decimals is not None:
        defaults["decimals"] = decimals
    return panel


def bars(title: str, description: str, target: Json, unit: str, thresholds: Json) -> Json:
    """One horizontal bar for each series."""
    options = {
        "displayMode": "basic",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showUnfilled": True,
        "valueMode": "color",
        "namePlacement": "left",
        "sizing": "auto",
        "minVizHeight": 14,
        "maxVizHeight": 26,
    }
    panel = _panel("bargauge", title, description, [target], unit, options)
    defaults = panel["fieldConfig"]["defaults"]
    defaults["thresholds"] = thresholds
    defaults["color"] = {"mode": "thresholds"}
    defaults["min"] = 0
    if unit == "percentunit":
        defaults["max"] = 1
    return panel


def time_series(  # noqa: PLR0913 - a panel is what its keywords say.
    title: str,
    description: str,
    targets: Iterable[Json],
    unit: str,
    *,
    stacked: bool = False,
    maximum: float | None = None,
    thresholds: Json | None = None,
    overrides: Iterable[Json] = (),
) -> Json:
    """Lines, or the parts of a whole stacked."""
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc", "hideZeros": True},
    }
    panel = _panel("timeseries", title, description, list(targets), unit, options)
    defaults = panel["fieldConfig"]["defaults"]
    defaults["custom"] = {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter" if stacked else "linear",
        "lineWidth": 0 if stacked else 1,
        "fillOpacity": 85 if stacked else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if thresholds else "off"},
    }
    defaults["min"] = 0
    if maximum is not None:
        defaults["max"] = maximum
    if thresholds is not None:
        defaults["thresholds"] = thresholds
    panel["fieldConfig"]["overrides"] = list(overrides)
    return panel


def heatmap(title: str, description: str, target: Json) -> Json:
    """A distribution over time, from the buckets of a histogram of ratios."""
    options = {
        "calculate": False,
        "cellGap": 0,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 32, "exponent": 0.5},
        "filterValues": {"le": 1e-9},
        "legend": {"show": False},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "unit": "percentunit", "reverse": False},
        "cellValues": {"unit": "s"},
    }
    return _panel("heatmap", title, description, [target], "percentunit", options)


def table(  # noqa: PLR0913 - a panel is what its keywords say.
    title: str,
    description: str,
    targets: Iterable[Json],
    unit: str,
    transformations: Iterable[Json],
    *,
    overrides: Iterable[Json] = (),
    thresholds: Json | None = None,
) -> Json:
    """Rows and columns; with thresholds the cells are colored by them."""
    options = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
    panel = _panel("table", title, description, list(targets), unit, options)
    defaults = panel["fieldConfig"]["defaults"]
    defaults["custom"] = {"align": "auto", "filterable": thresholds is None}
    if thresholds is not None:
        defaults["custom"]["cellOptions"] = {"type": "color-background", "mode": "gradient"}
        defaults["thresholds"] = thresholds
        defaults["color"] = {"mode": "thresholds"}
    panel["fieldConfig"]["overrides"] = list(overrides)
    panel["transformations"] = list(transformations)
    return panel


def text(title: str, description: str, markdown: str) -> Json:
    """Words."""
    options = {"mode": "markdown", "content": markdown, "code": {"language": "plaintext"}}
    panel = _panel("text", title, description, [], "none", options)
    del panel["targets"], panel["fieldConfig"], panel["datasource"]
    return panel


def row(title: str, *, collapsed: bool = False) -> Json:
    """A heading; a collapsed one takes in all panels up to the next heading."""
    return {"type": "row", "title": title, "collapsed": collapsed, "panels": []}


def place(rows: Iterable[tuple[Json, Iterable[Sized]]]) -> list[Json]:
    """Rows with their panels, each given as (panel, width, height), as one list with places."""
    placed: list[Json] = []
    top = number = 0
    for heading, panels in rows:
        number += 1
        heading |= {"id": number, "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": top}}
        placed.append(heading)
        home = heading["panels"] if heading["collapsed"] else placed
        top, left, tallest = top + 1, 0, 0
        for panel, width, height in panels:
            if left + width > _COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            number += 1
            panel |= {"id": number, "gridPos": {"h": height, "w": width, "x": left, "y": top}}
            home.append(panel)
            left, tallest = left + width, max(tallest, height)
        top += tallest
    return placed


def _panel(  # noqa: PLR0913, PLR0917 - all that kinds of panels share.
    kind: str, title: str, description: str, targets: list[Json], unit: str, options: Any
) -> Json:
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": options,
    }

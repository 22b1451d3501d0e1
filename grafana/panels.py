"""One function for each kind of panel; what is special about a panel is set on what it returns.

All come with a size: a full row is 24 columns, of 60 pixels each on a screen of 1440.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    heatmap,
    stat,
    statetimeline,
    table,
    text,
    timeseries,
)
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import FieldColor
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DynamicConfigValue,
    FieldColorModeId,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.text import TextMode

from grafana.colors import STATE_COLORS
from grafana.queries import DATASOURCE, STATE_CODES
from grafana.scales import PLAIN, Scale
from rightsizer.report.labels import PAGE_CAUSE_LABELS, display_name

__all__ = [
    "EMPTY",
    "GPU_HOURS",
    "KILOWATT_HOURS",
    "Panel",
    "bars",
    "described",
    "distribution",
    "fixed",
    "lines",
    "number",
    "readable",
    "stack",
    "timeline",
    "words",
]

Panel: TypeAlias = (
    bargauge.Panel
    | heatmap.Panel
    | stat.Panel
    | statetimeline.Panel
    | table.Panel
    | text.Panel
    | timeseries.Panel
)
GPU_HOURS: Final = "suffix: GPU-h"
KILOWATT_HOURS: Final = "kwatth"
"""Grafana's own hours would turn into weeks, which are none of anyone's."""
EMPTY: Final = "Nothing in this time range"
_Any = TypeVar(
    "_Any",
    bargauge.Panel,
    heatmap.Panel,
    stat.Panel,
    statetimeline.Panel,
    table.Panel,
    timeseries.Panel,
)


def number(
    title: str, description: str, unit: str, target: Dataquery, scale: Scale = PLAIN
) -> stat.Panel:
    """One number, with its course where the query has one."""
    has_course = target.build().range_val
    panel = (
        stat.Panel()
        .graph_mode(common.BigValueGraphMode.AREA if has_course else common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(_last())
    )
    return described(panel, title, description, unit, scale).with_target(target).span(4).height(4)


def bars(
    title: str, description: str, unit: str, target: Dataquery, scale: Scale = PLAIN
) -> bargauge.Panel:
    """One horizontal bar for each series."""
    panel = (
        bargauge.Panel()
        .orientation(common.VizOrientation.HORIZONTAL)
        .display_mode(common.BarGaugeDisplayMode.BASIC)
        .value_mode(common.BarGaugeValueMode.TEXT)
        .name_placement(common.BarGaugeNamePlacement.LEFT)
        .reduce_options(_last())
        .min(0)
    )
    if unit == "percentunit":
        panel.max(1)
    return described(panel, title, description, unit, scale).with_target(target).span(8).height(8)


def lines(
    title: str, description: str, unit: str, *targets: Dataquery, scale: Scale | None = None
) -> timeseries.Panel:
    """One line for each series; those of a scale are drawn across."""
    panel = (
        _time_series()
        .line_width(1)
        .fill_opacity(0)
        .line_interpolation(common.LineInterpolation.LINEAR)
    )
    if scale:
        mode = common.GraphThresholdsStyleMode.LINE
        panel.thresholds_style(GraphThresholdsStyleConfig().mode(mode))
    described(panel, title, description, unit, scale)
    for target in targets:
        panel.with_target(target)
    return panel.span(12).height(8)


def stack(title: str, description: str, unit: str, *targets: Dataquery) -> timeseries.Panel:
    """The parts of a whole, one on another."""
    panel = (
        _time_series()
        .line_width(0)
        .fill_opacity(85)
        .line_interpolation(common.LineInterpolation.STEP_AFTER)
        .stacking(StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    )
    described(panel, title, description, unit)
    for target in targets:
        panel.with_target(target)
    return panel.span(12).height(8)


def timeline(title: str, description: str, target: Dataquery) -> statetimeline.Panel:
    """A strip of states for each device, from numbers of `STATE_CODES`."""
    texts = {
        str(code): ValueMappingResult(display_name(state), STATE_COLORS[state], index=code)
        for state, code in STATE_CODES.items()
    }
    panel = (
        statetimeline.Panel()
        .mappings([ValueMap(texts)])
        .merge_values(merge_values=True)
        .show_value(common.VisibilityMode.NEVER)
        .row_height(0.85)
        .line_width(0)
        .fill_opacity(100)
        .legend(_legend())
        .tooltip(VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE))
    )
    return described(panel, title, description, "short").with_target(target).span(24).height(8)


def distribution(title: str, description: str, target: Dataquery) -> heatmap.Panel:
    """Where the seconds were, over time, from the buckets of a histogram of ratios."""
    panel = (
        heatmap.Panel()
        .color(
            heatmap.HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Blues")
            .exponent(0.5)
            .steps(32)
        )
        .cell_gap(0)
        .show_value(common.VisibilityMode.NEVER)
        .rows_frame(heatmap.RowsHeatmapOptions().layout(common.HeatmapCellLayout.AUTO))
        .y_axis(heatmap.YAxisConfig().axis_placement(common.AxisPlacement.LEFT).unit("percentunit"))
        .cell_values(heatmap.CellValues().unit("s"))
        .tooltip(
            heatmap.HeatmapTooltip()
            .mode(common.TooltipDisplayMode.SINGLE)
            .y_histogram(y_histogram=True)
        )
    )
    panel = described(panel, title, description, "percentunit")
    return panel.with_target(target).span(8).height(7)


def words(title: str, description: str, markdown: str) -> text.Panel:
    """Words, which have no query and no unit."""
    panel = text.Panel().mode(TextMode.MARKDOWN).content(markdown)
    return panel.title(title).description(description).span(12).height(8)


def fixed(panel: _Any, colors: Mapping[str, str]) -> _Any:
    """A color and a readable name of its own for each series name."""
    for name, color in colors.items():
        value = {"mode": "fixed", "fixedColor": color}
        shown = PAGE_CAUSE_LABELS.get(name) or display_name(name)
        properties = [DynamicConfigValue("color", value), DynamicConfigValue("displayName", shown)]
        panel.override_by_name(str(name), properties)
    return panel


def readable(panel: _Any, labels: Mapping[str, str]) -> _Any:
    """A readable name for each series name."""
    for name, shown in labels.items():
        if name != shown:
            panel.override_by_name(str(name), [DynamicConfigValue("displayName", shown)])
    return panel


def described(
    panel: _Any, title: str, description: str, unit: str, scale: Scale | None = None
) -> _Any:
    """What every panel with data has: words, unit, source, colors and why they change."""
    panel.title(title).unit(unit).datasource(DATASOURCE).no_value(EMPTY)
    if scale is None:
        return panel.description(description)
    panel.thresholds(scale.thresholds)
    if not isinstance(panel, timeseries.Panel):
        panel.color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
    return panel.description(" ".join(filter(None, (description, scale.reason))))


def _time_series() -> timeseries.Panel:
    return (
        timeseries.Panel()
        .draw_style(common.GraphDrawStyle.LINE)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(span_nulls=False)
        .legend(_legend())
        .tooltip(
            VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
            .hide_zeros(hide_zeros=True)
        )
        .min(0)
    )


def _legend() -> VizLegendOptions:
    return (
        VizLegendOptions()
        .show_legend(show_legend=True)
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
    )


def _last() -> ReduceDataOptions:
    return ReduceDataOptions().calcs(["lastNotNull"]).values(values=False)

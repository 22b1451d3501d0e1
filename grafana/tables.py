"""Tables: rows of one or more queries, or a matrix of one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.builders.common import TableSortByFieldState
from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    TableCellBackgroundDisplayMode,
    TableCellHeight,
    TableColoredBackgroundCellOptions,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardRegexMapOptions,
    DataTransformerConfig,
    DynamicConfigValue,
    RegexMap,
    ValueMappingResult,
)

from grafana.panels import described
from grafana.scales import PLAIN, Scale

__all__ = ["Column", "matrix", "rows", "sorted_by"]

_TECHNICAL: Final = ("Time", "__name__", "job", "cluster")
"""Labels that every row has and no one reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column: a label, or a query's values under the query's letter."""

    source: str
    """A label's name, or a query's letter."""
    title: str = ""
    unit: str = ""
    decimals: int | None = None
    scale: Scale | None = None
    link: DashboardLink | None = None
    width: int | None = None
    """In pixels."""
    is_hidden: bool = False
    """Only there for links of other columns."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What stands for each value, by a regular expression."""

    def field(self, *, is_only: bool) -> str:
        """What Grafana calls it; the values of an only query go without its letter."""
        if len(self.source) > 1:
            return self.source
        return "Value" if is_only else f"Value #{self.source}"


def rows(
    title: str,
    description: str,
    columns: Iterable[Column],
    *targets: Dataquery,
    hidden: Iterable[str] = (),
) -> table.Panel:
    """One row for each set of labels, one column for each label and each query."""
    panel = described(_table(), title, description, "none", PLAIN)
    for target in targets:
        panel.with_target(target)
    fields = {column: column.field(is_only=len(targets) == 1) for column in columns}
    unread = set(_TECHNICAL).union(hidden) - set(fields.values())
    options = {
        "excludeByName": dict.fromkeys(sorted(unread), True),
        "indexByName": {name: place for place, name in enumerate(fields.values())},
        "renameByName": {name: each.title for each, name in fields.items() if each.title},
    }
    panel.with_transformation(DataTransformerConfig("merge", options={}))
    panel.with_transformation(DataTransformerConfig("organize", options=options))
    for column, name in fields.items():
        if properties := list(_properties(column)):
            panel.override_by_name(column.title or name, properties)
    return panel.filterable(filterable=True).span(24).height(8)


def matrix(
    title: str, description: str, target: Dataquery, column: str, scale: Scale
) -> table.Panel:
    """Shares of one query: a row for each device, a column for each value of a label."""
    options = {"columnField": column, "rowField": "device", "valueField": "Value"}
    panel = described(_table(), title, description, "percentunit", scale).with_target(target)
    panel.with_transformation(DataTransformerConfig("groupingToMatrix", options=options))
    mode = TableCellBackgroundDisplayMode.GRADIENT
    panel.cell_options(TableColoredBackgroundCellOptions(mode)).decimals(0)
    corner = f"device\\{column}"
    unpainted = DynamicConfigValue("custom.cellOptions", {"type": "auto"})
    panel.override_by_name(corner, [unpainted, DynamicConfigValue("displayName", "device")])
    return sorted_by(panel, "device", is_descending=False).span(8).height(8)


def sorted_by(panel: table.Panel, column: str, *, is_descending: bool = True) -> table.Panel:
    """The largest first."""
    return panel.sort_by([TableSortByFieldState().display_name(column).desc(is_descending)])


def _table() -> table.Panel:
    """The panel's own word for it stands where there is no row at all, a dash in empty cells."""
    panel = table.Panel().show_header(show_header=True).cell_height(TableCellHeight.SM)
    return panel.override_by_regexp("/.+/", [DynamicConfigValue("noValue", "-")])


def _properties(column: Column) -> Iterable[DynamicConfigValue]:
    if column.unit:
        yield DynamicConfigValue("unit", column.unit)
    if column.decimals is not None:
        yield DynamicConfigValue("decimals", column.decimals)
    if column.scale:
        yield DynamicConfigValue("thresholds", column.scale.thresholds.build())
        yield DynamicConfigValue("custom.cellOptions", {"type": "color-text"})
    if column.is_hidden:
        yield DynamicConfigValue("custom.hidden", True)
    if column.width:
        yield DynamicConfigValue("custom.width", column.width)
    if column.words:
        yield DynamicConfigValue("mappings", [_mapping(*each) for each in column.words.items()])
    if column.link:
        yield DynamicConfigValue("links", [column.link.build()])


def _mapping(pattern: str, text: str) -> RegexMap:
    return RegexMap(DashboardRegexMapOptions(f"/^{pattern}$/", ValueMappingResult(text=text)))

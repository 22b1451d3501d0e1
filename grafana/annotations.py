"""Recommendations as marks on every time series."""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, AnnotationTarget
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import AnnotationQuery as Annotation

from grafana.links import Board
from grafana.queries import DATASOURCE, advice, growth

__all__ = ["annotations"]

_SUBJECTS: Final = {
    Board.NODE: "node:$nodename",
    Board.GPU: "uuid:$uuid",
    Board.WORKLOAD: "workload:$holder",
}
"""Tags, as agents write them, of what a board is about; other boards show everything."""


def annotations(board: Board) -> list[Builder[Annotation]]:
    """What agents have posted; and, for agents without a token, what their metrics tell."""
    subject = _SUBJECTS.get(board)
    tags = ["rightsizer", subject] if subject else ["rightsizer"]
    return [
        # The SDK types this target as a query, which Grafana's own annotations are not; it takes
        # the builder all the same.
        AnnotationQuery()
        .name("Recommendations")
        .datasource(DataSourceRef("grafana", "-- Grafana --"))
        .enable(enable=subject is not None)
        .icon_color("orange")
        .target(AnnotationTarget().type("tags").tags(tags).match_any(False).limit(100)),
        _metric("Recommendations opened (from metrics)", "yellow")
        .expr(f"{advice('rightsizer_advice_opened_timestamp_seconds')} * 1000")
        .use_value_for_time(use_value_for_time=True)
        .title_format("{{reason}}")
        .text_format("{{action}}: GPU {{gpu}} of {{instance}}, {{workload}}")
        .tag_keys("finding"),
        _metric("Recommendations closed (from metrics)", "green")
        .expr(f"{growth('rightsizer_advice_outcomes_total')} > 0")
        .title_format("{{reason}} {{outcome}}")
        .text_format("{{instance}}")
        .tag_keys("outcome"),
    ]


def _metric(name: str, color: str) -> AnnotationQuery:
    query = AnnotationQuery().name(name).datasource(DATASOURCE)
    return query.enable(enable=False).icon_color(color)

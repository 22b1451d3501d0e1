"""The API of a node over a given report."""

from collections.abc import Callable

from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.report import Report
from rightsizer.model.units import Nanoseconds
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.api import NodeApi
from rightsizer.web.page import WebPage
from rightsizer.web.settings import FitSettings
from sample_devices import NOW

__all__ = ["node_api"]


def node_api(
    report: Report | None = None, wall_time: Callable[[], Nanoseconds] = lambda: NOW
) -> NodeApi:
    """The API, whose page is never reloaded."""
    page = WebPage(FreshnessSettings(), FitSettings(), 0.0)
    return NodeApi(lambda: report, MetricsExposition(lambda: report), page, wall_time)

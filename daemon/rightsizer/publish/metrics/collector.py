"""A custom collector: families made anew from one immutable report."""

from collections.abc import Collection, Iterable

from prometheus_client.core import Metric

from rightsizer import __version__
from rightsizer.domain.metric import METRICS
from rightsizer.domain.metric_collector import DEFAULT_COLLECTORS, Collector
from rightsizer.domain.report import Report
from rightsizer.publish.metrics.advice import add_advice
from rightsizer.publish.metrics.agent import add_agent, add_workloads
from rightsizer.publish.metrics.device import add_device
from rightsizer.publish.metrics.families import Families, empty_family
from rightsizer.publish.metrics.node import add_node

__all__ = ["ReportCollector"]


class ReportCollector:
    """Yields the families of the report it was last shown.

    A device that has left the report leaves the exposition with it, which direct
    instrumentation could not do.
    """

    def __init__(
        self, advice_limit: int, collectors: Collection[Collector] = DEFAULT_COLLECTORS
    ) -> None:
        self._advice_limit = advice_limit
        self._collectors = collectors
        self._report: Report | None = None
        self._fresh: frozenset[str] = frozenset()

    def show(self, report: Report | None, fresh: frozenset[str]) -> None:
        """Take the report that the next collection is made from.

        Args:
            report: The node at its last tick, `None` before the first.
            fresh: The uuids whose readings are fresh.
        """
        self._report, self._fresh = report, fresh

    def describe(self) -> Iterable[Metric]:
        """Every family there can be, without samples."""
        return [empty_family(metric).metric() for metric in METRICS.values()]

    def collect(self) -> Iterable[Metric]:
        """The families as prometheus_client has them."""
        return [family.metric() for family in self.families()]

    def families(self) -> Families:
        """The families of the report; before the first one, who the agent is."""
        families = Families(self._collectors)
        report = self._report
        if report is None:
            families.add_info("rightsizer_build_info", __version__, "")
            return families
        add_workloads(families, report.devices)
        add_node(families, report.node)
        for device in report.devices:
            add_device(families, device, is_fresh=device.device.uuid in self._fresh)
        add_advice(families, report.advice, self._advice_limit)
        add_agent(families, report.agent)
        return families

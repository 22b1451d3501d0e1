"""A custom collector: families made anew from one immutable report."""

from collections.abc import Iterable

from prometheus_client.core import Metric

from rightsizer import __version__
from rightsizer.domain.metric import METRICS
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

    def __init__(self, advice_limit: int, *, details: bool = False) -> None:
        self._advice_limit = advice_limit
        self._details = details
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
        return map(empty_family, METRICS.values())

    def collect(self) -> Iterable[Metric]:
        """The families of the report; before the first one, who the agent is."""
        families = Families()
        report = self._report
        if report is None:
            families.add_info("rightsizer_build_info", __version__, "")
            return families
        add_workloads(families, report.devices)
        add_node(families, report.node, details=self._details)
        for device in report.devices:
            is_fresh = device.device.uuid in self._fresh
            add_device(families, device, is_fresh=is_fresh, details=self._details)
        add_advice(families, report.advice, self._advice_limit)
        add_agent(families, report.agent)
        return families

"""The report as Prometheus metrics: a custom collector, a line writer, content negotiation."""

from rightsizer.publish.metrics.exposition import Exposition
from rightsizer.publish.metrics.rendering import Rendering
from rightsizer.publish.metrics.settings import MetricsSettings

__all__ = ["Exposition", "MetricsSettings", "Rendering"]

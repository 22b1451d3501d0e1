"""What the page shows, as plain values: pure functions from the report to what a template needs."""

from rightsizer.publish.web.view.fit import FitSettings
from rightsizer.publish.web.view.node import NodeView, node_view

__all__ = ["FitSettings", "NodeView", "node_view"]

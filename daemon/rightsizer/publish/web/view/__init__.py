"""What the page shows, as plain values: pure functions from the report to what a template needs."""

from rightsizer.publish.web.view.node import NodeView, node_view

__all__ = ["NodeView", "node_view"]

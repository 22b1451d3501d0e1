"""The dashboard of one or more nodes: from what is wasted, down to each GPU and the agent."""

from grafana.agent import agent_health
from grafana.overview import advice, overview
from grafana.panels import place, row
from grafana.queries import Json
from grafana.readings import readings
from grafana.sizing import distributions, provisioning, time_spent

__all__ = ["node_panels"]


def node_panels() -> list[Json]:
    """All panels in their places."""
    return place(
        (
            (row("Overview"), overview()),
            (row("Advice"), advice()),
            (row("Where the time went"), time_spent()),
            (row("Provisioning"), provisioning()),
            (row("Distributions", collapsed=True), distributions()),
            (row("Readings and conditions", collapsed=True), readings()),
            (row("Agent health", collapsed=True), agent_health()),
        )
    )

"""One node: from what is wasted, down to each GPU and the agent."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.links import Board
from grafana.sections.agent import agent_health
from grafana.sections.overview import explanation, numbers, wasted_by_cause
from grafana.sections.readings import readings
from grafana.sections.sizing import distributions, provisioning
from grafana.sections.time_spent import states_by_device, states_over_time, strip
from grafana.sections.to_do import to_do
from grafana.variables import window

__all__ = ["node"]


def node() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.NODE,
        "Node",
        "Where every second of every GPU went, and what size it should have been.",
        (
            Section("What to do", to_do()),
            Section("Overview", (*numbers(), wasted_by_cause(), explanation())),
            Section(
                "Where the time went", (strip(), states_over_time().span(24), states_by_device())
            ),
            Section("Provisioning", provisioning()),
            Section("Distributions", distributions(), is_folded=True),
            Section("Readings and conditions", readings(), is_folded=True),
            Section("Agent health", agent_health(), is_folded=True),
        ),
        extras=(window(),),
    )

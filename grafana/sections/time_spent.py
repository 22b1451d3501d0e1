"""Where the time went, state by state."""

from typing import Final

from grafana.colors import STATE_COLORS
from grafana.links import Board, of_series
from grafana.panels import Panel, fixed, readable, stack, timeline
from grafana.queries import by_number, cells, growth, main_state, named, over, share, whole_gpus
from grafana.scales import SHARES
from grafana.tables import matrix
from rightsizer.model.state import State
from rightsizer.report.labels import display_name

__all__ = ["states_by_device", "states_over_time", "strip"]

_STATES: Final = "rightsizer_state_seconds_total"


def strip() -> Panel:
    """One strip for each device."""
    return timeline(
        "State of each device",
        "Prevailing state of each step; click a strip for the device.",
        over(named(main_state()), "GPU {{gpu}} {{mig_profile}}"),
    ).data_links([of_series(Board.GPU, "instance", "uuid")])


def states_over_time() -> Panel:
    """All devices together."""
    grown = f"sum by (state) ({whole_gpus(growth(_STATES))})"
    panel = stack(
        "States over time",
        "Share of each step by state, over all selected devices.",
        "percentunit",
        over(f"{grown} / on () group_left () (sum({grown}) > 0)", "{{state}}"),
    )
    return fixed(panel, STATE_COLORS).max(1)


def states_by_device() -> Panel:
    """All devices at a glance."""
    panel = matrix(
        "States by device",
        "Share of the time range that each device spent in each state.",
        cells(by_number(f"({share(_STATES, 'state', span='$__range')})")),
        "state",
        SHARES,
    )
    return readable(panel, {state: display_name(state) for state in State}).span(24)

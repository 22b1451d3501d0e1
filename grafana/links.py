"""Ways from one dashboard to another that keep the time range and the variables."""

from enum import StrEnum
from typing import Final

from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models.dashboard import DashboardLinkType

__all__ = ["Board", "of_agent", "of_row", "of_series", "siblings"]

_KEPT: Final = ("datasource", "cluster", "job", "scheme")


class Board(StrEnum):
    """The dashboards by their uids, which alerts and other people's links know."""

    FLEET = "rightsizer-fleet"
    ESTATE = "rightsizer-estate"
    NODE = "rightsizer-node"
    GPU = "rightsizer-gpu"
    WORKLOAD = "rightsizer-workload"
    WASTE = "rightsizer-waste"
    ADVICE = "rightsizer-advice"
    HEALTH = "rightsizer-health"


def of_series(board: Board, *labels: str) -> DashboardLink:
    """From a series to the dashboard of what its labels name."""
    return _link(board, {label: f"${{__field.labels.{label}}}" for label in labels})


def of_row(board: Board, **columns: str) -> DashboardLink:
    """From a row of a table to the dashboard of what its columns name, by variable."""
    given = {name: f"${{__data.fields.{column}}}" for name, column in columns.items()}
    return _link(board, given)


def of_agent(title: str, path: str) -> DashboardLink:
    """From a row of a table to the page of the node's agent, at the address that is scraped."""
    link = DashboardLink(title).type(DashboardLinkType.LINK).target_blank(target_blank=True)
    return link.url(f"${{scheme}}://${{__data.fields.node}}/{path}")


def siblings() -> DashboardLink:
    """The list of all our dashboards at the top of each."""
    return (
        DashboardLink("Rightsizer")
        .type(DashboardLinkType.DASHBOARDS)
        .tags(["rightsizer"])
        .as_dropdown(as_dropdown=True)
        .include_vars(include_vars=True)
        .keep_time(keep_time=True)
    )


def _link(board: Board, variables: dict[str, str]) -> DashboardLink:
    kept = [f"${{{name}:queryparam}}" for name in _KEPT]
    given = [f"var-{name}={value}" for name, value in variables.items()]
    word = board.removeprefix("rightsizer-")
    return (
        DashboardLink(f"Open {word}")
        .type(DashboardLinkType.LINK)
        .url(f"/d/{board}?{'&'.join([*kept, *given, '${__url_time_range}'])}")
    )

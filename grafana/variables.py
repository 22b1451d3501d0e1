"""The variables at the top of the dashboards; the same on all, so that links can hand them on."""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import (
    CustomVariable,
    DatasourceVariable,
    QueryVariable,
    TextBoxVariable,
)
from grafana_foundation_sdk.models.dashboard import (
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.links import Board
from grafana.queries import DATASOURCE

__all__ = ["price", "variables_of", "window"]

_UP: Final = "rightsizer_device_up"
_CLUSTER: Final = 'cluster=~"$cluster"'
_JOB: Final = f'{_CLUSTER}, job=~"$job"'
_INSTANCE: Final = f'{_JOB}, instance=~"$instance"'


def variables_of(board: Board) -> list[DatasourceVariable | QueryVariable]:
    """From the source of the data down to one device and one workload.

    `cluster` and `workload` also match what has no such label, so that both may be absent. On the
    estate's dashboard those of nodes choose nothing: they are out of sight, to be handed on.
    """
    device = _labels("uuid", "Device", f"{_UP}{{{_INSTANCE}}}")
    held = f'rightsizer_workload_share_ratio{{{_INSTANCE}, uuid=~"$uuid"}}'
    of_nodes = [
        _several(_labels("job", "Job", f"{_UP}{{{_CLUSTER}}}"), ".+"),
        _several(_labels("instance", "Node", f"{_UP}{{{_JOB}}}"), ".+"),
        device if board is Board.GPU else _several(device, ".+"),
        _several(_labels("workload", "Workload", held), ".*"),
    ]
    if board is Board.ESTATE:
        of_nodes = [variable.hide(VariableHide.HIDE_VARIABLE) for variable in of_nodes]
    return [
        DatasourceVariable("datasource").label("Data Source").type("prometheus"),
        _several(_labels("cluster", "Cluster", _UP), ".*"),
        *of_nodes,
    ]


def window() -> CustomVariable:
    """How far the gauges of provisioning look back."""
    names = ("current", "24h", "7d")
    options = [VariableOption(name == names[0], name, name) for name in names]
    return (
        CustomVariable("window")
        .label("Window")
        .values(",".join(names))
        .options(options)
        .current(options[0])
    )


def price() -> TextBoxVariable:
    """What a GPU costs.

    A text box and not a constant: Grafana hides constants, and these dashboards are read-only.
    """
    return (
        TextBoxVariable("dollars_per_gpu_hour")
        .label("Dollars per GPU-hour")
        .description("Your price of a GPU-hour; 0: no money is shown.")
        .default_value("0")
    )


def _labels(name: str, label: str, metric: str) -> QueryVariable:
    expression = f"label_values({metric}, {name})"
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query({"query": expression, "refId": f"variable-{name}"})
        .definition(expression)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def _several(variable: QueryVariable, everything: str) -> QueryVariable:
    """Any number of values, all of them at first."""
    return (
        variable.multi(multi=True)
        .include_all(include_all=True)
        .all_value(everything)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )

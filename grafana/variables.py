"""The variables at the top of the dashboards; the same on all, so that links can hand them on."""

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders.dashboard import (
    CustomVariable,
    DatasourceVariable,
    QueryVariable,
)
from grafana_foundation_sdk.models.dashboard import (
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.links import Board
from grafana.queries import DATASOURCE

__all__ = ["variables_of", "window"]

_UP: Final = "rightsizer_device_up"
_CLUSTER: Final = 'cluster=~"$cluster"'
_JOB: Final = f'{_CLUSTER}, job=~"$job"'
_INSTANCE: Final = f'{_JOB}, instance=~"$instance"'
_HELD: Final = f'rightsizer_workload_share_ratio{{{_INSTANCE}, uuid=~"$uuid"}}'


def variables_of(board: Board) -> list[DatasourceVariable | QueryVariable | CustomVariable]:
    """From the source of the data down to one device and one workload.

    `cluster` and `workload` also match what has no such label, so that both may be absent. Of what
    a board is about, one is chosen. On the estate's dashboard those of nodes choose nothing: they
    are out of sight, to be handed on. So is the scheme of the addresses that are scraped.
    """
    instance = _labels("instance", "Node", f"{_UP}{{{_JOB}}}")
    workload = _labels("workload", "Workload", _HELD)
    of_nodes = [
        _several(_labels("job", "Job", f"{_UP}{{{_CLUSTER}}}"), ".+"),
        instance if board is Board.NODE else _several(instance, ".+"),
        _device() if board is Board.GPU else _several(_device(), ".+"),
        workload if board is Board.WORKLOAD else _several(workload, ".*"),
    ]
    if board is Board.ESTATE:
        of_nodes = [variable.hide(VariableHide.HIDE_VARIABLE) for variable in of_nodes]
    return [
        DatasourceVariable("datasource").label("Data Source").type("prometheus"),
        _several(_labels("cluster", "Cluster", _UP), ".*"),
        *of_nodes,
        *_tagged(board),
        _choice("scheme", "Agents' pages", ("http", "https")).hide(VariableHide.HIDE_VARIABLE),
    ]


def _tagged(board: Board) -> list[QueryVariable]:
    """What stands in the tags of annotations, where it differs from the variable's value."""
    if board is Board.NODE:
        return [_hidden("nodename", f"label_values(rightsizer_node_info{{{_INSTANCE}}}, nodename)")]
    if board is not Board.WORKLOAD:
        return []
    # Grafana splits tags at colons, so that agents write a dash.
    held = f'group by (workload) ({_HELD.removesuffix("}")}, workload=~"$workload"}})'
    told = f'label_replace({held}, "holder", "$1-$2", "workload", "([^:]+):?(.*)")'
    return [_hidden("holder", f"query_result({told})").regex('/holder="([^"]*?)-?"/')]


def _device() -> QueryVariable:
    """Chosen by node and index, and handed on by its uuid."""
    known = f"last_over_time(rightsizer_device_info{{{_INSTANCE}}}[$__range])"
    told = f'label_join({known}, "device", " GPU ", "instance", "gpu")'
    named = _queried("uuid", f"query_result({told})").label("GPU")
    return named.regex('/device="(?<text>[^"]+)".*uuid="(?<value>[^"]+)"/')


def window() -> CustomVariable:
    """How far the gauges of provisioning look back."""
    return _choice("window", "Window", ("current", "24h", "7d"))


def _choice(name: str, label: str, values: Sequence[str]) -> CustomVariable:
    """One of these, the first at first."""
    options = [VariableOption(value == values[0], value, value) for value in values]
    variable = CustomVariable(name).label(label).values(",".join(values))
    return variable.options(options).current(options[0])


def _labels(name: str, label: str, metric: str) -> QueryVariable:
    return _queried(name, f"label_values({metric}, {name})").label(label)


def _hidden(name: str, expression: str) -> QueryVariable:
    return _queried(name, expression).hide(VariableHide.HIDE_VARIABLE)


def _queried(name: str, expression: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .datasource(DATASOURCE)
        .query({"query": expression, "refId": f"variable-{name}"})
        .definition(expression)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
    )


def _several(variable: QueryVariable, everything: str) -> QueryVariable:
    """Any number of values, all of them at first."""
    return (
        variable.multi(multi=True)
        .include_all(include_all=True)
        .all_value(everything)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )

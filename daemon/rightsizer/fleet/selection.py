"""What of an answer is asked for: a cluster, a team, what is new, and the first of what is left."""

from collections.abc import Callable, Mapping
from typing import Any

from rightsizer.model.advice import OPEN_STATES
from rightsizer.model.errors import UsageError
from rightsizer.model.finding import Severity
from rightsizer.model.frozen import dataclass

_SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Selection:
    """Flags of a look."""

    cluster: str | None = None
    team: str | None = None
    since_seconds: float | None = None
    """Before the look, at which open advice was opened at the earliest."""
    top: int | None = None
    """Pieces of advice."""


def by_worth(advice: Mapping[str, Any]) -> tuple[float, int, float, str]:
    """Sorts by money, then by severity, then by GPUs."""
    savings = advice["savings"]

    def middle(name: str) -> float:
        return ((savings[f"{name}_low"] or 0.0) + (savings[f"{name}_high"] or 0.0)) / 2

    severity = _SEVERITIES.index(Severity(advice["severity"]))
    return -middle("dollars_per_hour"), -severity, -middle("gpus"), advice["id"]


def ranked(advice: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is open first, by its worth; the rest in its order."""
    still_open = [each for each in advice if each["state"] in OPEN_STATES]
    return sorted(still_open, key=by_worth) + [
        each for each in advice if each["state"] not in OPEN_STATES
    ]


def selected(form: dict[str, Any], selection: Selection) -> dict[str, Any]:
    """The form of an answer with what was asked for alone.

    Raises:
        UsageError: there is no such cluster or team.
    """
    found = dict(form)
    for name, rows in (("cluster", "clusters"), ("team", "teams")):
        wanted = getattr(selection, name)
        if wanted is not None:
            known = {row["name" if name == "cluster" else "team"] for row in form[rows]}
            _check(name, wanted, known)
    if selection.cluster is not None:
        found = _of_cluster(found, selection.cluster)
    if selection.team is not None:
        found["teams"] = [each for each in found["teams"] if each["team"] == selection.team]
        _keep(found, ("findings", "advice"), lambda each: each["team"] == selection.team)
    if selection.since_seconds is not None:
        first = form["time"] - selection.since_seconds
        _keep(found, ("advice",), lambda each: each["opened"] >= first)
    if selection.top is not None:
        found["advice"] = [each for each in found["advice"] if each["state"] in OPEN_STATES]
        found["advice"] = found["advice"][: selection.top]
    return found


def _check(what: str, wanted: str, known: set[str]) -> None:
    if wanted not in known:
        names = ", ".join(sorted(filter(None, known))) or "none has a name"
        raise UsageError(f"--{what}: there is no '{wanted}' here; there are {names}")


def _of_cluster(form: dict[str, Any], cluster: str) -> dict[str, Any]:
    found = dict(form)
    rows = ("sources", "pools", "findings", "advice", "node_advice", "waiting", "waiting_work")
    _keep(found, (*rows, "teams"), lambda each: each["cluster"] == cluster)
    (row,) = (each for each in form["clusters"] if each["name"] == cluster)
    usage = form["usage"]
    whole = next((each for each in usage["clusters"] if each["name"] == cluster), usage["total"])
    return found | {
        "clusters": [row],
        "gpus": row["gpus"],
        "workloads": row["workloads"],
        "usage": {
            "total": whole,
            "pools": [each for each in usage["pools"] if each["cluster"] == cluster],
            "clusters": [whole],
            "kinds": [],
        },
    }


def _keep(
    form: dict[str, Any], names: tuple[str, ...], is_wanted: Callable[[Mapping[str, Any]], bool]
) -> None:
    for name in names:
        form[name] = [each for each in form[name] if is_wanted(each)]

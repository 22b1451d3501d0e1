"""A fleet as one HTML document: pools, waste by team, and what to do about it.

It takes the form that `rightsizer fleet --json` prints (docs/fleet.md). Its lists are cut, so that
a browser shows the page of a fleet of any size at once; JSON has all.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rightsizer.fleet.text import used_by
from rightsizer.model.advice import OPEN_STATES
from rightsizer.model.units import HOURS_PER_MONTH, format_duration
from rightsizer.report.figures import dollars, moment_text, number, span_text
from rightsizer.report.labels import confidence_label, first_names, readable_name
from rightsizer.report.template import rendered

_MOST_NAMED: Final = 8
_MOST_POOLS: Final = 100
_MOST_ADVICE: Final = 60
_MOST_NODE_ADVICE: Final = 50
_MOST_TEAMS: Final = 50
_MOST_WAITING: Final = 50
_LONGEST_STEP: Final = 1500
"""Characters of a step to take: a list of a thousand nodes is for JSON."""
_Form = Mapping[str, Any]


def fleet_document(form: Mapping[str, Any]) -> str:
    """The whole page, from what `rightsizer fleet --json` prints."""
    opened = [each for each in form["advice"] if each["state"] in OPEN_STATES]
    pools = sorted(form["pools"], key=lambda pool: (-pool["gpus"], pool["name"]))
    return rendered(
        "fleet.html",
        {},
        form=form,
        until=moment_text(form["time"], dt.UTC),
        lookback=format_duration(form["lookback_seconds"]),
        open=len(opened),
        pools=_part(pools, _MOST_POOLS, _pool),
        advice=_part(opened, _MOST_ADVICE, _advice),
        node_advice=_part(
            form["node_advice"],
            _MOST_NODE_ADVICE,
            lambda each: (each, first_names(each["devices"], _MOST_NAMED)),
        ),
        waiting=_part(form["waiting_work"], _MOST_WAITING, _waiting),
        teams=_part(form["teams"], _MOST_TEAMS, lambda team: team),
        sources=[each for each in form["sources"] if each["is_found"]],
        absent=", ".join(each["source"] for each in form["sources"] if not each["is_found"]),
        saved=_sum(opened, "gpus"),
        saved_dollars=_sum(opened, "dollars_per_hour"),
        team_name=partial(used_by, is_several=len(form["clusters"]) > 1),
        number=_number,
        range=lambda each: "-" if each is None else dollars(each["low"], each["high"]),
    )


def _part(rows: Sequence[_Form], most: int, row: Callable[[_Form], Any]) -> dict[str, Any]:
    """The first of a list, and how many more there are."""
    return {"rows": list(map(row, rows[:most])), "more": max(0, len(rows) - most)}


def _advice(form: _Form) -> dict[str, Any]:
    savings = form["savings"]
    low, high = savings["gpus_low"], savings["gpus_high"]
    hourly = [savings[f"dollars_per_hour_{end}"] for end in ("low", "high")]
    monthly = [None if each is None else each * HOURS_PER_MONTH for each in hourly]
    gpus = span_text(low, high)
    return {
        "id": form["id"],
        "form": form,
        "who": form["key"] or first_names(form["devices"], _MOST_NAMED),
        "saves": ""
        if low is None or high is None
        else f"saves {gpus} GPU{'' if gpus == '1' else 's'}",
        "money": "" if hourly[0] is None else f"{dollars(*monthly)} a month",
        "sure": f"{form['confidence']:.2f} ({confidence_label(form['confidence'])})",
        "steps": [(each["title"], _cut(each["text"])) for each in form["instructions"]],
    }


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_STEP:
        return text
    whole = text[:_LONGEST_STEP].rpartition("\n")[0] or text[:_LONGEST_STEP]
    return f"{whole}\n# and so on: rightsizer fleet --json has all of it"


def _pool(form: _Form) -> dict[str, Any]:
    gpus = form["gpus"] or 1.0
    return {
        "form": form,
        "held": _number(form["held_mean"]),
        "peak": _number(form["held_peak"]),
        "active": _number(form["active_mean"]),
        "waiting": _number(form["waiting_gpus"]),
        "held_width": 100.0 * min(1.0, (form["held_mean"] or 0.0) / gpus),
        "active_width": 100.0 * min(1.0, (form["active_mean"] or 0.0) / gpus),
    }


def _waiting(form: _Form) -> dict[str, Any]:
    since, steps = form["waiting_seconds"], dict[str, None]()
    pools: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for offer in form["offers"]:
        pools[offer["is_now"]][offer["pool"]] += offer["gpus"]
        for step in offer["steps"]:
            to = f" to {step['target']}" if step["target"] else ""
            named = first_names(step["workloads"], _MOST_NAMED)
            steps[f"{readable_name(step['action'])} {named}{to}"] = None
    now, after = (
        ", ".join(f"{number(gpus)} of {pool}" for pool, gpus in pools[is_now].items()) or "-"
        for is_now in (True, False)
    )
    return {
        "form": form,
        "since": "-" if since is None else format_duration(since),
        "now": now,
        "after": after,
        "steps": _cut("; ".join(steps)),
    }


def _sum(advice: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The lower bounds that add up: of advice on the same GPUs what saves most."""
    found = {each["id"]: each["savings"][f"{key}_low"] for each in advice}
    known = sorted(
        (each for each in advice if found[each["id"]] is not None),
        key=lambda each: (-found[each["id"]], each["id"]),
    )
    taken: set[str] = set()
    total = 0.0
    for each in known:
        about = {*each["devices"], each["exclusive_group"] or each["id"]}
        if taken.isdisjoint(about):
            total += found[each["id"]]
        taken |= about
    return total if known else None


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)

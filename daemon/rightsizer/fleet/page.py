"""A fleet as one HTML document: pools, waste by team, and what to do about it."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from rightsizer.fleet.answers import opened
from rightsizer.fleet.text import used_by
from rightsizer.model import units
from rightsizer.report import figures, labels
from rightsizer.report.figures import number
from rightsizer.report.labels import first_names, readable_name
from rightsizer.report.template import rendered

_MOST_NAMED: Final = 8
_LONGEST_STEP: Final = 1500
"""Characters of a step to take: a list of a thousand nodes is for JSON."""
_JsonMapping = Mapping[str, Any]


def fleet_document(answer: _JsonMapping) -> str:
    """The whole page, from what `rightsizer fleet --json` prints."""
    open_advice = opened(answer["advice"])
    return rendered(
        "fleet.html",
        {"cut": _cut},
        answer=answer,
        until=figures.moment_text(answer["time"], dt.UTC),
        opened=open_advice,
        pools=sorted(answer["pools"], key=lambda pool: (-pool["gpus"], pool["name"])),
        offered=_offered,
        steps_of=_steps_of,
        sum_of=partial(_sum, open_advice),
        team_name=partial(used_by, is_several=len(answer["clusters"]) > 1),
        number=lambda value: "-" if value is None else number(value),
        figures=figures,
        labels=labels,
        units=units,
    )


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_STEP:
        return text
    whole = text[:_LONGEST_STEP].rpartition("\n")[0] or text[:_LONGEST_STEP]
    return f"{whole}\n# and so on: rightsizer fleet --json has all of it"


def _offered(offers: Sequence[_JsonMapping], *, is_now: bool) -> str:
    pools: Counter[str] = Counter()
    for offer in offers:
        if offer["is_now"] is is_now:
            pools[offer["pool"]] += offer["gpus"]
    return ", ".join(f"{number(gpus)} of {pool}" for pool, gpus in pools.items()) or "-"


def _steps_of(offers: Sequence[_JsonMapping]) -> str:
    steps = dict.fromkeys(
        f"{readable_name(step['action'])} {first_names(step['workloads'], _MOST_NAMED)}"
        + (f" to {step['target']}" if step["target"] else "")
        for offer in offers
        for step in offer["steps"]
    )
    return _cut("; ".join(steps))


def _sum(advice: Sequence[_JsonMapping], key: str) -> float | None:
    """The lower bounds that add up: of advice on the same GPUs what saves most."""
    saves = {each["id"]: each["savings"][f"{key}_low"] for each in advice}
    known = [each for each in advice if saves[each["id"]] is not None]
    taken: set[str] = set()
    total = 0.0
    for each in sorted(known, key=lambda each: (-saves[each["id"]], each["id"])):
        about = {*each["devices"], each["exclusive_group"] or each["id"]}
        if taken.isdisjoint(about):
            total += saves[each["id"]]
        taken |= about
    return total if known else None

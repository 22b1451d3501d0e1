"""Page of a fleet: pools, waste by team, recommendations."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from rightsizer.advice.compatible import ExclusiveKey, compatible
from rightsizer.fleet.answers import opened
from rightsizer.fleet.text import used_by
from rightsizer.model import units
from rightsizer.model.finding import Savings
from rightsizer.report import figures, labels
from rightsizer.report.advice_rows import sum_known
from rightsizer.report.figures import number
from rightsizer.report.labels import HOURS_A_DAY, first_names, readable_name
from rightsizer.report.template import rendered
from rightsizer.sizing.estimate import EstimateInterval

_MOST_NAMED: Final = 8
_LONGEST_STEP: Final = 1500
"""Characters of a displayed step; JSON has longer ones in full."""
_JsonMapping = Mapping[str, Any]


def fleet_document(answer: _JsonMapping, *, has_plan_form: bool = False) -> str:
    """Render the page from the JSON of `rightsizer fleet`; a service may have more pages."""
    open_advice = opened(answer["advice"])
    combined = [each["savings"] for each in compatible(open_advice, ExclusiveKey.of_form)]
    return rendered(
        "fleet.html",
        {"cut": _cut},
        answer=answer,
        until=figures.moment_text(answer["time"], dt.UTC),
        opened=open_advice,
        pools=sorted(answer["pools"], key=lambda pool: (-pool["gpus"], pool["name"])),
        offered=_offered,
        steps_of=_steps_of,
        gpus=sum_known(each["gpus_low"] for each in combined),
        daily=_daily(combined),
        has_plan_form=has_plan_form,
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


def _daily(savings: Sequence[_JsonMapping]) -> EstimateInterval | None:
    """Return the total dollars a day; `None` without known prices."""
    low = sum_known(each["dollars_per_hour_low"] for each in savings)
    high = sum_known(each["dollars_per_hour_high"] for each in savings)
    if low is None or high is None:
        return None
    points = (Savings(**each).dollars_per_hour for each in savings)
    return EstimateInterval(sum(points), low, high).scaled(HOURS_A_DAY)

"""Page of a fleet: what it costs, what to do, waste by team, pools."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from rightsizer.advice.compatible import savings_of
from rightsizer.fleet.summary import summary_of
from rightsizer.fleet.text import by_waste, used_by
from rightsizer.model import units
from rightsizer.report import figures, labels
from rightsizer.report.figures import number
from rightsizer.report.labels import first_names, readable_name
from rightsizer.report.template import rendered, scripts

_MOST_NAMED: Final = 8
_LONGEST_STEP: Final = 1500
"""Characters of a displayed step; JSON has longer ones in full."""
_JsonMapping = Mapping[str, Any]


def fleet_document(answer: _JsonMapping, *, has_plan_form: bool = False) -> str:
    """Render the page from the JSON of `rightsizer fleet`; a service may have more pages."""
    return rendered(
        "fleet.html",
        {"cut": _cut},
        answer=answer,
        summary=summary_of(answer),
        until=figures.moment_text(answer["time"], dt.UTC),
        pools=sorted(answer["pools"], key=lambda pool: (-pool["gpus"], pool["name"])),
        offered=_offered,
        savings_of=savings_of,
        steps_of=_steps_of,
        teams=by_waste(answer["teams"]),
        has_plan_form=has_plan_form,
        team_name=partial(used_by, is_several=len(answer["clusters"]) > 1),
        number=lambda value: "-" if value is None else number(value),
        figures=figures,
        labels=labels,
        units=units,
        **scripts("tables.js"),
    )


def page_policy() -> str:
    """Return the content security policy of the page, which allows its own script alone."""
    script = scripts("tables.js")["script_hash"]
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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

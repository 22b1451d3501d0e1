"""Page of a fleet: what it costs, what to do, waste by team, pools."""

import base64
import datetime as dt
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from operator import sub
from typing import Any, Final

import msgspec

from rightsizer.advice.compatible import savings_of
from rightsizer.fleet.advice_groups import AdviceGroup
from rightsizer.fleet.answer_blocks import by_waste, used_by
from rightsizer.fleet.summary import HOUR_PARTS, summary_of
from rightsizer.model import units
from rightsizer.model.units import number_text
from rightsizer.report import figures, labels
from rightsizer.report.labels import first_names, readable_name
from rightsizer.report.template import rendered, scripts

_MOST_NAMED: Final = 8
_MOST_GROUPS: Final = 200
_LONGEST_STEP: Final = 1500
"""Characters of a displayed step; JSON has longer ones in full."""
_JsonMapping = Mapping[str, Any]


def fleet_document(
    answer: _JsonMapping, *, has_plan_form: bool = False, top: int | None = None
) -> str:
    """Render the page from the JSON of `rightsizer fleet`; a service may have more pages."""
    summary = summary_of(answer)
    most_groups = _MOST_GROUPS if top is None else min(top, _MOST_GROUPS)
    return rendered(
        "fleet.html",
        {"cut": _cut},
        answer=answer,
        summary=summary,
        until=figures.moment_text(answer["time"], dt.UTC),
        pools=sorted(answer["pools"], key=lambda pool: (-pool["gpus"], pool["name"])),
        offered=_offered,
        savings_of=savings_of,
        steps_of=_steps_of,
        teams=by_waste(answer["teams"]),
        has_plan_form=has_plan_form,
        team_name=partial(used_by, is_several=len(answer["clusters"]) > 1),
        most_groups=most_groups,
        colors=_COLORS,
        prices=_prices(answer["usage"]["total"]),
        number=lambda value: "-" if value is None else number_text(value),
        figures=figures,
        labels=labels,
        units=units,
        holdings=_packed(answer, summary.groups[:most_groups]),
        **scripts(*_SCRIPTS),
    )


def page_policy() -> str:
    """Return the content security policy of the page, which allows its own script alone."""
    script = scripts(*_SCRIPTS)["script_hash"]
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


_SCRIPTS: Final = ("tables.js", "gpus.js")
_WORDS: Final = ("cluster", "team", "pool", "node", "name", "workload")
_COLORS: Final = {
    "used": "g-working",
    "headroom": "fleet-all",
    "idle": "g-held",
    "stalled": "g-stalled",
    "lost": "g-waiting",
    "unknown": "g-no_data",
    "free": "g-free",
}
"""Classes of the parts of hours."""
_PERCENT: Final = 100.0
_MONTH: Final = re.compile(r"\d{4}-\d\d")


def _packed(answer: _JsonMapping, shown: Sequence[AdviceGroup]) -> str:
    """Return who holds which GPU for the page's script: columns in JSON, deflated, in base64.

    A name is there once; shares of the hours are whole percents, what they lack is headroom.
    """
    rows = sorted(answer["holdings"], key=lambda row: (row["node"], row["name"], row["workload"]))
    groups = [(group.pieces[0]["id"], f"{group.heading}, {group.subject}") for group in shown]
    by_uuid = {
        uuid: place
        for place, group in reversed([*enumerate(shown)])
        for piece in group.pieces
        for uuid in piece["devices"]
    }
    words = {}
    for column in _WORDS:
        names = dict.fromkeys(row[column] for row in rows)
        places = {name: place for place, name in enumerate(names)}
        at = [places[row[column]] for row in rows]
        # New names are next to the one before, so that steps are small and alike.
        words[column] = {"names": [*names], "steps": [*map(sub, at, [0, *at])]}
    whole = [sum(row[f"{part}_gpu_hours"] for part in _COLORS) or 1.0 for row in rows]
    parts = {
        part: [
            round(_PERCENT * row[f"{part}_gpu_hours"] / hours)
            for row, hours in zip(rows, whole, strict=True)
        ]
        for part in _COLORS
        if part != "headroom"
    }
    columns = {
        "words": words,
        "gpus": [round(row["gpus"], 3) for row in rows],
        "cents": [round(_PERCENT * (row["dollars_per_day"] or 0.0)) for row in rows],
        "parts": parts,
        "names": HOUR_PARTS,
        "colors": _COLORS,
        "groups": groups,
        # The place of a group that the page has, else -1.
        "advice": [by_uuid.get(row["uuid"], -1) for row in rows],
    }
    return base64.b64encode(zlib.compress(msgspec.json.encode(columns), 9)).decode()


def _prices(total: _JsonMapping) -> str:
    """Return whose prices those of an answer are, and of when."""
    if not total["price_basis"]:
        return "No price is known."
    months = sorted(_MONTH.findall(total["price_date"]))
    when = f" of {' to '.join(dict.fromkeys((months[0], months[-1])))}" if months else ""
    return f"At {total['price_basis'].replace('; ', ' and ')}{when}."


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
    return ", ".join(f"{number_text(gpus)} of {pool}" for pool, gpus in pools.items()) or "-"


def _steps_of(offers: Sequence[_JsonMapping]) -> str:
    steps = dict.fromkeys(
        f"{readable_name(step['action'])} {first_names(step['workloads'], _MOST_NAMED)}"
        + (f" to {step['target']}" if step["target"] else "")
        for offer in offers
        for step in offer["steps"]
    )
    return _cut("; ".join(steps))

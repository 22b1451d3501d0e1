"""Telemetry beside a profile as people read it, in the terminal and in the report alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rightsizer.publish.report.figures import percent
from rightsizer.publish.report.profile_figures import time_text

__all__ = ["BesideView", "beside"]

_Form = Mapping[str, Any]
_MOST_STATES: Final = 3


@dataclass(frozen=True, slots=True)
class BesideView:
    """One device of a profile."""

    title: str
    details: Sequence[str]
    contradictions: Sequence[str]
    agreements: Sequence[str]


def beside(form: _Form | None) -> tuple[BesideView, ...]:
    """Every device with what telemetry says of it; none where no history was looked at."""
    if form is None:
        return ()
    return tuple(_view(each, form["workload"]) for each in form["devices"])


def _view(form: _Form, workload: str | None) -> BesideView:
    told = form["comparisons"]
    return BesideView(
        title=_title(form),
        details=_details(form, workload),
        contradictions=[each["text"] for each in told if each["is_contradiction"]],
        agreements=[each["text"] for each in told if not each["is_contradiction"]],
    )


def _title(form: _Form) -> str:
    if form["uuid"] is None:
        return f"{form['key']}: {form['unmatched']}"
    note = f" ({form['note']})" if form["note"] else ""
    told = f"told by {form['matched_by']}{note}"
    name = f"{form['key']}: GPU {form['index']} of the node, {form['uuid']}, {told}"
    return f"{name}: {form['unmatched']}" if form["unmatched"] else name


def _details(form: _Form, workload: str | None) -> list[str]:
    telemetry = form["telemetry"]
    if telemetry is None:
        return []
    holder = telemetry["workload"] or workload
    held = f", held by {holder}" if holder and holder != form["uuid"] else ""
    ours, theirs = (
        f"{time_text(each['end'] - each['start'])} from {_time(each['start'])}"
        for each in (form, telemetry)
    )
    active = f"active for {time_text(telemetry['active_seconds'])}"
    return [
        f"the profile: {ours}{held}",
        f"telemetry: {theirs}, {active}{_states(telemetry)}",
    ]


def _states(telemetry: _Form) -> str:
    shares = sorted(telemetry["states"].items(), key=lambda each: (-each[1], each[0]))
    told = [f"{state.replace('_', ' ')} {percent(share)}" for state, share in shares[:_MOST_STATES]]
    told += [
        f"{condition.replace('_', ' ')} {percent(share)}"
        for condition, share in telemetry["conditions"].items()
    ]
    return f", of that {', '.join(told)}" if told else ""


def _time(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

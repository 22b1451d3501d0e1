"""The report as one HTML document that needs nothing else: no script, no font, no network."""

import datetime as dt
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from rightsizer.domain.advice import OPEN_STATES, AdviceState
from rightsizer.publish.report.figures import dollars, moment_text
from rightsizer.publish.report.html_views import (
    cause_views,
    cell_text,
    days_chart,
    device_views,
    resources_of,
    workload_views,
)
from rightsizer.publish.report.method import method
from rightsizer.publish.report.model import ReportModel
from rightsizer.publish.report.period import kinds_text, period_text
from rightsizer.publish.report.story import saved_text, story
from rightsizer.publish.report.template import rendered
from rightsizer.publish.report.words import (
    ACTIONS,
    CONDITIONS,
    GROUP_MEANINGS,
    GROUP_NAMES,
    GROUPS,
    RESOURCES,
    STATES,
)

__all__ = ["html_document"]

MOST_ROWS: Final = 50
"""Of workloads and of outcomes, so that a document stays small; JSON has all."""


def html_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it."""
    words: Mapping[str, Any] = {
        "actions": ACTIONS,
        "conditions": CONDITIONS,
        "ended": [state for state in AdviceState if state not in OPEN_STATES],
        "group_meanings": GROUP_MEANINGS,
        "group_names": GROUP_NAMES,
        "groups": GROUPS,
        "resource_names": RESOURCES,
        "states": STATES,
    }
    return rendered(
        "report.html",
        {"moment": partial(moment_text, timezone=timezone)},
        model=model,
        when=period_text(model.span, timezone),
        kinds=kinds_text(model),
        story=list(story(model)),
        method=list(method(model)),
        saved_text=saved_text,
        dollars=dollars,
        days_chart=days_chart(model),
        cell_text=cell_text(model),
        device_views=device_views(model),
        cause_views=cause_views(model),
        workload_views=workload_views(model)[:MOST_ROWS],
        more_workloads=len(model.workloads) > MOST_ROWS,
        outcomes=model.outcomes[:MOST_ROWS],
        more_outcomes=len(model.outcomes) > MOST_ROWS,
        resources=resources_of(model),
        **words,
    )

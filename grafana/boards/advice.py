"""What the agents advise, what it would save, what became of it, and what they did on it."""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.colors import GREEN
from grafana.links import Board
from grafana.panels import GPU_HOURS, Panel, bars, lines, number, words
from grafana.queries import BY_ADVICE, cells, growth, now, over, select
from grafana.scales import ATTENTION, CONFIDENCE, Scale
from grafana.sections.advice import advice_table
from grafana.tables import Column, rows, sorted_by

__all__ = ["advice_board"]

_SAVED: Final = Scale(GREEN)
_OUTCOMES: Final = "rightsizer_advice_outcomes_total"
_WORDS: Final = """\
**Confidence** is the calibrated probability that the finding is true. **Risk** is the upper bound \
of the share of 5-minute blocks that would not fit after acting; where it is not known, the field \
is empty. **Savings** are what acting would free at the least.

Advice is *claimed*, *snoozed* or *dismissed* with the agent's commands of these names; it closes \
by itself when its cause is gone. The agent looks back a while later: *succeeded* is advice that \
paid off, *regressed* came back. `rightsizer explain ID` tells all about one piece of it.

Orange marks on every dashboard are these pieces of advice.
"""


def advice_board() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.ADVICE,
        "Advice",
        "What the agents advise, how sure they are, what it would save, and what became of it.",
        (
            Section("Open", (*_numbers(), advice_table().height(10))),
            Section("What it is about", (*_kinds(), _explanation())),
            Section("What became of it", _outcomes()),
            Section("What agents did on it", _done()),
            Section("The recommender", _recommender(), is_folded=True),
        ),
    )


def _numbers() -> list[Panel]:
    known = f"max by ({BY_ADVICE}) ({select('rightsizer_advice_info')})"
    shown = f"and on ({BY_ADVICE}) {known}"
    gpus = f"{select('rightsizer_advice_savings_gpus')} {shown}"
    dollars = f"{select('rightsizer_advice_savings_dollars_per_hour')} {shown}"
    sure = f"{select('rightsizer_advice_confidence_ratio')} {shown}"
    age = f"time() - min({select('rightsizer_advice_opened_timestamp_seconds')})"
    return [
        number(
            "Open advice",
            "Pieces of advice that still ask for something.",
            "short",
            over(f"sum({select('rightsizer_advice_open')})"),
            ATTENTION,
        ),
        number(
            "GPUs to be freed",
            "If all of it were followed, at the least.",
            "short",
            over(f"sum({gpus})"),
            _SAVED,
        )
        .decimals(1)
        .no_value("None said"),
        number(
            "Dollars an hour to be saved",
            "If all of it were followed, at the least, by the agents' prices.",
            "currencyUSD",
            over(f"sum({dollars})"),
            _SAVED,
        ).no_value("No prices known"),
        number(
            "Surest",
            "Highest confidence of any open advice.",
            "percentunit",
            over(f"max({sure})"),
            CONFIDENCE,
        )
        .decimals(0)
        .no_value("No open advice"),
        number(
            "Oldest", "For how long the oldest open advice has waited.", "s", over(age)
        ).no_value("No open advice"),
        number(
            "Realized",
            "GPU-hours that advice which was acted on was seen to save, as far back as the agents "
            "remember.",
            GPU_HOURS,
            over(f"sum({select('rightsizer_advice_realized_gpu_seconds')}) / 3600"),
            _SAVED,
        )
        .decimals(1)
        .no_value("None seen yet"),
    ]


def _kinds() -> list[Panel]:
    def pieces(label: str) -> str:
        told = select("rightsizer_advice_info")
        return f"sort_desc(count by ({label}) (count by ({BY_ADVICE}, {label}) ({told})))"

    return [
        bars(
            "By reason",
            "Open pieces of advice by why they were given.",
            "short",
            now(pieces("reason"), "{{reason}}"),
        ).no_value("No open advice"),
        bars(
            "By action",
            "Open pieces of advice by what they ask for.",
            "short",
            now(pieces("action"), "{{action}}"),
        ).no_value("No open advice"),
    ]


def _explanation() -> Panel:
    return words(
        "What the words mean", "Confidence, risk, savings, and how advice is dealt with.", _WORDS
    ).span(8)


def _outcomes() -> list[Panel]:
    closed = f"sum by (reason, outcome) ({growth(_OUTCOMES, span='$__range')}) > 0"
    panel = rows(
        "Outcomes",
        "Advice closed over the time range, by its reason and by how it ended.",
        (Column("reason"), Column("outcome"), Column("A", "pieces", "short", 0)),
        cells(closed),
    )
    return [
        sorted_by(panel, "pieces").span(12).no_value("No advice was closed"),
        lines(
            "Outcomes over time",
            "Pieces of advice closed in each step, by how they ended.",
            "short",
            over(f"sum by (outcome) ({growth(_OUTCOMES)})", "{{outcome}}"),
        ).no_value("No advice was closed"),
        bars(
            "Realized by rule",
            "GPU-hours that advice which was acted on was seen to save.",
            GPU_HOURS,
            now(
                f"sum by (rule) ({select('rightsizer_advice_realized_gpu_seconds')}) / 3600",
                "{{rule}}",
            ),
            _SAVED,
        )
        .span(12)
        .no_value("None seen yet"),
        lines(
            "Open advice over time",
            "Pieces of advice that were open, by node.",
            "short",
            over(select("rightsizer_advice_open"), "{{instance}}"),
        ),
    ]


def _done() -> list[Panel]:
    captures, actions = "rightsizer_captures_total", "rightsizer_actions_total"
    return [
        lines(
            "Profiles called for",
            "Profiles that agents called for to settle a finding, in each step, by how that ended: "
            "one landed, or none came of it and why.",
            "short",
            over(f"sum by (outcome) ({growth(captures)})", "{{outcome}}"),
        ).no_value("No one is called for profiles (profiles.capture)"),
        lines(
            "Actions",
            "What came of actions on advice in each step, by action: done, failed, or not done and "
            "why.",
            "short",
            over(f"sum by (action, outcome) ({growth(actions)})", "{{action}} {{outcome}}"),
        ).no_value("No action is configured (actions)"),
    ]


def _recommender() -> list[Panel]:
    last = select("rightsizer_recommender_last_success_timestamp_seconds")
    return [
        lines(
            "Age of the advice",
            "Time since the recommender last succeeded.",
            "s",
            over(f"time() - {last}", "{{instance}}"),
        ),
        lines(
            "Findings",
            "Complaints of each run, by reason; not each lasts long enough to become advice.",
            "short",
            over(f"sum by (reason) ({select('rightsizer_recommender_findings')})", "{{reason}}"),
        ),
        lines(
            "Abstentions",
            "Verdicts that a run would not give, by why.",
            "short",
            over(f"sum by (reason) ({select('rightsizer_recommender_abstentions')})", "{{reason}}"),
        ),
        lines(
            "Runs that failed",
            "Runs of the recommender that failed or were left out.",
            "short",
            over(growth("rightsizer_recommender_failures_total"), "{{instance}} failed"),
            over(
                growth("rightsizer_recommender_skipped_total"), "{{instance}} left out", letter="B"
            ),
        ),
    ]

"""What the agents advise, what it would save, what became of it, and what they did on it."""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.colors import GREEN
from grafana.links import Board
from grafana.panels import GPU_HOURS, Panel, bars, lines, number, readable, words
from grafana.queries import BY_ADVICE, cells, growth, now, over, select
from grafana.scales import ATTENTION, CONFIDENCE, Scale
from grafana.sections.to_do import REASONS, advice_table, to_do
from grafana.tables import Column, rows, sorted_by
from rightsizer.report.labels import ACTION_LABELS, HOURS_A_DAY

__all__ = ["advice_board"]

_SAVED: Final = Scale(GREEN)
_OUTCOMES: Final = "rightsizer_advice_outcomes_total"
_WORDS: Final = """\
**Confidence** is the calibrated probability that the finding is true. **Risk** is the upper bound \
of the share of 5-minute blocks that would not fit after acting; empty if unknown. **Savings** are \
what is expected, at median prices; low and high bound them by price and use.

*Claim*, *snooze* or *dismiss* a recommendation with the commands of these names; it closes \
by itself (*expired*) when its cause is gone. What was claimed or changed is compared before and \
after: *succeeded* paid off, *regressed* came back. `rightsizer explain ID` has the reasoning.
"""


def advice_board() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.ADVICE,
        "Recommendations",
        "Recommendations: confidence, savings, outcomes.",
        (
            Section("What to do", (*to_do(), *_numbers())),
            Section("Open recommendations", (advice_table().height(10), *_kinds(), _explanation())),
            Section("Outcomes", _outcomes()),
            Section("Captures and actions", _done()),
            Section("The recommender", _recommender(), is_folded=True),
        ),
    )


def _numbers() -> list[Panel]:
    known = f"max by ({BY_ADVICE}) ({select('rightsizer_advice_info')})"
    shown = f"and on ({BY_ADVICE}) {known}"
    gpus = select("rightsizer_advice_combined_savings_gpus")
    dollars = select("rightsizer_advice_combined_savings_dollars_per_hour")
    sure = f"{select('rightsizer_advice_confidence_ratio')} {shown}"
    age = f"time() - min({select('rightsizer_advice_opened_timestamp_seconds')})"
    return [
        number(
            "Open recommendations",
            "Open recommendations.",
            "short",
            over(f"sum({select('rightsizer_advice_open')})"),
            ATTENTION,
        ),
        number(
            "GPUs freed",
            "Expected if all that add up are applied.",
            "short",
            over(f"sum({gpus})"),
            _SAVED,
        )
        .decimals(1)
        .no_value("None said"),
        number(
            "Savings a day",
            "Expected if all that add up are applied, at the agents' median prices.",
            "currencyUSD",
            over(f"{HOURS_A_DAY:g} * sum({dollars})"),
            _SAVED,
        ).no_value("No prices known"),
        number(
            "Highest confidence",
            "Of the open recommendations.",
            "percentunit",
            over(f"max({sure})"),
            CONFIDENCE,
        )
        .decimals(0)
        .no_value("No open recommendations"),
        number("Oldest", "Age of the oldest open recommendation.", "s", over(age)).no_value(
            "No open recommendations"
        ),
        number(
            "Realized",
            "Verified savings in GPU-hours, as far back as the agents remember.",
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
        readable(
            bars(
                "By reason",
                "Open recommendations by reason.",
                "short",
                now(pieces("reason"), "{{reason}}"),
            ),
            REASONS,
        ).no_value("No open recommendations"),
        readable(
            bars(
                "By action",
                "Open recommendations by action.",
                "short",
                now(pieces("action"), "{{action}}"),
            ),
            ACTION_LABELS,
        ).no_value("No open recommendations"),
    ]


def _explanation() -> Panel:
    return words("Terms", "Confidence, risk, savings, states.", _WORDS).span(8)


def _outcomes() -> list[Panel]:
    closed = f"sum by (reason, outcome) ({growth(_OUTCOMES, span='$__range')}) > 0"
    panel = rows(
        "Outcomes",
        "Recommendations closed over the time range, by reason and outcome.",
        (Column("reason", words=REASONS), Column("outcome"), Column("A", "pieces", "short", 0)),
        cells(closed),
    )
    return [
        sorted_by(panel, "pieces").span(12).no_value("No recommendation was closed"),
        lines(
            "Outcomes over time",
            "Recommendations closed in each step, by outcome.",
            "short",
            over(f"sum by (outcome) ({growth(_OUTCOMES)})", "{{outcome}}"),
        ).no_value("No recommendation was closed"),
        bars(
            "Realized by rule",
            "Verified savings in GPU-hours.",
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
            "Open recommendations over time",
            "Open recommendations by node.",
            "short",
            over(select("rightsizer_advice_open"), "{{instance}}"),
        ),
    ]


def _done() -> list[Panel]:
    captures = "rightsizer_captures_total"
    actions = "rightsizer_actions_total"
    return [
        lines(
            "Profile captures",
            "Captures in each step, by outcome.",
            "short",
            over(f"sum by (outcome) ({growth(captures)})", "{{outcome}}"),
        ).no_value("Captures are off (profiles.capture)"),
        lines(
            "Actions",
            "Actions in each step, by action and outcome.",
            "short",
            over(f"sum by (action, outcome) ({growth(actions)})", "{{action}} {{outcome}}"),
        ).no_value("No action is configured (actions)"),
    ]


def _recommender() -> list[Panel]:
    last = select("rightsizer_recommender_last_success_timestamp_seconds")
    return [
        lines(
            "Age of the recommendations",
            "Time since the recommender last succeeded.",
            "s",
            over(f"time() - {last}", "{{instance}}"),
        ),
        lines(
            "Findings",
            "Complaints of each run, by reason; those that last become recommendations.",
            "short",
            over(f"sum by (reason) ({select('rightsizer_recommender_findings')})", "{{reason}}"),
        ),
        lines(
            "Abstentions",
            "Rules that could not judge in a run, by reason.",
            "short",
            over(f"sum by (reason) ({select('rightsizer_recommender_abstentions')})", "{{reason}}"),
        ),
        lines(
            "Failed runs",
            "Failed and skipped runs.",
            "short",
            over(growth("rightsizer_recommender_failures_total"), "{{instance}} failed"),
            over(
                growth("rightsizer_recommender_skipped_total"), "{{instance}} left out", letter="B"
            ),
        ),
    ]

"""What to do, dearest first, beside the alerts that fire."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from grafana.links import Board, of_agent, of_row
from grafana.panels import Panel
from grafana.queries import BY_ADVICE, cells, select
from grafana.scales import CONFIDENCE
from grafana.tables import Column, rows, sorted_by
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.report.labels import HOURS_A_DAY, action_label, reason_label

__all__ = ["REASONS", "Source", "advice_table", "to_do"]

_INFO: Final = "rightsizer_advice_info"
_CHANGE: Final = f"{Action.CHANGE_GPU_TYPE}/{FindingKind.UNDERPROVISIONED}"
_ACTIONS: Final = {
    _CHANGE: action_label(Action.CHANGE_GPU_TYPE, FindingKind.UNDERPROVISIONED),
    **{f"{each}/.*": action_label(each, "") for each in Action},
}
REASONS: Final = {each: reason_label(each) for each in Reason}
_NOTHING: Final = "No open recommendations"
_WHERE: Final = (
    Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid"), width=50),
    Column("instance", "node", link=of_row(Board.NODE, instance="node"), width=135),
    Column("namespace", "owner", width=80),
    Column("holder", "workload", link=of_row(Board.WORKLOAD, workload="key"), width=125),
    Column("do", "do", words=_ACTIONS, width=175),
    Column(
        "reason",
        "because",
        words=REASONS,
        link=of_agent("The sentence, as JSON", "api/v1/advice/${__data.fields.evidence}"),
    ),
)
_LINKED: Final = (Column("uuid", is_hidden=True), Column("workload", "key", is_hidden=True))
_STATE: Final = Column("state", width=65)
_UNREAD: Final = ("Value #B", "action", "finding", "severity")
_EVIDENCE: Final = Column(
    "id",
    "evidence",
    link=of_agent("Evidence and claim", "#advice-${__data.fields.evidence}"),
    width=108,
)


class Source(Struct, frozen=True):
    """Where recommendations are exported."""

    info: str
    """Query of `rightsizer_advice_info`."""
    figure: Callable[[str], str]
    """Query of a figure by the end of its name."""

    @property
    def told(self) -> str:
        """One series for each recommendation, with its workload's name and with what to do."""
        first = f"topk by ({BY_ADVICE}) (1, {self.info})"
        named = f'label_replace({first}, "holder", "$1", "workload", "(?:.*(?::|/))?(.+)")'
        return f'label_join({named}, "do", "/", "action", "finding")'

    def of(self, name: str) -> str:
        """A figure of what is chosen."""
        known = f"group by ({BY_ADVICE}) ({self.info})"
        return f"sum by ({BY_ADVICE}) ({self.figure(name)} and on ({BY_ADVICE}) {known})"

    def daily(self, bound: str = "") -> str:
        """Savings in dollars a day, as on the page."""
        return f"{HOURS_A_DAY:g} * {self.of(f'savings_{bound}dollars_per_hour')}"


_NODES: Final = Source(select(_INFO), lambda name: select(f"rightsizer_advice_{name}"))


def to_do(source: Source = _NODES) -> list[Panel]:
    """For the top of a board."""
    panel = rows(
        "What to do",
        "Dearest first, by the money that acting is expected to save a day. Evidence opens the "
        "agent's page, where it can be claimed.",
        (*_WHERE, Column("A", "a day", "currencyUSD", 0, width=60), _STATE, _EVIDENCE, *_LINKED),
        cells(source.daily()),
        cells(source.told, letter="B"),
        hidden=_UNREAD,
    )
    return [sorted_by(panel, "a day").span(19).no_value(_NOTHING), firing()]


def advice_table(source: Source = _NODES) -> Panel:
    """All that is known of each."""
    panel = rows(
        "Recommendations",
        "Dearest first, by the money that acting is expected to save a day; low and high are its "
        "bounds, by price and use.",
        (
            *_WHERE,
            Column("A", "a day", "currencyUSD", 0, width=60),
            Column("C", "low", "currencyUSD", 0, width=60),
            Column("D", "high", "currencyUSD", 0, width=60),
            Column("E", "GPUs", "short", 1, width=55),
            Column("F", "confidence", "percentunit", 0, CONFIDENCE, width=90),
            _STATE,
            _EVIDENCE,
            Column("severity", width=70),
            Column("G", "risk", "percentunit", 0, width=60),
            Column("H", "opened", "dateTimeFromNow"),
            *_LINKED,
        ),
        cells(source.daily()),
        cells(source.told, letter="B"),
        cells(source.daily("low_"), letter="C"),
        cells(source.daily("high_"), letter="D"),
        cells(source.of("savings_gpus"), letter="E"),
        cells(source.of("confidence_ratio"), letter="F"),
        cells(source.of("risk_ratio"), letter="G"),
        cells(f"1000 * {source.of('opened_timestamp_seconds')}", letter="H"),
        hidden=_UNREAD,
    )
    return sorted_by(panel, "a day").no_value(_NOTHING)


def firing() -> Panel:
    """The alerts that fire now, those of no node too."""
    chosen = 'cluster=~"$cluster", instance=~"$instance|"'
    alerts = f'ALERTS{{alertstate="firing", alertname=~"Rightsizer.+", {chosen}}}'
    told = f'label_replace({alerts}, "alert", "$1", "alertname", "Rightsizer(.+)")'
    panel = rows(
        "Firing alerts",
        "Alerts of config/prometheus/alerts.yaml, as Prometheus evaluates them.",
        (
            Column("alert", link=of_row(Board.NODE, instance="node"), width=165),
            Column("instance", "node"),
        ),
        cells(f"group by (alert, instance) ({told})"),
        hidden=("Value",),
    )
    return panel.span(5).no_value("No alert fires")

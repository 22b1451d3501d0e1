"""Faulty rules and sinks: each costs its own part of a run, never the run."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from advice_node import AdviceNode, NodeServices, Sink, advice_node
from rightsizer.advice.rules import idle
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.advice import AdviceEvent
from rightsizer.model.finding import Finding

__all__ = ["advice_node"]


def _divide(subject: CaseSubject, settings: idle.IdleSettings) -> Finding:
    del settings
    raise ZeroDivisionError(f"nothing is known of {subject.case.key}")


BROKEN = Rule("broken", idle.RULE.settings, _divide, opening_policy_with=idle.conduct)


class BrokenSink:
    """A sink with a full disk."""

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Ignore the event."""

    def deliver(self) -> None:
        """Fail."""
        raise OSError("no space left")


def services_of(
    advice_node: AdviceNode, rules: Sequence[Rule[idle.IdleSettings]], *sinks: BrokenSink | Sink
) -> NodeServices:
    """Services over the node's accounts."""
    return NodeServices(
        advice_node.accounting, advice_node.storage, advice_node.clock, sinks, rules
    )


def test_a_rule_that_raises_is_logged_and_counted_and_the_others_advise(
    advice_node: AdviceNode,
) -> None:
    """With its traceback and the workload it was judging."""
    advice_node.hold_idle(0, 91)
    services = services_of(advice_node, (BROKEN, idle.RULE))
    with capture_logs() as logs:
        services.advice_service.recommend()
    (entry,) = (log for log in logs if log["event"] == "rule_failed")
    assert (entry["rule"], entry["workload"], entry["log_level"]) == (
        "broken",
        "slurm/ana",
        "error",
    )
    assert isinstance(entry["exc_info"], ZeroDivisionError)
    assert services.failures == {"broken": 1}
    assert [each.finding.rule for each in services.advice_service.advice] == ["idle"]
    (silent,) = (
        judgement
        for judgement in services.recommender.judgements
        if judgement.finding.rule == "broken"
    )
    assert silent.finding.abstained is not None


def test_advice_of_a_rule_that_fails_later_stays_open(advice_node: AdviceNode) -> None:
    """Without a judgement it is neither over nor absent."""
    advice_node.hold_idle(0, 91)
    services_of(advice_node, (idle.RULE,)).advice_service.recommend()
    advice_node.hold_idle(91, 400)
    later = services_of(advice_node, (replace(idle.RULE, judge_with=_divide),)).advice_service
    later.recommend()
    (advice,) = later.advice
    assert advice.is_open


def test_a_sink_that_fails_keeps_no_other_waiting(advice_node: AdviceNode) -> None:
    """The job still fails, so that the error is noticed."""
    with pytest.raises(OSError, match="no space left"):
        services_of(advice_node, (), BrokenSink(), advice_node.sink).advice_service.deliver()
    assert advice_node.sink.deliveries == 1

"""Who is told of the fleet's advice hears nothing twice."""

from collections.abc import Sequence

from rightsizer.domain.advice import AdviceEvent
from rightsizer.runtime.advice_desk import EventSink
from rightsizer.runtime.fleet.judge import FleetJudge

__all__ = ["Unrepeated"]


class Unrepeated:
    """A sink that is not told of advice which a node's own agent exports, and tells of itself."""

    def __init__(self, sink: EventSink, judge: FleetJudge) -> None:
        self._sink, self._judge = sink, judge

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Pass on what is the fleet's own."""
        told = self._judge.told_by_nodes
        own = [event for event in events if event.advice.finding.id not in told]
        if own:
            self._sink.offer(own)

    def deliver(self) -> object:
        """Let it send what waits."""
        return self._sink.deliver()

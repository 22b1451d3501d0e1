"""What one look at an estate came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rightsizer.advice.judgement import Judgement
from rightsizer.domain.advice import Advice
from rightsizer.domain.finding import Finding
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.cases.judging import Tally
from rightsizer.fleet.estate import NodeAdvice, Waiting
from rightsizer.fleet.pools.brokerage import Served
from rightsizer.fleet.prometheus.use import StoreUse
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.teams import TeamUse
from rightsizer.fleet.view import EstateView

__all__ = ["FleetAnswer"]


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """One look at an estate."""

    time: Nanoseconds
    """Wall time that is looked back from."""
    lookback_seconds: float
    sources: tuple[SourceReport, ...]
    view: EstateView
    judgements: tuple[Judgement, ...] = ()
    """Those that complain, and those on what is open; all where that was asked for."""
    tallies: Mapping[Tally, int] = field(default_factory=dict)
    """How many verdicts there were of each kind."""
    node_advice: tuple[NodeAdvice, ...] = ()
    """What the nodes' own agents advise beside; the fleet neither repeats nor annotates it."""
    waiting: tuple[Waiting, ...] = ()
    served: tuple[Served, ...] = ()
    """What each of those could get, the longest waiting first."""
    advice: tuple[Advice, ...] = ()
    """The ledger's, open first."""
    teams: tuple[TeamUse, ...] = ()
    use: StoreUse = field(default_factory=StoreUse)
    """What it cost the store."""
    notes: tuple[str, ...] = ()
    """What limits the answer, a sentence each."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdicts of the judgements."""
        return tuple(each.finding for each in self.judgements)

"""One run of the rules over the accounts, and what is told of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

from rightsizer.advice.judgement import Judgement
from rightsizer.advice.measurement import Measured, measure_all
from rightsizer.advice.recommender import Cases, judge_all
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.advice import Advice
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.policy import Guidance
from rightsizer.runtime.profile_desk import ProfileDesk
from rightsizer.runtime.rule_faults import RuleFaults

__all__ = ["Recommender", "Run", "Verdicts"]


@dataclass(frozen=True, slots=True)
class Run:
    """How a run went."""

    time: Nanoseconds
    """Wall time when it began."""
    duration_seconds: float
    judgements: Mapping[str, int]
    """How many, by rule."""
    abstentions: Mapping[str, int]
    """How many of them would not say, by reason."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a run came to, for the ledger."""

    time: Nanoseconds
    """Wall time."""
    judgements: tuple[Judgement, ...]
    measured: Measured
    """Looks back from that time; it holds on to the accounts' windows."""


class Recommender:
    """Runs the rules; the last run stays up for whoever asks. One run at a time."""

    def __init__(  # noqa: PLR0913 - who knows, who judges, and what was said before.
        self,
        accountant: Accountant,
        rules: Sequence[Rule[Any]],
        guidance: Guidance,
        clock: Clock,
        *,
        profiles: ProfileDesk | None = None,
        advice: Callable[[], Sequence[Advice]] = tuple,
    ) -> None:
        """Nothing was said yet.

        Args:
            accountant: Knows what the devices did.
            rules: Who judges that.
            guidance: What operators say of it.
            clock: Of the runs.
            profiles: What profilers saw of the workloads, if anybody took note of that.
            advice: All that the ledger has.
        """
        self._accountant, self._clock = accountant, clock
        self._profiles, self._advice = profiles, advice
        self._judges = (tuple(rules), guidance)
        self.faults = RuleFaults()
        self.judgements: tuple[Judgement, ...] = ()
        self.last_run: Run | None = None

    def change(self, rules: Sequence[Rule[Any]], guidance: Guidance) -> None:
        """Judge by other rules and policies from the next run on."""
        self._judges = (tuple(rules), guidance)

    def run(self, open_now: AbstractSet[tuple[str, str]]) -> Verdicts:
        """What every rule says of every workload, by the policies.

        Args:
            open_now: Workload key and rule of the advice that is open.
        """
        rules, guidance = self._judges
        now, began = self._clock.wall_time(), self._clock.time()
        cases: Cases = cache(self._accountant.look(now).cases)
        found = judge_all(cases, rules, open_now, guidance.tuned, self.faults.note)
        found = guidance.withheld(self._with_profiles(found, open_now, now), now)
        self.judgements = found
        self.last_run = Run(
            time=now,
            duration_seconds=seconds(self._clock.time() - began),
            judgements=Counter(judgement.finding.rule for judgement in found),
            abstentions=Counter(
                str(judgement.finding.reasons[0])
                for judgement in found
                if judgement.finding.abstained is not None
            ),
        )
        return Verdicts(now, found, cache(lambda span: measure_all(cases(span))))

    def _with_profiles(
        self,
        found: tuple[Judgement, ...],
        open_now: AbstractSet[tuple[str, str]],
        now: Nanoseconds,
    ) -> tuple[Judgement, ...]:
        """What profiles say beside it; a fault there keeps no rule from being heard."""
        if self._profiles is None:
            return found
        try:
            return self._profiles.beside(found, open_now, now, self._advice())
        except Exception as error:  # noqa: BLE001 - whatever a profile has led to.
            self.faults.note("profiles", "", error)
            return found

"""Time shares of an observation or of a limit, the basis of most rules."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Annotated, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.board_status import abstain_unobserved, is_not_observed, metrics_of
from rightsizer.advice.confidence import direct_factors, opposite_factors
from rightsizer.advice.market import Market
from rightsizer.advice.risk import probability_above
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.screen import (
    ROUNDING,
    Column,
    Screen,
    Settled,
    SubjectTable,
    left,
    too_little,
    unmeasured,
    well,
)
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    BLOCK_SPAN,
    CONSTANT,
    Case,
    Cause,
    Condition,
    Device,
    Finding,
    Nanoseconds,
    Observation,
    Reason,
    Resource,
    Risk,
    Savings,
    Signal,
    State,
    Tier,
    Window,
    format_duration,
    percent_text,
    seconds,
)

_CAUSES: Final = {
    State.HIDDEN_STALL: Cause.STALLED,
    State.STORAGE_BOUND: Cause.STORAGE,
    State.HOST_BOUND: Cause.HOST,
    State.PCIE_BOUND: Cause.PCIE,
    State.LAUNCH_BOUND: Cause.LAUNCH,
}
_UNATTRIBUTED: Final = 0.5
"""Below half, the best hypothesis is no better than all others together."""
_NAMED_CAUSES: Final = 2
_MEDIAN: Final = 0.5


def lost_share(window: Window, state: State) -> float:
    """Share of the known time lost to a limit.

    All of a limited second counts if its usage is unknown. Accounting treats a saturated link as
    well used, and what a small kernel leaves as headroom, so PCIe and launches count the compute
    that waits for them instead.
    """
    if state in {State.PCIE_BOUND, State.LAUNCH_BOUND}:
        # Median over the active time; 0 if unknown.
        used = window.compute_at_least.quantile(_MEDIAN)
        if used is None and Resource.COMPUTE in window.demands:
            used = window.demands[Resource.COMPUTE].quantile(_MEDIAN)
        return window.share(state) * (1.0 - (used or 0.0))
    if not window.waste_seconds or window.known_seconds <= 0.0:
        return window.share(state)
    return min(1.0, window.waste_seconds.get(_CAUSES[state], 0.0) / window.known_seconds)


def lost_gpus(case: Case, state: State) -> float:
    """Time that the workload lost to a limit, in GPUs."""
    return sum(
        lost_share(window, state) * device.capacity_ratio
        for window, device in zip(case.windows, case.devices, strict=True)
    )


def saved_at_most(case: Case, market: Market, state: State) -> Savings:
    """Savings of a fix: from nothing up to all of the loss."""
    capacity = case.gpus
    share = lost_gpus(case, state) / capacity if capacity else 0.0
    return release_savings(case, market, 0.0, min(1.0, share))


def _losses(case: Case) -> list[tuple[State, float]]:
    return sorted(((state, lost_gpus(case, state)) for state in _CAUSES), key=lambda loss: -loss[1])


def hypotheses(case: Case) -> dict[str, float]:
    """Two largest causes of loss as shares of the total, best first.

    Preceded by `unattributed` if the best holds less than half.
    """
    losses = _losses(case)
    if (whole := sum(lost for _, lost in losses)) <= 0.0:
        return {}
    best = losses[0][1] / whole
    unattributed = {"unattributed": round(1.0 - best, 3)} if best < _UNATTRIBUTED else {}
    named = {str(state): round(lost / whole, 3) for state, lost in losses[:_NAMED_CAUSES] if lost}
    return unattributed | named


def attribution(case: Case, state: State) -> float:
    """Share that one limit has of all that the workload lost to limits; 1 without a loss."""
    losses = dict(_losses(case))
    whole = sum(losses.values())
    return losses[state] / whole if whole > 0.0 else 1.0


def strongest(case: Case) -> State | None:
    """Limit that the workload lost most time to, or `None`."""
    state, lost = _losses(case)[0]
    return state if lost > 0.0 else None


def limit_of(window: Window) -> State | None:
    """Limit other than a stall of most of a device's active time, or `None`."""
    times = {state: window.states.get(state, 0) for state in _CAUSES}
    del times[State.HIDDEN_STALL]
    best = max(times, key=lambda state: times[state])
    return best if times[best] > _UNATTRIBUTED * window.active else None


_WHOLE: Final = 0.9
"""Share of the known time that may be treated as all of it."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
WITH_POWER: Final = frozenset({Tier.PROFILING, Tier.POWER})
_ANY_TIER: Final = frozenset({Tier.PROFILING, Tier.POWER, Tier.BASIC})


class TimeShare(Struct, frozen=True):
    """Positive observation on some device."""

    subject: CaseSubject
    shares: Mapping[str, float]
    """Share of each device's time with the observation, by uuid."""
    devices: tuple[Device, ...]
    """Devices above the threshold."""
    factors: dict[str, float]
    evidence: dict[str, object]
    summary: str
    """`GPU 3 of llama: bound by launches 71% of the last 6 h`, without a period; for active time
    `71% of 5 h of activity`."""

    @property
    def gpus(self) -> float:
        """Observed time in GPUs."""
        return sum(self.shares[device.uuid] * device.capacity_ratio for device in self.devices)

    def attributed(self, state: State) -> "TimeShare":
        """Lower the confidence by what other limits may explain as well."""
        factors = {**self.factors, "attribution": attribution(self.subject.case, state)}
        return replace(self, factors=factors)

    def find_problem(
        self, ending: str, *, evidence: Mapping[str, object] = _NOTHING, **parts: Any
    ) -> Finding:
        """Complain, with a summary that ends in `ending`; `parts` as of `CaseSubject`."""
        usual: dict[str, Any] = {"risk": Risk.VERY_LOW, "affected_gpus": self.gpus}
        return self.subject.find_problem(
            summary=f"{self.summary}{ending}.",
            factors=self.factors,
            evidence=self.evidence | dict(evidence),
            **usual | parts,
        )

    def find_nothing(self, ending: str, evidence: Mapping[str, object] = _NOTHING) -> Finding:
        """Report the observation as no problem; `ending` says why."""
        evidence = self.evidence | dict(evidence)
        return self.subject.find_nothing(f"{self.summary}{ending}.", self.factors, evidence)


def in_condition(condition: Condition) -> Callable[[Window], float]:
    """Getter of the share of a device's known time with a condition."""
    return lambda window: window.condition_share(condition)


def observed_seconds(window: Window, observation: Observation) -> float:
    """Time for which an observation could be made on a device."""
    return seconds(window.observed.get(observation, 0))


def observe(  # noqa: PLR0913 - what is looked for, and how it is named.
    subject: CaseSubject,
    settings: RuleSettings,
    share_of: Callable[[Window], float],
    what: str,
    *,
    tiers: AbstractSet[Tier] = _ANY_TIER,
    why_unsupported: str = "",
    evidence_name: str = "share_ratio",
    is_of_active_time: bool = False,
    observation: Observation | None = None,
    absent: str = "{what} for {share} of the {time}",
) -> TimeShare | Finding:
    """Return the observation, a finding of its absence, or an abstention.

    `share_of` returns the share of a device's known time, or active time, in which `what` was
    observed (`bound by launches`); with an `observation`, of the time in which that was possible.
    At least one device needs telemetry of one of the tiers.
    """
    case = subject.case
    if (early := subject.abstain_early(settings.minimum_known_seconds)) is not None:
        return early
    if not any(window.tier in tiers for window in case.windows):
        return subject.abstain(_without_tiers(why_unsupported, tiers))
    shares = {window.uuid: share_of(window) for window in case.windows}
    share = max(shares.values())
    factors = direct_factors(case, share, settings.on_ratio)
    time = "time"
    span = subject.span
    if is_of_active_time:
        active = max((shares[window.uuid], seconds(window.active)) for window in case.windows)[1]
        # Certainty by the active time, since idle time adds no evidence.
        blocks = max(1.0, active / seconds(BLOCK_SPAN))
        factors["certainty"] = probability_above(share, blocks, settings.on_ratio)
        time = "active time"
        span = f"{format_duration(active)} of activity"
    elif observation is not None:
        observed = max(observed_seconds(window, observation) for window in case.windows)
        if observed < settings.minimum_known_seconds:
            return subject.abstain(why_unsupported)
        factors = direct_factors(case, share, settings.on_ratio, observed)
        if observed < _WHOLE * case.known_seconds:
            time = "time in which that is seen"
            span = f"{format_duration(observed)} in which it is seen"
    evidence: dict[str, object] = {
        evidence_name: {uuid: round(share, 4) for uuid, share in shares.items()},
        "threshold_ratio": settings.on_ratio,
    }
    if share < settings.on_ratio:
        text = absent.format(what=what, share=percent_text(share), time=time)
        return subject.find_nothing(f"{subject.name}: {text}.", opposite_factors(factors), evidence)
    seen = tuple(device for device in case.devices if shares[device.uuid] >= settings.on_ratio)
    summary = f"{names_of(seen)}{subject.holder}: {what} for {percent_text(share)} of {span}"
    return TimeShare(subject, shares, seen, factors, evidence, summary)


def _without_tiers(why_unsupported: str, tiers: AbstractSet[Tier]) -> str:
    signals = (Signal.SM_ACTIVE, *((Signal.POWER_WATTS,) if Tier.POWER in tiers else ()))
    return f"{why_unsupported}: no {metrics_of(signals)}"


def screen_observed(
    table: SubjectTable,
    settings: RuleSettings,
    share: Column,
    *more: Settled,
    tiers: AbstractSet[Tier] = _ANY_TIER,
    why_unsupported: str = "",
) -> Screen:
    """Settle what `observe` would; `more` is settled before an absent observation is."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    yield unmeasured(~table.is_read_on(tiers), _without_tiers(why_unsupported, tiers))
    yield from more
    yield well(share < settings.on_ratio - ROUNDING)


_LEAST_SHOWN: Final = 1e-4
"""Evidence has four digits; a share that would be shown as 0 or more is judged."""


def unobserved(
    table: SubjectTable, share: Column, signals: tuple[Signal, ...], what: str = "the host"
) -> tuple[Settled, Settled]:
    """Settle what `abstain_unobserved` would."""
    is_blind = ~table.reads(*signals)
    return (
        unmeasured(is_blind & (share <= 0.0), is_not_observed(what, signals)),
        left(is_blind & (share < _LEAST_SHOWN)),
    )


class BottleneckSettings(RuleSettings, frozen=True):
    """Thresholds for bottlenecks.

    Attributes:
        on_ratio: Share of active time that the bottleneck limits a GPU.
            Source: SageMaker Debugger's CPUBottleneck and IOBottleneck: over half of the time
        minimum_active_seconds: Active time below which a GPU is not judged.
            Source: docs/definitions.md, provisioning; jobs below ten minutes are start-up
        lost_ratio: Share of all time, idle time included, lost to the bottleneck.
            Source: a tenth of a GPU is less than a fix costs
    """

    minimum_active_seconds: Annotated[float, CONSTANT] = 600.0
    lost_ratio: Annotated[float, CONSTANT] = 0.1
    conduct: OpeningPolicy = OpeningPolicy.slow()


def active_share(window: Window, time: Nanoseconds, minimum_active_seconds: float) -> float:
    """Share of the active time; 0 if that is too short to judge."""
    if seconds(window.active) < minimum_active_seconds or window.active <= 0:
        return 0.0
    return min(1.0, time / window.active)


def abstain_inactive(
    finding: Finding, subject: CaseSubject, minimum_active_seconds: float
) -> Finding:
    """Return the finding, or abstain if no device was active for long enough."""
    longest = max((seconds(window.active) for window in subject.case.windows), default=0.0)
    if finding.abstained is not None or longest >= minimum_active_seconds:
        return finding
    why = f"only {format_duration(longest)} of activity"
    return subject.abstain(why, Reason.INSUFFICIENT_DATA)


class Bottleneck(Struct, frozen=True):
    """Limit of a workload, with its wording."""

    state: State
    reason: Reason
    what: str
    """Wording of the observation: `bound by launches`."""
    tiers: frozenset[Tier] = _ANY_TIER
    why_unsupported: str = ""
    signals: tuple[Signal, ...] = ()
    """Of which one must be read to say that the limit is absent; none where any reading will do."""
    observed: str = "the host"
    """What the signals show."""

    def find(self, subject: CaseSubject, settings: BottleneckSettings) -> TimeShare | Finding:
        """Find the limit on the workload, or a finding of its absence or irrelevance."""
        case = subject.case
        least = settings.minimum_active_seconds
        seen = observe(
            subject,
            settings,
            lambda window: active_share(window, window.states.get(self.state, 0), least),
            self.what,
            tiers=self.tiers,
            why_unsupported=self.why_unsupported,
            evidence_name="active_share_ratio",
            is_of_active_time=True,
        )
        if isinstance(seen, Finding):
            seen = abstain_inactive(seen, subject, least)
            if not self.signals:
                return seen
            return abstain_unobserved(seen, subject, self.signals, self.observed)
        lost = {window.uuid: lost_share(window, self.state) for window in case.windows}
        seen.evidence["lost_ratio"] = {uuid: round(ratio, 4) for uuid, ratio in lost.items()}
        seen.evidence["hypotheses"] = hypotheses(case)
        if (best := strongest(case)) not in (None, self.state):
            return seen.find_nothing(f"; more is lost to {str(best).replace('_', ' ')}")
        if (largest := max(lost[device.uuid] for device in seen.devices)) < settings.lost_ratio:
            cost = f"{percent_text(largest)} of all time on {names_of(seen.devices)}"
            return seen.find_nothing(f"; that costs {cost}, too little to matter")
        return seen.attributed(self.state)

    def screen(self, table: SubjectTable, settings: BottleneckSettings) -> Screen:
        """Settle what `find` would."""
        least = settings.minimum_active_seconds
        share = table.of_active(table.share(self.state), least)
        blind = unobserved(table, share, self.signals, self.observed) if self.signals else ()
        is_inactive = too_little(table.active_seconds < least)
        yield from screen_observed(
            table,
            settings,
            share,
            is_inactive,
            *blind,
            tiers=self.tiers,
            why_unsupported=self.why_unsupported,
        )

    def find_problem(
        self, seen: TimeShare, ending: str, *, reasons: tuple[Reason, ...] = (), **parts: Any
    ) -> Finding:
        """Complaint with the cost of the limit; arguments as of `TimeShare.find_problem`."""
        case = seen.subject.case
        market = seen.subject.market
        return seen.find_problem(
            ending,
            reasons=(self.reason, *reasons),
            savings=saved_at_most(case, market, self.state),
            affected_gpus=lost_gpus(case, self.state),
            **parts,
        )

"""Verdicts as findings, with id, severity, confidence and savings; and those that screens settle.

A screen tells from columns of many subjects on which of them a rule's verdict is known. A fleet
judges only the others. A screen may leave more than it needs to, but never settle a subject whose
verdict would be another.
"""

import base64
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.advice.risk import probability_above
from rightsizer.model.device import Device
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
    SharedPart,
)
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, Observation, Resource, State, Tier
from rightsizer.model.units import (
    HOURS_PER_MONTH,
    JOULES_PER_KILOWATT_HOUR,
    format_duration,
    seconds,
)
from rightsizer.model.workload import Allocator, WorkloadClass
from rightsizer.sizing.estimate import EstimateInterval

_OBSERVED_TIERS: Final = {Tier.PROFILING: 1.0, Tier.POWER: 0.97, Tier.BASIC: 0.95, Tier.NONE: 0.0}
"""Probability by tier that a state that a rule complains of is the true one.

A rule that cannot tell on a tier abstains, so the remaining complaints are nearly always right:
all were, on the tuning seeds of the labeled scenarios. The figures are lower than that
(`make eval` prints the reliability), since no real node is in the scenarios.
"""
_SIZED_TIERS: Final = {Tier.PROFILING: 1.0, Tier.POWER: 0.85, Tier.BASIC: 0.5, Tier.NONE: 0.0}
"""Certainty by tier of what is needed: docs/definitions.md, conduct."""

_MOST: Final = 0.999
_OBSERVATION_SECONDS: Final = 60.0
"""The span was observed, not sampled; the uncertainty is in the state of its minutes. Five
minutes gave confidences that were .18 too low on the tuning seeds; less changes nothing."""
_HISTORY_DAYS: Final = 3.0
_HISTORY_HOURS: Final = 24.0


def direct_factors(
    case: Case, share: float, threshold: float, observed_seconds: float | None = None
) -> dict[str, float]:
    """Confidence factors of a direct observation: idleness, a stall, full memory.

    Tier x coverage x certainty that the share of time exceeds the rule's threshold, with each known
    minute as an independent observation (at least one), or each of `observed_seconds`.
    """
    known = case.known_seconds if observed_seconds is None else observed_seconds
    minutes = max(1.0, known / _OBSERVATION_SECONDS)
    certainty = probability_above(share, minutes, threshold)
    return _telemetry(case, _OBSERVED_TIERS) | {"certainty": certainty}


def opposite_factors(factors: Mapping[str, float]) -> dict[str, float]:
    """Confidence factors of the opposite verdict."""
    return {**factors, "certainty": 1.0 - factors["certainty"]}


def sizing_factors(case: Case, margin: float) -> dict[str, float]:
    """Confidence factors of a judgement of size, which needs a history.

    The margin is the ratio by which the measured value exceeds the rule's threshold.
    Source: docs/definitions.md, conduct; hours replace the effective sample size.
    """
    hours = case.known_seconds / 3600.0
    return _telemetry(case, _SIZED_TIERS) | {
        "history": 1.0 - math.exp(-hours / 24.0 / _HISTORY_DAYS),
        "samples": hours / (hours + _HISTORY_HOURS),
        "certainty": min(1.0, 0.5 + 5.0 * max(0.0, margin)),
    }


def confidence_of(factors: Mapping[str, float]) -> float:
    """Product of the factors to three digits, always below 1."""
    return min(_MOST, round(math.prod(factors.values()), 3))


def _telemetry(case: Case, tiers: Mapping[Tier, float]) -> dict[str, float]:
    found = {
        "tier": min((tiers[window.tier] for window in case.windows), default=0.0),
        "coverage": min((window.coverage_ratio for window in case.windows), default=0.0),
    }
    if case.workload is not None and case.workload.confidence_ratio < 1.0:
        found["workload"] = case.workload.confidence_ratio
    return found


LOW_CONFIDENCE: Final = Savings(reason="confidence too low for savings")


def release_savings(case: Case, market: Market, low: float, high: float) -> Savings:
    """Savings of releasing a share of the devices: `low` for certain, `high` at most."""
    count = case.gpus
    gpus = EstimateInterval(count * high, count * low, count * high)
    return _savings(gpus, _kilowatt_hours(case, high), _dollars(case, market, low, high))


def replacement_savings(
    case: Case, market: Market, then: EstimateInterval | None, date: str
) -> Savings:
    """Savings of replacing the GPUs by as many others, at dollars per hour and a price date."""
    gpus = EstimateInterval(0.0, 0.0, 0.0)
    if (now := _dollars(case, market, 1.0, 1.0)) is None or then is None:
        return _savings(gpus, None, None)
    # Prices of one cloud rise and fall together, so compare low with low and high with high.
    ends = sorted((now[0].low - then.low, now[0].high - then.high))
    dates = "; ".join(dict.fromkeys(filter(None, (now[2], date))))
    typical = min(max(now[0].value - then.value, ends[0]), ends[1])
    saved = EstimateInterval(typical, ends[0], ends[1])
    return _savings(gpus, None, (saved, now[1], dates))


def sharing_savings(case: Case, market: Market, part: float) -> Savings:
    """Savings of sharing the devices: nothing until other workloads use the rest."""
    savings = release_savings(case, market, 0.0, part)
    return replace(savings, kilowatt_hours_per_month_low=None, kilowatt_hours_per_month_high=None)


def _dollars(
    case: Case, market: Market, low: float, high: float
) -> tuple[EstimateInterval, str, str] | None:
    found = [(device, market.cost(market.board(device.board))) for device in case.devices]
    costs = [(device.capacity_ratio, cost) for device, cost in found if cost is not None]
    if len(costs) < len(found):
        return None
    total = EstimateInterval(
        sum(cost.dollars_per_hour.value * part * (low + high) / 2 for part, cost in costs),
        sum(cost.dollars_per_hour.low * part * low for part, cost in costs),
        sum(cost.dollars_per_hour.high * part * high for part, cost in costs),
    )
    sources = dict.fromkeys(cost.source for _, cost in costs)
    return total, "; ".join(sources), "; ".join(dict.fromkeys(cost.date for _, cost in costs))


def _kilowatt_hours(case: Case, high: float) -> EstimateInterval | None:
    """Energy saved: at most what the devices drew over the window, nothing if they stay powered.

    `None` if no energy was measured.
    """
    watts = 0.0
    for window in case.windows:
        if window.energy_joules <= 0.0 or window.known <= 0:
            return None
        watts += window.energy_joules / seconds(window.known)
    month = watts * HOURS_PER_MONTH * 3600.0 / JOULES_PER_KILOWATT_HOUR
    return EstimateInterval(month * high, 0.0, month * high)


def _savings(
    gpus: EstimateInterval,
    energy: EstimateInterval | None,
    money: tuple[EstimateInterval, str, str] | None,
) -> Savings:
    dollars, source, date = money or (None, "", "")
    return Savings(
        gpus_low=round(gpus.low, 4),
        gpus_high=round(gpus.high, 4),
        dollars_per_hour_low=None if dollars is None else dollars.low,
        dollars_per_hour_high=None if dollars is None else dollars.high,
        dollars_per_hour_typical=None if dollars is None else dollars.value,
        reason="" if money else "no price is stated",
        gpu_hours_per_month_low=round(gpus.low * HOURS_PER_MONTH, 1),
        gpu_hours_per_month_high=round(gpus.high * HOURS_PER_MONTH, 1),
        kilowatt_hours_per_month_low=None if energy is None else energy.low,
        kilowatt_hours_per_month_high=None if energy is None else energy.high,
        price_source=source,
        price_date=date,
    )


_LEAST_GPUS: Final = ((4.0, Severity.CRITICAL), (1.0, Severity.HIGH), (0.25, Severity.MEDIUM))
"""Steps at which people act: a quarter of a GPU, a GPU, half of a node of eight."""


def severity_of(affected_gpus: float) -> Severity:
    """Severity by the affected time in GPUs."""
    return next(
        (severity for least, severity in _LEAST_GPUS if affected_gpus >= least), Severity.LOW
    )


_SCHEMA: Final = "1"
_ID_LENGTH: Final = 12
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_MOST_HOSTS: Final = 3
"""Maximum hosts named in a sentence."""
UNPRICED: Final = "no price and no projected size is known for this action"
_UNPRICED: Final = Savings(reason=UNPRICED)
TOO_SMALL: Final = Savings(reason="it needs a larger GPU")


_NO_VERDICT: Final = Savings(reason="no verdict")
_NOTHING_TO_SAVE: Final = Savings(reason="nothing to save")
_UNSAID: Final[dict[str, Any]] = {
    "kind": FindingKind.UNKNOWN,
    "reasons": (),
    "culprits": (),
    "action": Action.NONE,
    "options": (),
    "risk": Risk.UNKNOWN,
    "savings": _NO_VERDICT,
}
"""Defaults of a finding."""


class _VerdictOptions(Struct, frozen=True, kw_only=True):
    scope: str = ""
    """Tells recommendations of a rule from those of others with the same reason and action."""
    is_counted: bool = False
    """Whether a verdict without a complaint is only counted, and needs no id."""


class CaseSubject(_VerdictOptions, frozen=True):
    """Case under judgement by one rule, and the verdicts that the rule may give."""

    rule: str
    case: Case
    market: Market

    @property
    def name(self) -> str:
        """Display name of its devices."""
        return names_of(self.case.devices)

    @property
    def span(self) -> str:
        """Known time: `the last 6 h`."""
        return f"the last {format_duration(self.case.known_seconds)}"

    @property
    def holder(self) -> str:
        """` of NAME` for a case of a workload; empty otherwise."""
        return f" of {self.case.workload.name}" if self.case.workload else ""

    def find_problem(  # noqa: PLR0913 - all that a complaint has beside its rule and case.
        self,
        *,
        reasons: tuple[Reason, ...],
        action: Action,
        summary: str,
        factors: Mapping[str, float],
        risk: Risk,
        evidence: Mapping[str, object],
        kind: FindingKind | None = None,
        culprits: tuple[str, ...] = (),
        options: tuple[Option, ...] = (),
        target: str = "",
        savings: Savings | str = _UNPRICED,
        instructions: tuple[Instruction, ...] = (),
        severity: Severity | None = None,
        affected_gpus: float = 0.0,
        shared_by: Mapping[str, tuple[SharedPart, ...]] = _NOTHING,
    ) -> Finding:
        """Make a finding that asks for action.

        The first reason and the rounded target are part of the id. Culprits are uuids; options are
        ordered best first. Savings are omitted below the market's minimum confidence; a text
        explains why there never are any. The severity defaults to that of the affected time in
        GPUs. A rule of faults names the parts of the node that may be the cause, by culprit.
        """
        if isinstance(savings, str):
            least = 0.0
            savings = Savings(reason=savings)
        else:
            least = self.market.settings.minimum_confidence_ratio
        is_sure = confidence_of(factors) >= least
        if not is_sure:
            options = tuple(
                replace(option, savings=option.savings and LOW_CONFIDENCE) for option in options
            )
        return self._finding(
            finding_id(self.case.key, reasons[0], action, f"{self.scope}{target}"),
            summary,
            factors,
            evidence,
            kind=kind or reasons[0].kind,
            reasons=reasons,
            culprits=culprits,
            action=action,
            options=options,
            risk=risk,
            savings=savings if is_sure else LOW_CONFIDENCE,
            severity=severity or severity_of(affected_gpus),
            instructions=instructions,
            shared_by=dict(shared_by),
        )

    def find_nothing(
        self,
        summary: str,
        factors: Mapping[str, float] = _NOTHING,
        evidence: Mapping[str, object] = _NOTHING,
    ) -> Finding:
        """Make a finding without a complaint."""
        return self._finding(
            self._id(Action.NONE),
            summary,
            factors,
            evidence,
            kind=FindingKind.OPTIMIZED,
            risk=Risk.VERY_LOW,
            savings=_NOTHING_TO_SAVE,
        )

    def abstain(self, why: str, reason: Reason = Reason.UNSUPPORTED_TELEMETRY) -> Finding:
        """Make a finding that the rule cannot decide, with the reason."""
        return self._finding(
            self._id(reason),
            f"No verdict: {why}.",
            reasons=(reason,),
            abstained=why,
        )

    def abstain_early(self, minimum_seconds: float) -> Finding | None:
        """Abstain if too little of the window is known; `None` if there is enough."""
        if (known := self.case.known_seconds) >= minimum_seconds:
            return None
        why = f"only {format_duration(known)} of telemetry"
        return self.abstain(why, Reason.INSUFFICIENT_DATA)

    def _id(self, of: Action | Reason) -> str:
        """Id of a verdict without a complaint, or empty if it is only counted."""
        return "" if self.is_counted else finding_id(self.case.key, self.rule, of, "")

    def _finding(
        self,
        advice_id: str,
        summary: str,
        factors: Mapping[str, float] | None = None,
        evidence: Mapping[str, object] = _NOTHING,
        **said: Any,
    ) -> Finding:
        case = self.case
        if not advice_id:
            return Finding(
                id="",
                rule=self.rule,
                devices=(),
                workload=None,
                summary=summary,
                confidence=0.0,
                confidence_factors=_NOTHING,
                evidence=evidence,
                **_UNSAID | said,
            )
        return Finding(
            id=advice_id,
            rule=self.rule,
            devices=tuple(device.uuid for device in case.devices),
            workload=None if case.workload is None else case.workload.key,
            summary=summary,
            confidence=0.0 if factors is None else confidence_of(factors),
            confidence_factors={name: round(value, 3) for name, value in (factors or {}).items()},
            evidence={**case.span_facts, **evidence},
            **_UNSAID | said,
        )


_IDS_KEPT: Final = 2048
"""Of a run over as many workloads as are kept; those of workloads that are gone make room."""


@lru_cache(maxsize=_IDS_KEPT)
def finding_id(key: str, reason: str, action: str, target: str) -> str:
    """Twelve characters, stable as long as the same is recommended for the same workload."""
    text = f"{_SCHEMA}|{key}|{reason}|{action}|{target}"
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b32encode(digest[:_ID_LENGTH]).decode().lower()[:_ID_LENGTH]


def names_of(devices: Sequence[Device]) -> str:
    """Display name of devices: `GPU 3`, `GPUs 0, 1 and 2`, `MIG 4:1 (1g.10gb)`.

    With host names if known: `GPUs 0 and 1 on node-7 and GPU 3 on node-8`.
    """
    by_host: dict[str, list[Device]] = {}
    for device in devices:
        by_host.setdefault(device.host, []).append(device)
    if len(by_host) > _MOST_HOSTS:
        named = list(by_host)[:_MOST_HOSTS]
        more = len(by_host) - _MOST_HOSTS
        return f"{len(devices)} GPUs on {', '.join(named)} and {more} more nodes"
    return _listed([_on_host(host, found) for host, found in by_host.items()])


def _on_host(host: str, devices: Sequence[Device]) -> str:
    where = f" on {host}" if host else ""
    if len(devices) == 1:
        (device,) = devices
        return f"{device.label}{where}"
    if all(device.mig for device in devices):
        boards = tuple(dict.fromkeys(device.board_title for device in devices))
        return f"{len(devices)} MIG instances on {_listed(boards)}{where}"
    if all(device.has_index for device in devices):
        return f"GPUs {_listed([str(device.index) for device in devices])}{where}"
    return f"{_listed([device.title for device in devices])}{where}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


Column: TypeAlias = Any
"""Array with a number or truth for each subject; an agent has no numpy."""


ROUNDING: Final = 1e-9
"""Columns may differ from windows by rounding; a share as near to its threshold is judged."""


class SubjectTable(Protocol):
    """Whole devices over one span, a row each, with the facts of the workload that holds them."""

    @property
    def known_seconds(self) -> Column:
        """Time with a known state."""

    @property
    def active_seconds(self) -> Column:
        """Time neither idle nor unknown."""

    @property
    def is_single(self) -> Column:
        """Whether the case has no other device."""

    @property
    def is_held(self) -> Column:
        """Whether it has a workload."""

    @property
    def is_shared(self) -> Column:
        """Whether several workloads hold the device."""

    @property
    def has_xids(self) -> Column:
        """Whether Xids are read."""

    @property
    def is_underprovisioned(self) -> Column:
        """As of `Provisioning`."""

    @property
    def is_preallocated(self) -> Column:
        """As `memory_is_preallocated` of `Provisioning`."""

    @property
    def overprovisioned(self) -> Column:
        """As of `Provisioning`; `nan` if unknown."""

    @property
    def overprovisioned_at_most(self) -> Column:
        """By the lower bound of the compute need; 0 without one."""

    def share(self, *states: State) -> Column:
        """Share of the known time in some states."""

    def condition_share(self, condition: Condition) -> Column:
        """Share of the known time with a condition."""

    def second_cause_share(self, state: State) -> Column:
        """Share of the known time with a state as the next most likely."""

    def saturated_share(self, resource: Resource) -> Column:
        """Share of the known time at a resource's limit."""

    def pressed_share(self, resource: Resource) -> Column:
        """Share of the known time in which an application lacked a resource."""

    def of_active(self, share: Column, minimum_active_seconds: float) -> Column:
        """Turn a share of the known into one of the active time; 0 if that is too short."""

    def observed_seconds(self, observation: Observation) -> Column:
        """Time for which an observation could be made."""

    def is_read_on(self, tiers: AbstractSet[Tier]) -> Column:
        """Whether most of the known time has telemetry of one of the tiers."""

    def has_demand(self, resource: Resource) -> Column:
        """Whether the use of a resource is known."""

    def need(self, resource: Resource) -> Column:
        """Need of a resource; `nan` if unknown."""

    def is_of(self, *classes: WorkloadClass) -> Column:
        """Whether the workload, or the lack of one, is of one of some classes."""

    def is_allocated_by(self, allocator: Allocator) -> Column:
        """Whether the workload has a stated allocator."""

    def reads(self, *signals: Signal) -> Column:
        """Whether one of some signals has a last reading."""

    def largest(self, *signals: Signal) -> Column:
        """Largest magnitude among the last readings of some signals; 0 without any."""


class Settled(NamedTuple):
    """Rows whose verdict is settled; of several the first counts."""

    where: Column
    is_left: bool = False
    """Whether these must be judged, whatever follows."""
    reason: Reason | None = None
    """Why the rule abstains; `None` if nothing is wrong."""
    why: str = ""
    """Text of the abstention for lack of telemetry; empty for other reasons."""


Screen: TypeAlias = Iterator[Settled]


def well(where: Column) -> Settled:
    """Settle that nothing is wrong."""
    return Settled(where)


def left(where: Column) -> Settled:
    """Leave rows to be judged."""
    return Settled(where, is_left=True)


def too_little(where: Column) -> Settled:
    """Settle that the rule abstains for lack of data."""
    return Settled(where, reason=Reason.INSUFFICIENT_DATA)


def unmeasured(where: Column, why: str) -> Settled:
    """Settle that the rule abstains for lack of telemetry, with its text."""
    return Settled(where, reason=Reason.UNSUPPORTED_TELEMETRY, why=why)

"""GPUs that do nothing: empty, or held by what does not use them."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.risk import risk_of, worst
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import (
    abstain_early,
    complain,
    direct_factors,
    find_nothing,
    known_seconds,
    names_of,
    opposite,
    released,
)
from rightsizer.model.block import BLOCK_SPAN, Block, Measure
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
)
from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting
from rightsizer.model.state import IDLE_STATES, State
from rightsizer.model.units import Nanoseconds, format_duration, seconds
from rightsizer.model.workload import Workload, WorkloadClass
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import owner_of


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A time without work."""

    seconds: float
    has_ended: bool
    """False where its end was not seen; it lasted at least so long."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The probability that work resumes soon."""

    probability_ratio: float
    gaps: int
    """That had lasted as long; few of them prove little."""


def idle_gaps(blocks: Iterable[Block], busy_ratio: float) -> tuple[IdleGap, ...]:
    """The times of whole five-minute blocks that were less busy than a ratio, oldest first.

    Where a block is missing, a gap is cut off.
    """
    found = []
    for run in _unbroken(blocks):
        groups = groupby(run, lambda block: block.mean < busy_ratio)
        parts = [(idle, list(group)) for idle, group in groups]
        for at, (idle, group) in enumerate(parts):
            if idle:
                length = len(group) * seconds(BLOCK_SPAN)
                found.append(IdleGap(length, has_ended=at + 1 < len(parts)))
    return tuple(found)


def resumption(
    gaps: Iterable[IdleGap], idle_seconds: float, within_seconds: float
) -> Resumption | None:
    """The probability of work within some time after so much idleness (Kaplan and Meier 1958).

    `None` where no gap has lasted that long.
    """
    lasting = sorted(
        (gap for gap in gaps if gap.seconds > idle_seconds),
        key=lambda gap: (gap.seconds, not gap.has_ended),
    )
    if not lasting:
        return None
    survival, at_risk = 1.0, len(lasting)
    for gap in lasting:
        if gap.seconds > idle_seconds + within_seconds:
            break
        if gap.has_ended:
            survival *= 1.0 - 1.0 / at_risk
        at_risk -= 1
    return Resumption(1.0 - survival, len(lasting))


def _unbroken(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    run: list[Block] = []
    last: Nanoseconds | None = None
    for block in blocks:
        if last is not None and block.start != last + BLOCK_SPAN:
            yield run
            run = []
        run.append(block)
        last = block.start
    if run:
        yield run


NAME: Final = "idle"
_BLOCK_SECONDS: Final = 300.0
_HOUR_SECONDS: Final = 3600
_DAY_HOURS: Final = 24
_LEAST_GAPS: Final = 20
"""Fewer say nothing of the risk, as with blocks."""


def _patience(default: float, who: str, source: str) -> float:
    result: float = setting(
        default,
        help=f"How long {who} may be idle before anybody says so.",
        unit="seconds",
        within=(600, None),
        source=source,
    )
    return result


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """From when on idleness is worth a word."""

    on_ratio: float = setting(
        0.99,
        help="Share of the span that must be idle.",
        within=(0.5, 1),
        source="a production fleet: of spans of two hours that were idle for 90 %, half were "
        "followed by work within 30 min; of those idle for 99 %, an eighth (docs/benchmarks.md)",
    )
    certain_ratio: float = setting(
        0.9,
        help="Idle share that the confidence is about; a few active seconds are no use.",
        within=(0.1, 0.99),
        source="a GPU that works for a tenth of the time has a user",
    )
    minimum_known_seconds: float = setting(
        60.0, help="Known time under which the rule abstains.", source="one learned idle draw"
    )
    notebook_seconds: float = _patience(3600.0, "a notebook", "docs/definitions.md, conduct")
    batch_seconds: float = _patience(1800.0, "a batch job", "docs/definitions.md, conduct")
    serving_seconds: float = _patience(7200.0, "a serving replica", "docs/definitions.md, conduct")
    unknown_seconds: float = _patience(
        7200.0,
        "a GPU whose use nobody stated",
        "docs/definitions.md, sources: windows of 90-120 min are right in 0.80-0.85 of cases",
    )
    usual_ratio: float = setting(
        0.25,
        help="Load of an hour, over that of the busiest hour of a usual day, up to which a "
        "service is expected to sleep through it.",
        source="docs/definitions.md, sources: nights of the serving fleet lie below a tenth",
    )
    minimum_days: float = setting(
        2.0,
        help="Days of a service's past under which no hour is called usual.",
        unit="days",
        within=(1, 30),
        source="what was seen once is no habit",
    )
    busy_ratio: float = setting(
        0.01,
        help="Busy share of five minutes from which on a workload has resumed.",
        source="docs/definitions.md, sources: busy from 1 % on",
    )
    resume_seconds: float = setting(
        1800.0,
        help="Time within which work that resumes makes giving back a mistake.",
        within=(300, None),
        source="docs/definitions.md, sources: P(resume within 30 min)",
    )


def judge(case: Case, settings: IdleSettings, market: Market) -> Finding:
    """Whether all GPUs of the workload did nothing, and whether somebody held them."""
    too_little = abstain_early(NAME, case, settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if case.workload_class is WorkloadClass.STANDBY:
        return find_nothing(NAME, case, "A standby is meant to be idle.")
    shares = {window.uuid: window.share(*IDLE_STATES) for window in case.windows}
    share = min(shares.values())
    evidence = {
        "idle_ratio": {uuid: round(each, 4) for uuid, each in shares.items()},
        "threshold_ratio": settings.on_ratio,
    }
    factors = direct_factors(case, share, min(settings.certain_ratio, settings.on_ratio))
    if share < settings.on_ratio:
        active = f"active {1 - share:.0%} of the time"
        return find_nothing(
            NAME, case, f"{names_of(case.devices)}: {active}.", opposite(factors), evidence
        )
    if _is_usual(case, settings):
        summary = f"{names_of(case.devices)}: idle, as at these hours of every day."
        return find_nothing(NAME, case, summary, opposite(factors), evidence)
    return _complaint(case, settings, market, factors, evidence)


def conduct(workload: Workload | None, settings: IdleSettings) -> OpeningPolicy:
    """The class decides how long idleness is tolerated."""
    patience = {
        WorkloadClass.NOTEBOOK: settings.notebook_seconds,
        WorkloadClass.BATCH: settings.batch_seconds,
        WorkloadClass.SERVING: settings.serving_seconds,
    }.get(workload.workload_class if workload else WorkloadClass.UNKNOWN, settings.unknown_seconds)
    return OpeningPolicy(
        long_seconds=patience,
        short_seconds=min(patience, 1800.0),
        minimum_known_seconds=patience * settings.certain_ratio,
        # Work for a fifth of half an hour means that the user is back.
        close_ratio=0.8,
        close_after_seconds=600.0,
    )


def _complaint(
    case: Case,
    settings: IdleSettings,
    market: Market,
    factors: dict[str, float],
    evidence: dict[str, object],
) -> Finding:
    share = min(window.share(*IDLE_STATES) for window in case.windows)
    reason = _reason(case)
    level = risk_of(1.0 - share, known_seconds(case) / _BLOCK_SECONDS)
    resumed = _resumption(case, settings)
    risk = level.risk
    if resumed is not None and resumed.gaps >= _LEAST_GAPS:
        risk = worst((risk, risk_of(resumed.probability_ratio, resumed.gaps).risk))
    savings = released(case, market, share, 1.0)
    return complain(
        NAME,
        case,
        kind=FindingKind.IDLE,
        reasons=(reason,),
        action=_action(case.workload),
        summary=(
            f"{names_of(case.devices)}: {_what(case, reason)} {share:.0%} of the last "
            f"{format_duration(known_seconds(case))}."
        ),
        factors=factors,
        risk=risk,
        evidence=evidence
        | {"resume_upper_bound_ratio": level.upper_bound_ratio}
        | _about(resumed, settings),
        options=(_option(case, risk, savings),),
        savings=savings,
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=release_instructions(case),
        affected_gpus=share * case.gpus,
    )


def _reason(case: Case) -> Reason:
    if _lacks_process(case):
        return Reason.ALLOCATED_WITHOUT_PROCESS
    is_held = any(
        window.states.get(State.IDLE_HELD, 0) > window.states.get(State.IDLE_EMPTY, 0)
        for window in case.windows
    )
    return Reason.IDLE_HELD if is_held else Reason.IDLE_EMPTY


def _lacks_process(case: Case) -> bool:
    """Whether a scheduler gave all the devices away and none of them has a process."""
    if case.workload is None or case.node is None:
        return False
    holdings = [case.node.holdings.get(device.uuid, ()) for device in case.devices]
    return all(
        any(each.workload.key == case.key and not each.has_process for each in held)
        for held in holdings
    )


def _what(case: Case, reason: Reason) -> str:
    holder = case.workload.name if case.workload else ""
    if reason is Reason.ALLOCATED_WITHOUT_PROCESS:
        it = "it" if len(case.devices) == 1 else "any of them"
        return f"allocated to {holder}, without a process on {it}, and idle"
    if reason is Reason.IDLE_HELD:
        return f"held by {holder} but idle" if holder else "held but idle"
    return "empty and idle"


def _is_usual(case: Case, settings: IdleSettings) -> bool:
    """Whether a service has always slept at the hours that were looked at."""
    workload = case.workload
    if workload is None or workload.workload_class is not WorkloadClass.SERVING:
        return False
    shape = case.shape()
    if shape is None or not shape.is_daily or shape.known_days < settings.minimum_days:
        return False
    means = [hour.mean for hour in shape.hours_of_day]
    busiest = max(mean or 0.0 for mean in means)
    first = min(int(seconds(window.start)) // _HOUR_SECONDS for window in case.windows)
    last = max(int(seconds(window.end - 1)) // _HOUR_SECONDS for window in case.windows)
    usual = [means[hour % _DAY_HOURS] for hour in range(first, min(last, first + _DAY_HOURS) + 1)]
    return all(mean is not None and mean <= settings.usual_ratio * busiest for mean in usual)


def _resumption(case: Case, settings: IdleSettings) -> Resumption | None:
    blocks = case.remembered.each(Measure.BUSY)
    gaps = idle_gaps(blocks, settings.busy_ratio * len(case.devices))
    if not gaps or gaps[-1].has_ended:
        return None
    return resumption(gaps, gaps[-1].seconds, settings.resume_seconds)


def _about(resumed: Resumption | None, settings: IdleSettings) -> dict[str, object]:
    if resumed is None or resumed.gaps < _LEAST_GAPS:
        return {}
    return {
        "resume_ratio": round(resumed.probability_ratio, 4),
        "resume_within_seconds": settings.resume_seconds,
        "resume_gaps": resumed.gaps,
    }


def _option(case: Case, risk: Risk, savings: Savings) -> Option:
    """Idle time is saved for certain, the rest unless work resumes."""
    action = _action(case.workload)
    what = "scale to zero while nobody asks" if action is Action.SCALE_TO_ZERO else "give back"
    return Option(
        description=f"{what}: {names_of(case.devices)}", risk=risk, action=action, savings=savings
    )


def _action(workload: Workload | None) -> Action:
    is_serving = workload is not None and workload.workload_class is WorkloadClass.SERVING
    return Action.SCALE_TO_ZERO if is_serving else Action.RELEASE


_MOST_PROCESSES: Final = 8
"""A longer command is not reviewed to its end."""


def release_instructions(case: Case) -> tuple[Instruction, ...]:
    """The command that ends the workload, or scales it to nothing, for a person to review.

    None for GPUs without a workload.
    """
    workload = case.workload
    if workload is None:
        return ()
    return owner_of(workload.kind).release(workload) or _processes(case)


def _processes(case: Case) -> tuple[Instruction, ...]:
    node = case.node
    if node is None:
        return ()
    uuids = [device.uuid for device in case.devices]
    if any(len(node.holdings.get(uuid, ())) != 1 for uuid in uuids):
        return ()  # Whose processes these are is not known.
    readings = [node.readings[uuid] for uuid in uuids if uuid in node.readings]
    found = {process.pid for reading in readings for process in reading.processes or ()}
    if not found or len(found) > _MOST_PROCESSES:
        return ()
    command = " ".join(["kill", *map(str, sorted(found))])
    return shell("End the processes on these GPUs, after asking their user", command)


RULE: Final = Rule(NAME, IdleSettings(), judge, conduct)

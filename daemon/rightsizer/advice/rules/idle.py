"""GPUs that do nothing: empty, or held by what does not use them."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from rightsizer.advice.observation import minimum_known
from rightsizer.advice.risk import risk_of, worst
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import (
    CaseSubject,
    direct_factors,
    known_seconds,
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
)
from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting
from rightsizer.model.state import IDLE_STATES, State
from rightsizer.model.units import format_duration, seconds
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
    # Blocks that follow one another are as far from their number as their first one.
    runs = groupby(enumerate(blocks), lambda each: each[1].start - each[0] * BLOCK_SPAN)
    for _, run in runs:
        groups = groupby(run, lambda each: each[1].mean < busy_ratio)
        parts = [(is_idle, sum(1 for _ in group)) for is_idle, group in groups]
        for at, (is_idle, count) in enumerate(parts, 1):
            if is_idle:
                found.append(IdleGap(count * seconds(BLOCK_SPAN), has_ended=at < len(parts)))
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
    survival = 1.0
    for at_risk, gap in zip(range(len(lasting), 0, -1), lasting, strict=True):
        if gap.seconds > idle_seconds + within_seconds:
            break
        if gap.has_ended:
            survival *= 1.0 - 1.0 / at_risk
    return Resumption(1.0 - survival, len(lasting))


_BLOCK_SECONDS: Final = 300.0
_HOUR_SECONDS: Final = 3600
_DAY_HOURS: Final = 24
_LEAST_GAPS: Final = 20
"""Fewer say nothing of the risk, as with blocks."""


def _patience(default: float, who: str, source: str) -> Any:
    return setting(
        default,
        help=f"How long {who} may be idle before it is advised on.",
        unit="seconds",
        within=(600, None),
        source=source,
    )


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
    minimum_known_seconds: float = minimum_known()
    notebook_seconds: float = _patience(3600.0, "a notebook", "docs/definitions.md, conduct")
    batch_seconds: float = _patience(1800.0, "a batch job", "docs/definitions.md, conduct")
    serving_seconds: float = _patience(7200.0, "a serving replica", "docs/definitions.md, conduct")
    unknown_seconds: float = _patience(
        7200.0,
        "a GPU whose use is not stated",
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


def judge(subject: CaseSubject, settings: IdleSettings) -> Finding:
    """Whether all GPUs of the workload did nothing, and whether they were held."""
    case = subject.case
    too_little = subject.abstain_early(settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if case.workload_class is WorkloadClass.STANDBY:
        return subject.find_nothing("A standby is meant to be idle.")
    shares = {window.uuid: window.share(*IDLE_STATES) for window in case.windows}
    share = min(shares.values())
    evidence: dict[str, object] = {
        "idle_ratio": {uuid: round(each, 4) for uuid, each in shares.items()},
        "threshold_ratio": settings.on_ratio,
    }
    factors = direct_factors(case, share, min(settings.certain_ratio, settings.on_ratio))
    if share < settings.on_ratio:
        summary = f"{subject.name}: active {1 - share:.0%} of the time."
        return subject.find_nothing(summary, opposite(factors), evidence)
    if _is_usual(case, settings):
        summary = f"{subject.name}: idle, as at these hours of every day."
        return subject.find_nothing(summary, opposite(factors), evidence)
    level = risk_of(1.0 - share, known_seconds(case) / _BLOCK_SECONDS)
    evidence["resume_upper_bound_ratio"] = level.upper_bound_ratio
    risk, resumed = level.risk, _resumption(case, settings)
    if resumed is not None:
        risk = worst((risk, risk_of(resumed.probability_ratio, resumed.gaps).risk))
        evidence["resume_ratio"] = round(resumed.probability_ratio, 4)
        evidence["resume_within_seconds"] = settings.resume_seconds
        evidence["resume_gaps"] = resumed.gaps
    is_serving = case.workload_class is WorkloadClass.SERVING
    action = Action.SCALE_TO_ZERO if is_serving else Action.RELEASE
    give_back = "scale to zero while no requests come" if is_serving else "give back"
    # Idle time is saved for certain, the rest unless work resumes.
    savings = released(case, subject.market, share, 1.0)
    reason, what = _reason(case)
    return subject.complain(
        kind=FindingKind.IDLE,
        reasons=(reason,),
        action=action,
        summary=(
            f"{subject.name}: {what} {share:.0%} of the last "
            f"{format_duration(known_seconds(case))}."
        ),
        factors=factors,
        risk=risk,
        evidence=evidence,
        options=(
            Option(f"{give_back}: {subject.name}", risk=risk, action=action, savings=savings),
        ),
        savings=savings,
        instructions=release_instructions(case),
        affected_gpus=share * case.gpus,
    )


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


def _reason(case: Case) -> tuple[Reason, str]:
    """Why they are idle, and how the summary says so."""
    holder = case.workload.name if case.workload else ""
    # Whether a scheduler gave all the devices away and none of them has a process.
    holdings = case.node.holdings if case.workload and case.node else {}
    if holdings and all(
        any(each.workload.key == case.key and not each.has_process for each in held)
        for held in (holdings.get(device.uuid, ()) for device in case.devices)
    ):
        it = "it" if len(case.devices) == 1 else "any of them"
        what = f"allocated to {holder}, without a process on {it}, and idle"
        return Reason.ALLOCATED_WITHOUT_PROCESS, what
    if any(
        window.states.get(State.IDLE_HELD, 0) > window.states.get(State.IDLE_EMPTY, 0)
        for window in case.windows
    ):
        return Reason.IDLE_HELD, f"held by {holder} but idle" if holder else "held but idle"
    return Reason.IDLE_EMPTY, "empty and idle"


def _is_usual(case: Case, settings: IdleSettings) -> bool:
    """Whether a service has always slept at the hours that were looked at."""
    # A shape is read from a month of blocks.
    shape = case.shape() if case.workload_class is WorkloadClass.SERVING else None
    if shape is None or not shape.is_daily or shape.known_days < settings.minimum_days:
        return False
    means = [hour.mean for hour in shape.hours_of_day]
    busiest = max(mean or 0.0 for mean in means)
    first = min(int(seconds(window.start)) // _HOUR_SECONDS for window in case.windows)
    last = max(int(seconds(window.end - 1)) // _HOUR_SECONDS for window in case.windows)
    usual = [means[hour % _DAY_HOURS] for hour in range(first, min(last, first + _DAY_HOURS) + 1)]
    return all(mean is not None and mean <= settings.usual_ratio * busiest for mean in usual)


def _resumption(case: Case, settings: IdleSettings) -> Resumption | None:
    """As the gaps that have lasted as long went on; `None` where too few have."""
    blocks = case.remembered.each(Measure.BUSY)
    gaps = idle_gaps(blocks, settings.busy_ratio * len(case.devices))
    if not gaps or gaps[-1].has_ended:
        return None
    found = resumption(gaps, gaps[-1].seconds, settings.resume_seconds)
    return found if found is not None and found.gaps >= _LEAST_GAPS else None


_MOST_PROCESSES: Final = 8
"""A longer command is not reviewed to its end."""


def release_instructions(case: Case) -> tuple[Instruction, ...]:
    """The command that ends the workload, or scales it to nothing, for a person to review.

    None for GPUs without a workload, nor where it is not known whose the processes are.
    """
    workload, node = case.workload, case.node
    found = owner_of(workload.kind).release(workload) if workload else ()
    uuids = [device.uuid for device in case.devices]
    if found or workload is None or node is None:
        return found
    if any(len(node.holdings.get(uuid, ())) != 1 for uuid in uuids):
        return ()
    readings = [node.readings[uuid] for uuid in uuids if uuid in node.readings]
    pids = {process.pid for reading in readings for process in reading.processes or ()}
    if not pids or len(pids) > _MOST_PROCESSES:
        return ()
    command = " ".join(["kill", *map(str, sorted(pids))])
    return shell("End the processes on these GPUs, after asking their user", command)


RULE: Final = Rule("idle", IdleSettings(), judge, conduct)

"""Rule: GPUs that do nothing, either empty or held without use."""

from datetime import UTC, datetime
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.confidence import direct_factors, opposite_factors
from rightsizer.advice.instructions import instruction, instructions
from rightsizer.advice.resumption import DAY_HOURS, ResumptionModel, usual_hour
from rightsizer.advice.risk import risk_under, upper_bound
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.screen import ROUNDING, Screen, SubjectTable, too_little, well
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    HOUR,
    IDLE_STATES,
    Action,
    Case,
    Finding,
    IdleGap,
    Instruction,
    Measure,
    Option,
    Reason,
    Resource,
    Risk,
    SharedPart,
    Signal,
    Spec,
    State,
    Workload,
    WorkloadClass,
    format_duration,
    percent_text,
    seconds,
    utc_text,
)
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import owner_of

_LEVEL: Final = 0.9
_MOST_OTHERS: Final = 16
"""Number of other workloads whose history is used."""


def _patience(who: str, source: str) -> Spec:
    sentence = f"How long {who} may be idle; advice opens once the share `certain` of it is known."
    return Spec(help=sentence, within=(600, None), source=source)


class IdleSettings(RuleSettings, frozen=True):
    """Thresholds for idle GPUs.

    Attributes:
        on_ratio: Share of the span that must be idle.
            Source: docs/definitions.md, sources: idle at .99 of the time
        certain_ratio: Idle share that the confidence refers to; below 1 to ignore a few active
            seconds. Also the share of the patience after which advice opens.
            Source: a GPU that works for a tenth of the time has a user
        usual_ratio: Load of an hour, relative to a usual day's busiest, up to which a service is
            expected to idle.
            Source: nights of a production serving fleet lie below a tenth of its peak
        minimum_days: Days of history required before idle hours count as usual.
            Source: seen twice
        busy_ratio: Utilization over five minutes from which a workload has resumed.
            Source: docs/definitions.md, sources: idle below 1%
        resume_seconds: Time within which resumed work makes a release a mistake.
            Source: docs/definitions.md, sources: 90 to 120 min of waiting
        mistake_seconds: GPU time that a mistaken release costs; a release must save more than this
            times its probability.
            Source: placing a workload again and loading its model: a quarter of an hour
        resume_exponent: Exponent of idle times without a history: after t idle, work resumes within
            w with probability 1 - (t / (t + w)) to this power.
            Source: 1.2 for gaps beyond half an hour of the trace of docs/definitions.md, sources
        borrowed_gaps: Weight of other workloads' gaps and of that exponent, in own idle gaps.
            Source: the best of 2, 5 and 20 on pods of that trace that were left out
    """

    on_ratio: Annotated[float, Spec(within=(0.5, 1))] = 0.99
    certain_ratio: Annotated[float, Spec(within=(0.1, 0.99)), CONSTANT] = 0.9
    notebook_seconds: Annotated[float, _patience("a notebook", "docs/definitions.md, conduct")] = (
        3600.0
    )
    batch_seconds: Annotated[float, _patience("a batch job", "docs/definitions.md, conduct")] = (
        1800.0
    )
    serving_seconds: Annotated[
        float, _patience("a serving replica", "docs/definitions.md, conduct")
    ] = 7200.0
    unknown_seconds: Annotated[
        float,
        _patience(
            "a GPU whose use is not stated",
            "docs/definitions.md, sources: 90 to 120 min of waiting",
        ),
    ] = 7200.0
    usual_ratio: Annotated[float, CONSTANT] = 0.25
    minimum_days: Annotated[float, Spec(unit="days", within=(1, 30)), CONSTANT] = 2.0
    busy_ratio: Annotated[float, CONSTANT] = 0.01
    resume_seconds: Annotated[float, Spec(within=(300, None)), CONSTANT] = 1800.0
    mistake_seconds: Annotated[float, Spec(within=(0, None)), CONSTANT] = 900.0
    resume_exponent: Annotated[float, Spec(within=(0.1, 10)), CONSTANT] = 1.2
    borrowed_gaps: Annotated[float, Spec(within=(1, 1000)), CONSTANT] = 20.0


def judge(subject: CaseSubject, settings: IdleSettings) -> Finding:
    """Whether all GPUs of the workload are idle, and whether they are allocated."""
    case = subject.case
    if (early := subject.abstain_early(settings.minimum_known_seconds)) is not None:
        return early
    if case.workload_class is WorkloadClass.STANDBY:
        return subject.find_nothing("A standby is meant to be idle.")
    shares = {window.uuid: window.share(*IDLE_STATES) for window in case.windows}
    share = min(shares.values())
    evidence: dict[str, object] = {
        "idle_ratio": {uuid: round(ratio, 4) for uuid, ratio in shares.items()},
        "threshold_ratio": settings.on_ratio,
    }
    factors = direct_factors(case, share, min(settings.certain_ratio, settings.on_ratio))
    if share < settings.on_ratio:
        summary = f"{subject.name}: active {percent_text(1 - share)} of the time."
        return subject.find_nothing(summary, opposite_factors(factors), evidence)
    if _is_usual(case, settings):
        summary = f"{subject.name}: idle, as at these hours of every day."
        return subject.find_nothing(summary, opposite_factors(factors), evidence)
    soon = _outlook(case, settings)
    evidence |= soon.evidence
    if soon.is_costly(settings):
        summary = (
            f"{subject.name}: idle {percent_text(share)} of the time{soon.since}, but likely to "
            f"work again within {format_duration(settings.resume_seconds)} "
            f"({percent_text(soon.probability)})."
        )
        return subject.find_nothing(summary, opposite_factors(factors), evidence)
    risk = soon.risk
    is_serving = case.workload_class is WorkloadClass.SERVING
    action = Action.SCALE_TO_ZERO if is_serving else Action.RELEASE
    give_back = "scale to zero while no requests come" if is_serving else "give back"
    # An idle GPU costs all of its price, unless work will come back to it.
    parts = (1.0, 1.0) if soon.usual_hour is None else _idle_parts(case, share, settings)
    savings = release_savings(case, subject.market, *parts)
    reason, what = _reason(case)
    instances = _free_instances(case, reason)
    # A share of 100% adds nothing to a start time.
    is_whole = bool(soon.since) and f"{share:.0%}" == "100%"
    partly = f" {percent_text(share)} of {subject.span}{soon.since}"
    details = soon.since.removeprefix(",") if is_whole else partly
    return subject.find_problem(
        reasons=(reason,),
        action=action,
        summary=f"{subject.name}: {what}{details}{soon.habit}.",
        factors=factors,
        risk=risk,
        evidence=evidence,
        options=(
            Option(f"{give_back}: {subject.name}", risk=risk, action=action, savings=savings),
        ),
        savings=savings,
        instructions=release_instructions(case, is_held=reason is Reason.IDLE_HELD),
        affected_gpus=share * case.gpus,
        culprits=instances,
        shared_by=dict.fromkeys(instances, (SharedPart.BOARD,)),
    )


def conduct(workload: Workload | None, settings: IdleSettings) -> OpeningPolicy:
    """Opening policy by class, which decides how long idleness is tolerated."""
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


def _free_instances(case: Case, reason: Reason) -> tuple[str, ...]:
    """Uuids of MIG instances without a holder: those of one GPU are one matter."""
    is_free = reason is Reason.IDLE_EMPTY and case.workload is None
    return tuple(device.uuid for device in case.devices if is_free and device.mig is not None)


def _reason(case: Case) -> tuple[Reason, str]:
    holder = case.workload.name if case.workload else ""
    # Allocated by a scheduler on all devices, without a process on any of them.
    holdings = case.node.holdings if case.workload and case.node else {}
    if holdings and all(
        any(holding.workload.key == case.key and not holding.has_process for holding in held)
        for held in (holdings.get(device.uuid, ()) for device in case.devices)
    ):
        it = "it" if len(case.devices) == 1 else "any of them"
        what = f"allocated to {holder}, without a process on {it}, and idle"
        return Reason.ALLOCATED_WITHOUT_PROCESS, what
    if any(
        window.states.get(State.IDLE_HELD, 0) > window.states.get(State.IDLE_EMPTY, 0)
        for window in case.windows
    ):
        if holder:
            return Reason.IDLE_HELD, f"held by {holder}{_others_of(case)} but idle"
        return Reason.IDLE_HELD, "held but idle" if _shows_holding(case) else _UNSEEN_HOLDER
    return Reason.IDLE_EMPTY, "empty and idle"


def _others_of(case: Case) -> str:
    """Other holders of the GPUs, all of which must give them back."""
    holdings = case.node.holdings if case.node else {}
    held = (holding for device in case.devices for holding in holdings.get(device.uuid, ()))
    names = sorted({holding.workload.name for holding in held if holding.workload.key != case.key})
    if len(names) > _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return f", shared with {', '.join(names)}," if names else ""


_NAMED: Final = 3
_UNSEEN_HOLDER: Final = (
    "idle (neither memory nor processes are read, so whether anything holds it is not known)"
)


def _shows_holding(case: Case) -> bool:
    """Whether any signal was read that shows an unknown holder."""
    readings = case.node.readings.values() if case.node else ()
    return any(Resource.MEMORY in window.demands for window in case.windows) or any(
        reading.processes is not None or Signal.MEMORY_USED_BYTES in reading.values
        for reading in readings
    )


def _is_usual(case: Case, settings: IdleSettings) -> bool:
    """Whether a service is usually idle at the hours of the case."""
    # The shape is computed from a month of blocks, so only for services.
    shape = case.shape() if case.workload_class is WorkloadClass.SERVING else None
    if shape is None or not shape.is_daily or shape.known_days < settings.minimum_days:
        return False
    means = shape.hours_of_day
    busiest = max(mean or 0.0 for mean in means)
    first = min(window.start // HOUR for window in case.windows)
    last = max((window.end - 1) // HOUR for window in case.windows)
    usual = [means[hour % DAY_HOURS] for hour in range(first, min(last, first + DAY_HOURS) + 1)]
    return all(mean is not None and mean <= settings.usual_ratio * busiest for mean in usual)


class _IdleOutlook(Struct, frozen=True):
    probability: float
    risk: Risk
    since: str
    """Start of the idle time for a summary; empty if not observed."""
    evidence: dict[str, object]
    usual_hour: int | None
    """Hour of the day at which it usually resumes; `None` without such a habit."""

    @property
    def habit(self) -> str:
        """Usual time of resuming for a summary; empty without one."""
        hour = self.usual_hour
        return "" if hour is None else f"; usually resumes at {hour:02d}:00 UTC"

    def is_costly(self, settings: IdleSettings) -> bool:
        """Whether a mistaken release costs more than a release saves, on average."""
        cost = self.probability * settings.mistake_seconds
        return cost >= (1.0 - self.probability) * settings.resume_seconds


def _outlook(case: Case, settings: IdleSettings) -> _IdleOutlook:
    limit = settings.busy_ratio * len(case.devices)
    series = case.remembered.series(Measure.BUSY)
    gaps = case.idle_gaps(limit)
    within = settings.resume_seconds
    running = gaps[-1] if gaps and not gaps[-1].has_ended else None
    model = resumption_of(case, gaps[:-1] if running else gaps, settings)
    # With known blocks, the last of them not idle, it was working just now.
    is_remembered = len(series.numbers) > 0
    idle = running.seconds if running else 0.0 if is_remembered else case.known_seconds
    probability = model.probability(idle, within)
    bound = model.upper_bound(idle, within)
    since = ""
    hour = None
    evidence: dict[str, object] = {
        "resume_ratio": round(probability, 4),
        "resume_upper_bound_ratio": round(bound, 4),
        "resume_within_seconds": within,
        "resume_gaps": sum(gap.has_ended for gap in gaps),
    }
    if running is not None:
        moment = datetime.fromtimestamp(seconds(running.start), UTC)
        evidence["idle_since"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        since = f", since {utc_text(seconds(running.start))}"
        end = max(window.end for window in case.windows)
        hour = usual_hour(series, limit, running.start, end)
        evidence |= {} if hour is None else {"usual_hour": hour}
    return _IdleOutlook(probability, risk_under(bound), since, evidence, hour)


def resumption_of(case: Case, gaps: tuple[IdleGap, ...], settings: IdleSettings) -> ResumptionModel:
    """Resumption model of a workload from its own gaps, and others' as prior, its class first.

    Excludes the current gap, which was selected for its length.
    """
    others = [
        other_case
        for other_case in (case.node.cases if case.node else ())
        if other_case.key != case.key
    ]
    others.sort(key=lambda other_case: other_case.workload_class is not case.workload_class)
    past = [
        (other_case.workload_class, _gaps(other_case, settings))
        for other_case in others[:_MOST_OTHERS]
        if other_case.workload is not None
    ]
    model = ResumptionModel.of_prior(settings.resume_exponent, settings.borrowed_gaps)
    model = model.after(gap for _, idle_gaps in past for gap in idle_gaps)
    model = model.borrowed(settings.borrowed_gaps)
    model = model.after(
        gap for kind, idle_gaps in past if kind is case.workload_class for gap in idle_gaps
    )
    return model.borrowed(settings.borrowed_gaps).after(gaps)


def _gaps(case: Case, settings: IdleSettings) -> tuple[IdleGap, ...]:
    return case.idle_gaps(settings.busy_ratio * len(case.devices))


def _idle_parts(case: Case, share: float, settings: IdleSettings) -> tuple[float, float]:
    """Lower and upper bound of a workload's idle share, by its history.

    The number of days is the sample size, since hours of a diurnal load are not independent.
    """
    limit = settings.busy_ratio * len(case.devices)
    series = case.remembered.series(Measure.BUSY)
    if (past := series.total_seconds) > 0.0:
        blocks = zip(series.known_seconds, series.means, strict=True)
        share = sum(known_seconds for known_seconds, mean in blocks if mean < limit) / past
    days = max(past, case.known_seconds) / DAY_SECONDS
    return 1.0 - upper_bound(1.0 - share, days, _LEVEL), upper_bound(share, days, _LEVEL)


_MOST_PROCESSES: Final = 8
"""Longer commands would not be reviewed in full."""


def release_instructions(case: Case, *, is_held: bool = True) -> tuple[Instruction, ...]:
    """Command to end the workload, or to scale it to zero, for review.

    Without a workload, how to find what holds the GPUs, or how to return empty ones. Empty if
    the owner of the processes is unknown.
    """
    workload = case.workload
    node = case.node
    if workload is None and is_held:
        return tuple(instruction("find_holder", device.board_uuid) for device in case.devices)
    if workload is None:
        return instructions("return_empty")
    uuids = [device.uuid for device in case.devices]
    holders = {workload.key: workload}
    holdings = node.holdings if node else {}
    for uuid in uuids:
        for holding in holdings.get(uuid, ()):
            holders.setdefault(holding.workload.key, holding.workload)
    releases = tuple(
        instruction
        for holder in holders.values()
        for instruction in owner_of(holder.kind).release(holder)
    )
    if releases or node is None:
        return releases
    if any(len(node.holdings.get(uuid, ())) != 1 for uuid in uuids):
        return ()
    readings = [node.readings[uuid] for uuid in uuids if uuid in node.readings]
    pids = {process.pid for reading in readings for process in reading.processes or ()}
    if not pids or len(pids) > _MOST_PROCESSES:
        return ()
    command = " ".join(["kill", *map(str, sorted(pids))])
    return shell("End the processes on these GPUs, after asking their user", command)


def screen(table: SubjectTable, settings: IdleSettings) -> Screen:
    """Settle which subjects are at work."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    yield well(table.is_of(WorkloadClass.STANDBY))
    yield well(table.share(*IDLE_STATES) < settings.on_ratio - ROUNDING)


RULE: Final = Rule("idle", IdleSettings(), judge, screen, opening_policy_with=conduct)

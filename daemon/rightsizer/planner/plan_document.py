"""JSON documents of a plan: candidates, bills, alternatives, growth, measured figures."""

from msgspec import UNSET, Struct, UnsetType

from rightsizer.io.codec import FlatDocument
from rightsizer.planner.candidate import Bill, CostAmount, PlanCandidate
from rightsizer.planner.cost_blocks import shortcomings
from rightsizer.planner.curve import CurvePoint
from rightsizer.planner.growth import GpuSwitch, GrowingKind, GrowthOutlook
from rightsizer.planner.launch import Launch, launch_of
from rightsizer.planner.plan_check import FigureComparison, PlanCheck
from rightsizer.planner.planner import GpuPlan
from rightsizer.planner.rental import Rental
from rightsizer.planner.validation import ValidationStep, validation_steps
from rightsizer.sizing.engine import ENGINES
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.memory_estimate import MemoryEstimate, MemoryParts
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import ModelTask, Parallelism, TrainingFramework
from rightsizer.sizing.site import SiteAdjustment


class FigureDocument(FlatDocument):
    """Figure and its interval; null if unknown, and for infinite ends."""

    value: float | None
    low: float | None
    high: float | None


class WorkDocument(FlatDocument):
    """Amount per hour, and per unit of work."""

    per_hour: FigureDocument | UnsetType
    per_million_tokens: FigureDocument
    per_image: FigureDocument
    per_training: FigureDocument


class PriceOfferDocument(Struct, frozen=True):
    """One way to obtain the GPUs."""

    billing: str
    cost: WorkDocument
    source: str | None
    date: str | None
    assumed: bool


class OwnershipDocument(Struct, frozen=True):
    """Cost of buying the GPUs."""

    capital_dollars: FigureDocument
    running_dollars_per_hour: FigureDocument
    break_even_hours: FigureDocument
    break_even_months: FigureDocument
    utilization_ratio: float


class EnergyDocument(Struct, frozen=True):
    """Energy at the meter of the building."""

    kilowatts: FigureDocument
    kilowatt_hours: WorkDocument


class CarbonDocument(Struct, frozen=True):
    """Carbon of that energy."""

    grams_per_kwh: float | None
    kilograms: WorkDocument


class BillDocument(Struct, frozen=True):
    """Offers, ownership, energy and carbon."""

    offers: tuple[PriceOfferDocument, ...]
    on_premises: OwnershipDocument | None
    energy: EnergyDocument
    carbon: CarbonDocument | None


class MemoryDocument(MemoryParts, frozen=True, kw_only=True):
    """Memory of one GPU, in bytes."""

    allocated_bytes: float
    total_bytes: FigureDocument


class RentalDocument(Struct, frozen=True):
    """Instances that contain the GPUs of a candidate."""

    provider: str
    instance: str
    gpus: int
    count: int
    cost_per_hour: float | None
    date: str | None
    source: str | None


class CandidateDocument(Struct, frozen=True):
    """One candidate."""

    gpu: str
    count: int
    paid_count: int
    rental: RentalDocument | None
    layout: Parallelism
    fits: bool
    fits_memory: bool
    format: str | None
    format_note: str | None
    reasons: tuple[str, ...]
    memory: MemoryDocument
    memory_headroom_ratio: float
    memory_is_tight: bool
    memory_probability: float
    concurrency: float | None
    tokens_per_second: FigureDocument
    ttft_ms: FigureDocument
    tpot_ms: FigureDocument
    targets_probability: float | None
    load_probability: float | None
    cost_per_hour: FigureDocument
    cost_per_million_tokens: FigureDocument
    cost_per_million_tokens_asked: FigureDocument
    cost_per_million_tokens_sure: float | None
    certainty: float
    is_sure: bool
    training_hours: FigureDocument
    mfu_ratio: float | None
    bound: str | None
    no_rate_because: str | None
    costs: BillDocument | None
    sole_cloud: str | None
    rank: int | None
    adjusted: SiteAdjustment | UnsetType
    """By measurements of a site, if there are any."""
    why_not_first: tuple[str, ...] | UnsetType
    """Of the candidates of a plan alone."""


class AlternativeDocument(Struct, frozen=True):
    """Change of the requirement, with its result."""

    kind: str
    change: str
    caution: str | None
    candidate: CandidateDocument
    prompts: CandidateDocument | None


class CurvePointDocument(Struct, frozen=True):
    """What a rate within some latencies costs."""

    rate_ratio: float
    latency_ratio: float
    requests_per_second: float | None
    concurrency: float | None
    ttft_ms_asked: float | UnsetType
    tpot_ms_asked: float | UnsetType
    latency_ms_asked: float | UnsetType
    gpu: str
    count: int
    layout: Parallelism
    certainty: float
    cost_per_hour: FigureDocument


class GrowthStepDocument(Struct, frozen=True):
    """GPUs from a month on."""

    month: int
    load_ratio: float
    gpu: str
    count: int
    layout: Parallelism
    fits: bool
    cost_per_hour: FigureDocument


class GrowingKindDocument(Struct, frozen=True):
    """One kind of GPU over all months."""

    gpu: str
    count_first: int
    count_last: int
    cost_of_all_months: FigureDocument
    outgrown_in_month: int | None


class OutlookDocument(Struct, frozen=True):
    """Kinds of GPU under a growing load."""

    months: int
    outgrown_in_month: int | None
    cheapest: str | None
    switch: GpuSwitch | None
    kinds: tuple[GrowingKindDocument, ...]


class LaunchDocument(Struct, frozen=True):
    """Commands that run a plan."""

    model: str
    command: tuple[str, ...]
    servers: int
    server_gpus: int
    nodes: int
    verify: tuple[str, ...]
    notes: tuple[str, ...]
    text: str
    """The command in one line, for people."""


class PlanDocument(Struct, frozen=True):
    """A plan; unknown figures are null."""

    model: str | None
    task: ModelTask
    unit: str
    requests_per_second: float | None
    tokens_per_step: float | None
    memory: MemoryDocument
    engine: str | None
    """Name and version of the serving engine, for models that use one."""
    framework: TrainingFramework | None
    nothing_fits: str | None
    least: CandidateDocument | None
    candidates: tuple[CandidateDocument, ...]
    sure_ratio: float
    alternatives: tuple[AlternativeDocument, ...]
    curve: tuple[CurvePointDocument, ...]
    growth: tuple[GrowthStepDocument, ...]
    growth_outlook: OutlookDocument | None
    validation: tuple[ValidationStep, ...]
    launch: LaunchDocument | None
    notes: tuple[str, ...]


class ComparisonDocument(Struct, frozen=True):
    """One figure, predicted and measured."""

    what: str
    unit: str
    measured: float
    predicted: FigureDocument
    ratio: float | None
    as_predicted: bool | None
    remark: str | None


class CheckDocument(Struct, frozen=True):
    """A prediction and its measurement."""

    candidate: CandidateDocument
    comparisons: tuple[ComparisonDocument, ...]


def figure_document(interval: EstimateInterval | None) -> FigureDocument:
    """Return a figure and its interval."""
    return _figure(None if interval is None else interval.value, interval)


def _figure(dollars: float | None, interval: EstimateInterval | None) -> FigureDocument:
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return FigureDocument(value=dollars, low=ends[0], high=ends[1])


def _hourly(candidate: PlanCandidate) -> FigureDocument:
    return _figure(candidate.dollars_per_hour, candidate.hourly_range)


def _work(amount: CostAmount, per_hour: FigureDocument | UnsetType) -> WorkDocument:
    return WorkDocument(
        per_hour=per_hour,
        per_million_tokens=figure_document(amount.per_million),
        per_image=figure_document(amount.per_image),
        per_training=figure_document(amount.per_run),
    )


def _bill(bill: Bill) -> BillDocument:
    carbon = bill.carbon_kilograms
    ownership = bill.ownership
    return BillDocument(
        offers=tuple(
            PriceOfferDocument(
                billing=offer.terms.billing,
                cost=_work(offer.dollars, figure_document(offer.dollars.per_hour)),
                source=offer.terms.source or None,
                date=offer.terms.date or None,
                assumed=offer.terms.is_assumed,
            )
            for offer in bill.offers
        ),
        on_premises=None
        if ownership is None
        else OwnershipDocument(
            capital_dollars=figure_document(ownership.owned.capital_dollars),
            running_dollars_per_hour=figure_document(ownership.owned.running_dollars_per_hour),
            break_even_hours=figure_document(ownership.break_even_hours),
            break_even_months=figure_document(ownership.break_even_months),
            utilization_ratio=ownership.utilization_ratio,
        ),
        energy=EnergyDocument(
            figure_document(bill.kilowatt_hours.per_hour),
            _work(bill.kilowatt_hours, UNSET),
        ),
        carbon=None
        if carbon is None
        else CarbonDocument(
            bill.carbon_grams_per_kilowatt_hour, _work(carbon, figure_document(carbon.per_hour))
        ),
    )


def plan_document(plan: GpuPlan, notes: tuple[str, ...] = ()) -> PlanDocument:
    """Return a plan."""
    requirement = plan.requirement
    best = plan.best
    launch = None if best is None else launch_of(requirement, best)
    return PlanDocument(
        model=requirement.model.name or None,
        task=requirement.task,
        unit=requirement.unit_text,
        requests_per_second=requirement.requests_per_second,
        tokens_per_step=None if requirement.task.trains else requirement.load.tokens_per_step,
        memory=_memory(plan.memory),
        engine=f"{requirement.engine} {ENGINES[requirement.engine].version}"
        if isinstance(requirement.model, Transformer) and not requirement.task.trains
        else None,
        framework=requirement.training.framework,
        nothing_fits=plan.why_nothing_fits or None,
        least=None if plan.least is None else candidate_document(plan.least),
        candidates=tuple(
            candidate_document(candidate, _why_not_first(plan, candidate))
            for candidate in plan.candidates
        ),
        sure_ratio=requirement.load.certainty,
        alternatives=tuple(
            AlternativeDocument(
                kind=alternative.kind,
                change=alternative.change,
                caution=alternative.caution or None,
                candidate=candidate_document(alternative.candidate),
                prompts=None
                if alternative.prompts is None
                else candidate_document(alternative.prompts),
            )
            for alternative in plan.alternatives
        ),
        curve=tuple(map(_point, plan.curve)),
        growth=tuple(
            GrowthStepDocument(
                month=step.month,
                load_ratio=step.load_ratio,
                gpu=step.candidate.gpu,
                count=step.candidate.count,
                layout=step.candidate.layout,
                fits=step.candidate.fits,
                cost_per_hour=_hourly(step.candidate),
            )
            for step in plan.growth
        ),
        growth_outlook=None if plan.outlook is None else _outlook(plan, plan.outlook),
        validation=() if best is None else validation_steps(requirement, best),
        launch=None if launch is None else _launch(launch),
        notes=notes,
    )


def _why_not_first(plan: GpuPlan, candidate: PlanCandidate) -> tuple[str, ...]:
    first = plan.candidates[0]
    return tuple(shortcomings(plan.requirement, first, candidate)) if candidate.fits else ()


def _launch(launch: Launch) -> LaunchDocument:
    return LaunchDocument(
        model=launch.model,
        command=launch.command,
        servers=launch.servers,
        server_gpus=launch.server_gpus,
        nodes=launch.nodes,
        verify=launch.verify,
        notes=launch.notes,
        text=launch.text,
    )


def _rental(rental: Rental) -> RentalDocument:
    instance = rental.instance
    return RentalDocument(
        provider=instance.provider,
        instance=instance.name,
        gpus=instance.gpus,
        count=rental.count,
        cost_per_hour=rental.dollars_per_hour,
        date=instance.date or None,
        source=instance.source or None,
    )


def candidate_document(
    candidate: PlanCandidate, why_not_first: tuple[str, ...] | UnsetType = UNSET
) -> CandidateDocument:
    """Return one candidate."""
    rate = candidate.rate
    full_load = None if candidate.rented is None else candidate.rented.per_million
    asked = candidate.dollars_per_million
    return CandidateDocument(
        gpu=candidate.gpu,
        count=candidate.count,
        paid_count=candidate.paid_count,
        rental=None if candidate.rental is None else _rental(candidate.rental),
        layout=candidate.layout,
        fits=candidate.fits,
        fits_memory=candidate.fits_memory,
        format=None if candidate.format is None else candidate.format.name,
        format_note=None if candidate.format is None else candidate.format.note,
        reasons=tuple(map(str, candidate.rejections)),
        memory=_memory(candidate.memory),
        memory_headroom_ratio=candidate.memory_headroom_ratio,
        memory_is_tight=candidate.is_memory_tight,
        memory_probability=candidate.memory_probability,
        concurrency=rate.concurrency,
        tokens_per_second=figure_document(rate.units_per_second),
        ttft_ms=figure_document(rate.ttft_ms),
        tpot_ms=figure_document(rate.tpot_ms),
        targets_probability=rate.targets_probability,
        load_probability=rate.load_probability,
        cost_per_hour=_hourly(candidate),
        cost_per_million_tokens=_figure(candidate.full_load_dollars_per_million, full_load),
        cost_per_million_tokens_asked=_figure(asked, candidate.million_range),
        cost_per_million_tokens_sure=candidate.sure_dollars_per_million,
        certainty=candidate.certainty,
        is_sure=candidate.is_sure,
        training_hours=figure_document(rate.training_hours),
        mfu_ratio=rate.mfu_ratio,
        bound=rate.bound or None,
        no_rate_because=rate.missing or None,
        costs=None if candidate.bill is None else _bill(candidate.bill),
        sole_cloud=candidate.sole_cloud or None,
        rank=candidate.rank,
        adjusted=candidate.adjustment or UNSET,
        why_not_first=why_not_first,
    )


def _memory(memory: MemoryEstimate) -> MemoryDocument:
    return MemoryDocument(
        weights_bytes=memory.weights_bytes,
        kv_cache_bytes=memory.kv_cache_bytes,
        activations_bytes=memory.activations_bytes,
        gradients_bytes=memory.gradients_bytes,
        optimizer_bytes=memory.optimizer_bytes,
        overhead_bytes=memory.overhead_bytes,
        outside_bytes=memory.outside_bytes,
        device_bytes=memory.device_bytes,
        allocated_bytes=memory.allocated.value,
        total_bytes=_figure(memory.total_bytes, memory.total),
    )


def _point(point: CurvePoint) -> CurvePointDocument:
    candidate = point.candidate
    load = point.load
    return CurvePointDocument(
        rate_ratio=point.rate_ratio,
        latency_ratio=point.latency_ratio,
        requests_per_second=point.requests_per_second,
        concurrency=load.concurrency,
        ttft_ms_asked=load.ttft_ms or UNSET,
        tpot_ms_asked=load.tpot_ms or UNSET,
        latency_ms_asked=load.latency_ms or UNSET,
        gpu=candidate.gpu,
        count=candidate.count,
        layout=candidate.layout,
        certainty=candidate.certainty,
        cost_per_hour=_hourly(candidate),
    )


def _outlook(plan: GpuPlan, outlook: GrowthOutlook) -> OutlookDocument:
    return OutlookDocument(
        months=outlook.kinds[0].months,
        outgrown_in_month=outlook.outgrown,
        cheapest=None if outlook.cheapest is None else outlook.cheapest.gpu,
        switch=outlook.switch,
        kinds=tuple(
            GrowingKindDocument(
                gpu=kind.gpu,
                count_first=kind.steps[0].candidate.count,
                count_last=kind.steps[-1].candidate.count,
                cost_of_all_months=_figure(_span_dollars(kind), plan.span_dollars(kind)),
                outgrown_in_month=kind.outgrown,
            )
            for kind in outlook.kinds
        ),
    )


def _span_dollars(kind: GrowingKind) -> float | None:
    return kind.dollars() if kind.outgrown is None else None


def check_document(measured: PlanCheck) -> CheckDocument:
    """Return a prediction and its measurement."""
    comparisons = tuple(map(comparison_document, measured.comparisons))
    return CheckDocument(candidate_document(measured.candidate), comparisons)


def comparison_document(figure: FigureComparison) -> ComparisonDocument:
    """Return one figure, predicted and measured."""
    return ComparisonDocument(
        what=figure.what,
        unit=figure.unit,
        measured=figure.measured,
        predicted=figure_document(figure.predicted),
        ratio=figure.ratio,
        as_predicted=figure.is_as_predicted,
        remark=figure.remark or None,
    )

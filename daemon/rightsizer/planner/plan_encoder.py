"""JSON encoder of a plan: candidates, bills, alternatives, growth, measured figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from rightsizer.io.codec import to_json
from rightsizer.planner.candidate import Bill, CostAmount, PlanCandidate
from rightsizer.planner.cost_blocks import shortcomings
from rightsizer.planner.growth import GrowthOutlook
from rightsizer.planner.launch import launch_of
from rightsizer.planner.planner import GpuPlan
from rightsizer.planner.rental import Rental
from rightsizer.planner.validation import validation_steps
from rightsizer.sizing.engine import ENGINES
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.models import Transformer

if TYPE_CHECKING:
    from rightsizer.planner.curve import CurvePoint
    from rightsizer.planner.plan_check import FigureComparison, PlanCheck


def encode_bill(bill: Bill) -> dict[str, Any]:
    """Encode offers, ownership, energy and carbon; unknown values are null."""
    carbon = bill.carbon_kilograms
    ownership = bill.ownership
    return {
        "offers": [
            {
                "billing": str(offer.terms.billing),
                **_encode_work("cost_per_hour", "cost", offer.dollars),
                "source": offer.terms.source or None,
                "date": offer.terms.date or None,
                "assumed": offer.terms.is_assumed,
            }
            for offer in bill.offers
        ],
        "on_premises": None
        if ownership is None
        else {
            **encode_interval("capital_dollars", ownership.owned.capital_dollars),
            **encode_interval("running_dollars_per_hour", ownership.owned.running_dollars_per_hour),
            **encode_interval("break_even_hours", ownership.break_even_hours),
            **encode_interval("break_even_months", ownership.break_even_months),
            "utilization_ratio": ownership.utilization_ratio,
        },
        "energy": _encode_work("kilowatts", "kilowatt_hours", bill.kilowatt_hours),
        "carbon": None
        if carbon is None
        else {
            "grams_per_kwh": bill.carbon_grams_per_kilowatt_hour,
            **_encode_work("kilograms_per_hour", "kilograms", carbon),
        },
    }


def encode_interval(name: str, interval: EstimateInterval | None) -> dict[str, float | None]:
    """Encode a figure and its interval; infinite ends are null."""
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
    return {name: interval.value, f"{name}_low": low, f"{name}_high": high}


def _encode_work(hourly: str, name: str, amount: CostAmount) -> dict[str, float | None]:
    """Encode an hourly amount under one key, and amounts per unit of work under others."""
    return {
        **encode_interval(hourly, amount.per_hour),
        **encode_interval(f"{name}_per_million_tokens", amount.per_million),
        **encode_interval(f"{name}_per_image", amount.per_image),
        **encode_interval(f"{name}_per_training", amount.per_run),
    }


def encode_plan(plan: GpuPlan, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Encode a plan; unknown figures are null."""
    best = plan.best
    outlook = plan.outlook
    trains = plan.requirement.task.trains
    steps = () if best is None else validation_steps(plan.requirement, best)
    launch = None if best is None else launch_of(plan.requirement, best)
    return {
        "model": plan.requirement.model.name or None,
        "task": str(plan.requirement.task),
        "unit": plan.requirement.unit_text,
        "requests_per_second": plan.requirement.requests_per_second,
        "tokens_per_step": None if trains else plan.requirement.load.tokens_per_step,
        "memory": encode_memory(plan.memory),
        "engine": _engine(plan),
        "framework": plan.requirement.training.framework,
        "nothing_fits": plan.why_nothing_fits or None,
        "least": None if plan.least is None else encode_candidate(plan.least),
        "candidates": [
            {**encode_candidate(candidate), "why_not_first": _why_not_first(best, candidate)}
            for candidate in plan.candidates
        ],
        "sure_ratio": plan.requirement.load.certainty,
        "alternatives": [
            {
                "kind": alternative.kind,
                "change": alternative.change,
                "caution": alternative.caution or None,
                "candidate": encode_candidate(alternative.candidate),
                "prompts": None
                if alternative.prompts is None
                else encode_candidate(alternative.prompts),
            }
            for alternative in plan.alternatives
        ],
        "curve": list(map(_encode_point, plan.curve)),
        "growth": [
            {
                "month": step.month,
                "load_ratio": step.load_ratio,
                "gpu": step.candidate.gpu,
                "count": step.candidate.count,
                "layout": to_json(step.candidate.layout),
                "fits": step.candidate.fits,
                **_hourly(step.candidate),
            }
            for step in plan.growth
        ],
        "growth_outlook": None if outlook is None else _encode_outlook(plan, outlook),
        "validation": to_json(steps),
        "launch": None if launch is None else {**to_json(launch), "text": launch.text},
        "notes": list(notes),
    }


def _why_not_first(best: PlanCandidate | None, candidate: PlanCandidate) -> list[str]:
    return [] if best is None or not candidate.fits else list(shortcomings(best, candidate))


def _engine(plan: GpuPlan) -> str | None:
    """Return name and version of the serving engine, for models that use one."""
    requirement = plan.requirement
    if requirement.task.trains or not isinstance(requirement.model, Transformer):
        return None
    return f"{requirement.engine} {ENGINES[requirement.engine].version}"


def _encode_rental(rental: Rental) -> dict[str, Any]:
    instance = rental.instance
    return {
        "provider": instance.provider,
        "instance": instance.name,
        "gpus": instance.gpus,
        "count": rental.count,
        "cost_per_hour": rental.dollars_per_hour,
        "date": instance.date or None,
        "source": instance.source or None,
    }


def encode_candidate(candidate: PlanCandidate) -> dict[str, Any]:
    """Encode one candidate."""
    rate = candidate.rate
    full_load = None if candidate.rented is None else candidate.rented.per_million
    return {
        "gpu": candidate.gpu,
        "count": candidate.count,
        "paid_count": candidate.paid_count,
        "rental": None if candidate.rental is None else _encode_rental(candidate.rental),
        "layout": to_json(candidate.layout),
        "fits": candidate.fits,
        "fits_memory": candidate.fits_memory,
        "format": candidate.format and candidate.format.name,
        "format_note": candidate.format and candidate.format.note,
        "reasons": [str(rejection) for rejection in candidate.rejections],
        "memory": encode_memory(candidate.memory),
        "memory_headroom_ratio": candidate.memory_headroom_ratio,
        "memory_is_tight": candidate.is_memory_tight,
        "memory_probability": candidate.memory_probability,
        "concurrency": rate.concurrency,
        **encode_interval("tokens_per_second", rate.units_per_second),
        **encode_interval("ttft_ms", rate.ttft_ms),
        **encode_interval("tpot_ms", rate.tpot_ms),
        "targets_probability": rate.targets_probability,
        "load_probability": rate.load_probability,
        **_hourly(candidate),
        **_priced("cost_per_million_tokens", candidate.full_load_dollars_per_million, full_load),
        **_priced(
            "cost_per_million_tokens_asked", candidate.dollars_per_million, candidate.million_range
        ),
        "cost_per_million_tokens_sure": candidate.sure_dollars_per_million,
        "certainty": candidate.certainty,
        "is_sure": candidate.is_sure,
        **encode_interval("training_hours", rate.training_hours),
        "mfu_ratio": rate.mfu_ratio,
        "bound": rate.bound or None,
        "no_rate_because": rate.missing or None,
        "costs": None if candidate.bill is None else encode_bill(candidate.bill),
        "sole_cloud": candidate.sole_cloud or None,
        "rank": candidate.rank,
        **_adjusted(candidate),
    }


def _adjusted(candidate: PlanCandidate) -> dict[str, Any]:
    """Encode the correction by a site's measurements; nothing without any."""
    adjustment = candidate.adjustment
    return {} if adjustment is None else {"adjusted": to_json(adjustment)}


def _hourly(candidate: PlanCandidate) -> dict[str, float | None]:
    return _priced("cost_per_hour", candidate.dollars_per_hour, candidate.hourly_range)


def _priced(
    name: str, dollars: float | None, interval: EstimateInterval | None
) -> dict[str, float | None]:
    return encode_interval(name, interval) | {name: dollars}


def encode_memory(memory: MemoryEstimate) -> dict[str, float]:
    """Encode the memory of one GPU."""
    parts = {name: part for name, part in asdict(memory).items() if name.endswith("_bytes")}
    low = memory.total.low
    high = memory.total.high
    allocated = {"allocated_bytes": memory.allocated.value}
    total = {"total_bytes": memory.total_bytes, "total_bytes_low": low, "total_bytes_high": high}
    return parts | allocated | total


def _encode_point(point: CurvePoint) -> dict[str, Any]:
    candidate = point.candidate
    return {
        "rate_ratio": point.rate_ratio,
        "latency_ratio": point.latency_ratio,
        "requests_per_second": point.requests_per_second,
        "concurrency": point.load.concurrency,
        **{f"{name}_asked": limit for name, limit in point.limits.items()},
        "gpu": candidate.gpu,
        "count": candidate.count,
        "layout": to_json(candidate.layout),
        "certainty": candidate.certainty,
        **_hourly(candidate),
    }


def _encode_outlook(plan: GpuPlan, outlook: GrowthOutlook) -> dict[str, Any]:
    cheapest = outlook.cheapest
    return {
        "months": outlook.kinds[0].months,
        "outgrown_in_month": outlook.outgrown,
        "cheapest": None if cheapest is None else cheapest.gpu,
        "switch": to_json(outlook.switch),
        "kinds": [
            {
                "gpu": kind.gpu,
                "count_first": kind.steps[0].candidate.count,
                "count_last": kind.steps[-1].candidate.count,
                **_priced(
                    "cost_of_all_months",
                    kind.dollars() if kind.outgrown is None else None,
                    plan.span_dollars(kind),
                ),
                "outgrown_in_month": kind.outgrown,
            }
            for kind in outlook.kinds
        ],
    }


def encode_plan_check(measured: PlanCheck) -> dict[str, Any]:
    """Encode a prediction and its measurement."""
    return {
        "candidate": encode_candidate(measured.candidate),
        "comparisons": [encode_comparison(comparison) for comparison in measured.comparisons],
    }


def encode_comparison(figure: FigureComparison) -> dict[str, Any]:
    """Encode one figure, predicted and measured."""
    return {
        "what": figure.what,
        "unit": figure.unit,
        "measured": figure.measured,
        **encode_interval("predicted", figure.predicted),
        "ratio": figure.ratio,
        "as_predicted": figure.is_as_predicted,
        "remark": figure.remark or None,
    }

"""JSON encoder of a plan: candidates, bills, alternatives, growth, measured figures."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rightsizer.planner.alternatives import Alternative
from rightsizer.planner.candidate import Bill, CostAmount, PlanCandidate, PriceOffer
from rightsizer.planner.growth import GrowingKind, GrowthOutlook, GrowthStep
from rightsizer.planner.planner import GpuPlan
from rightsizer.planner.validation import validation_steps
from rightsizer.sizing.estimate import EstimateInterval, MemoryEstimate

if TYPE_CHECKING:
    from rightsizer.planner.plan_check import PlanCheck


_PARTS: Final = (
    ("per_million", "per_million_tokens"),
    ("per_image", "per_image"),
    ("per_run", "per_training"),
)
"""What is done in an hour, with what keys of it end in."""


def encode_bill(bill: Bill) -> dict[str, Any]:
    """Offers, ownership, energy and carbon; what is not known is null."""
    carbon, ownership = bill.carbon_kilograms, bill.ownership
    return {
        "offers": [_offer_form(each) for each in bill.offers],
        "on_premises": None
        if ownership is None
        else {
            **encode_interval("capital_dollars", ownership.owned.capital_dollars),
            **encode_interval("running_dollars_per_hour", ownership.owned.running_dollars_per_hour),
            **encode_interval("break_even_hours", ownership.break_even_hours),
            **encode_interval("break_even_months", ownership.break_even_months),
            "utilization_ratio": ownership.utilization_ratio,
        },
        "energy": {
            **encode_interval("kilowatts", bill.kilowatt_hours.per_hour),
            **_work_form("kilowatt_hours", bill.kilowatt_hours),
        },
        "carbon": None
        if carbon is None
        else {
            "grams_per_kwh": bill.carbon_grams_per_kilowatt_hour,
            **encode_interval("kilograms_per_hour", carbon.per_hour),
            **_work_form("kilograms", carbon),
        },
    }


def encode_interval(name: str, interval: EstimateInterval | None) -> dict[str, float | None]:
    """A figure and the ends of where it lies; an end that is nowhere is null."""
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {
        name: interval.value,
        f"{name}_low": interval.low if math.isfinite(interval.low) else None,
        f"{name}_high": interval.high if math.isfinite(interval.high) else None,
    }


def _offer_form(offer: PriceOffer) -> dict[str, Any]:
    terms = offer.terms
    return {
        "billing": str(terms.billing),
        **encode_interval("cost_per_hour", offer.dollars.per_hour),
        **_work_form("cost", offer.dollars),
        "source": terms.source or None,
        "date": terms.date or None,
        "assumed": terms.is_assumed,
    }


def _work_form(name: str, amount: CostAmount) -> dict[str, float | None]:
    return {
        key: value
        for part, ending in _PARTS
        for key, value in encode_interval(f"{name}_{ending}", getattr(amount, part)).items()
    }


def encode_plan(plan: GpuPlan, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """All of it; figures that are not known are null."""
    best = plan.best
    steps = () if best is None else validation_steps(plan.requirement, best)
    return {
        "model": plan.requirement.model.name or None,
        "task": str(plan.requirement.task),
        "memory": encode_memory(plan.memory),
        "nothing_fits": plan.why_nothing_fits or None,
        "least": None if plan.least is None else encode_candidate(plan.least),
        "candidates": [encode_candidate(each) for each in plan.candidates],
        "alternatives": [_alternative_form(each) for each in plan.alternatives],
        "growth": [_growth_form(each) for each in plan.growth],
        "growth_outlook": None if plan.outlook is None else _outlook_form(plan.outlook),
        "validation": [
            {**asdict(each), "measure": list(each.measure), "expect": list(each.expect)}
            for each in steps
        ],
        "notes": list(notes),
    }


def encode_candidate(candidate: PlanCandidate) -> dict[str, Any]:
    """One candidate."""
    rate = candidate.rate
    return {
        "gpu": candidate.gpu,
        "count": candidate.count,
        "layout": asdict(candidate.layout),
        "fits": candidate.fits,
        "fits_memory": candidate.fits_memory,
        "reasons": [str(each) for each in candidate.rejections],
        "memory": encode_memory(candidate.memory),
        "memory_headroom_ratio": candidate.memory_headroom_ratio,
        "memory_is_tight": candidate.is_memory_tight,
        "concurrency": rate.concurrency,
        **encode_interval("tokens_per_second", rate.tokens_per_second),
        **encode_interval("ttft_ms", rate.ttft_ms),
        **encode_interval("tpot_ms", rate.tpot_ms),
        "cost_per_hour": candidate.dollars_per_hour,
        "cost_per_million_tokens": candidate.dollars_per_million_tokens,
        "cost_per_million_tokens_asked": candidate.work_dollars,
        **encode_interval("training_hours", rate.training_hours),
        "mfu_ratio": rate.mfu_ratio,
        "bound": rate.bound or None,
        "no_rate_because": rate.missing or None,
        "costs": None if candidate.bill is None else encode_bill(candidate.bill),
        "rank": candidate.rank,
    }


def encode_memory(memory: MemoryEstimate) -> dict[str, float]:
    """Of one GPU."""
    parts = {name: part for name, part in asdict(memory).items() if name.endswith("_bytes")}
    total = memory.total
    return {
        **parts,
        "total_bytes": memory.total_bytes,
        "total_bytes_low": total.low,
        "total_bytes_high": total.high,
    }


def _alternative_form(alternative: Alternative) -> dict[str, Any]:
    return {
        "kind": alternative.kind,
        "change": alternative.change,
        "caution": alternative.caution or None,
        "candidate": encode_candidate(alternative.candidate),
    }


def _growth_form(step: GrowthStep) -> dict[str, Any]:
    candidate = step.candidate
    return {
        "month": step.month,
        "load_ratio": step.load_ratio,
        "gpu": candidate.gpu,
        "count": candidate.count,
        "layout": asdict(candidate.layout),
        "fits": candidate.fits,
        "cost_per_hour": candidate.dollars_per_hour,
    }


def _outlook_form(outlook: GrowthOutlook) -> dict[str, Any]:
    cheapest, switch = outlook.cheapest, outlook.switch
    return {
        "months": outlook.kinds[0].months,
        "outgrown_in_month": outlook.outgrown,
        "cheapest": None if cheapest is None else cheapest.gpu,
        "switch": None if switch is None else asdict(switch),
        "kinds": [_kind_form(each) for each in outlook.kinds],
    }


def _kind_form(kind: GrowingKind) -> dict[str, Any]:
    return {
        "gpu": kind.gpu,
        "count_first": kind.steps[0].candidate.count,
        "count_last": kind.steps[-1].candidate.count,
        "cost_of_all_months": kind.dollars() if kind.outgrown is None else None,
        "outgrown_in_month": kind.outgrown,
    }


def encode_plan_check(measured: PlanCheck) -> dict[str, Any]:
    """A prediction beside what was measured."""
    return {
        "candidate": encode_candidate(measured.candidate),
        "comparisons": [
            {
                "what": each.what,
                "unit": each.unit,
                "measured": each.measured,
                **encode_interval("predicted", each.predicted),
                "ratio": each.ratio,
                "as_predicted": each.is_as_predicted,
                "remark": each.remark or None,
            }
            for each in measured.comparisons
        ],
    }

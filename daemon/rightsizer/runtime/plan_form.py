"""A plan as JSON has it."""

from typing import Any

from rightsizer.runtime.bill_form import bill_form, interval_form
from rightsizer.runtime.plan_measured import Measured
from rightsizer.sizing.alternatives import Alternative
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.estimate import MemoryEstimate
from rightsizer.sizing.growth import GrowingKind, GrowthStep
from rightsizer.sizing.outlook import Outlook
from rightsizer.sizing.planner import Plan
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.validation import ValidationStep, validation_steps

__all__ = ["candidate_form", "layout_form", "measured_form", "memory_form", "plan_form"]


def plan_form(plan: Plan, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """All of it; figures that nobody can tell are null.

    Args:
        plan: What came of a requirement.
        notes: What has to be said of the input.
    """
    best = plan.best
    steps = () if best is None else validation_steps(plan.requirement, best)
    return {
        "model": plan.requirement.model.name or None,
        "task": str(plan.requirement.task),
        "memory": memory_form(plan.memory),
        "nothing_fits": plan.why_nothing_fits or None,
        "least": None if plan.least is None else candidate_form(plan.least),
        "candidates": [candidate_form(each) for each in plan.candidates],
        "alternatives": [_alternative_form(each) for each in plan.alternatives],
        "growth": [_growth_form(each) for each in plan.growth],
        "growth_outlook": None if plan.outlook is None else _outlook_form(plan.outlook),
        "validation": [_step_form(each) for each in steps],
        "notes": list(notes),
    }


def candidate_form(candidate: Candidate) -> dict[str, Any]:
    """One candidate."""
    rate = candidate.rate
    return {
        "gpu": candidate.gpu,
        "count": candidate.count,
        "layout": layout_form(candidate.layout),
        "fits": candidate.fits,
        "fits_memory": candidate.fits_memory,
        "reasons": [str(each) for each in candidate.rejections],
        "memory": memory_form(candidate.memory),
        "memory_headroom_ratio": candidate.memory_headroom_ratio,
        "memory_is_tight": candidate.is_memory_tight,
        "concurrency": rate.concurrency,
        **interval_form("tokens_per_second", rate.tokens_per_second),
        **interval_form("ttft_ms", rate.ttft_ms),
        **interval_form("tpot_ms", rate.tpot_ms),
        "cost_per_hour": candidate.dollars_per_hour,
        "cost_per_million_tokens": candidate.dollars_per_million_tokens,
        "cost_per_million_tokens_asked": candidate.work_dollars,
        **interval_form("training_hours", rate.training_hours),
        "mfu_ratio": rate.mfu_ratio,
        "bound": rate.bound or None,
        "no_rate_because": rate.missing or None,
        "costs": None if candidate.bill is None else bill_form(candidate.bill),
        "rank": candidate.rank,
    }


def layout_form(layout: Parallelism) -> dict[str, int]:
    """How a model is spread."""
    return {"tensor": layout.tensor, "pipeline": layout.pipeline, "data": layout.data}


def memory_form(memory: MemoryEstimate) -> dict[str, float]:
    """Of one GPU."""
    return {
        "weights_bytes": memory.weights_bytes,
        "kv_cache_bytes": memory.kv_cache_bytes,
        "activations_bytes": memory.activations_bytes,
        "gradients_bytes": memory.gradients_bytes,
        "optimizer_bytes": memory.optimizer_bytes,
        "overhead_bytes": memory.overhead_bytes,
        "total_bytes": memory.total_bytes,
        "total_bytes_low": memory.total.low,
        "total_bytes_high": memory.total.high,
    }


def _alternative_form(alternative: Alternative) -> dict[str, Any]:
    return {
        "kind": alternative.kind,
        "change": alternative.change,
        "caution": alternative.caution or None,
        "candidate": candidate_form(alternative.candidate),
    }


def _growth_form(step: GrowthStep) -> dict[str, Any]:
    candidate = step.candidate
    return {
        "month": step.month,
        "load_ratio": step.load_ratio,
        "gpu": candidate.gpu,
        "count": candidate.count,
        "layout": layout_form(candidate.layout),
        "fits": candidate.fits,
        "cost_per_hour": candidate.dollars_per_hour,
    }


def _outlook_form(outlook: Outlook) -> dict[str, Any]:
    cheapest, switch = outlook.cheapest, outlook.switch
    return {
        "months": outlook.kinds[0].months,
        "outgrown_in_month": outlook.outgrown,
        "cheapest": None if cheapest is None else cheapest.gpu,
        "switch": None
        if switch is None
        else {
            "month": switch.month,
            "gpu": switch.gpu,
            "count": switch.count,
            "dollars_saved": switch.dollars_saved,
        },
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


def _step_form(step: ValidationStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "run": step.run,
        "concurrency": step.concurrency,
        "minutes": step.minutes,
        "measure": list(step.measure),
        "expect": list(step.expect),
    }


def measured_form(measured: Measured) -> dict[str, Any]:
    """A prediction beside what was measured."""
    return {
        "candidate": candidate_form(measured.candidate),
        "comparisons": [
            {
                "what": each.what,
                "unit": each.unit,
                "measured": each.measured,
                **interval_form("predicted", each.predicted),
                "ratio": each.ratio,
                "as_predicted": each.is_as_predicted,
                "remark": each.remark or None,
            }
            for each in measured.comparisons
        ],
    }

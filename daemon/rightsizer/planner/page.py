"""Page of a plan as one HTML document: candidates, memory, costs, checks."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rightsizer.model.units import GIB
from rightsizer.planner.figures import BILLING_TERMS, MEMORY_PARTS
from rightsizer.report.charts import box, figure
from rightsizer.report.figures import dollars, number
from rightsizer.report.template import rendered

_MOST: Final = 20
"""Candidates of a table."""
_NOTHING: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("error", "model", "nothing_fits")),
    **dict.fromkeys(("notes", "candidates", "alternatives", "growth", "validation"), ()),
}
"""What an answer that is an error does not have, and the other way round."""
_WORK: Final = (
    ("cost_per_training", "a run"),
    ("cost_per_image", "an image"),
    ("cost_per_million_tokens", "a million"),
)


def memory_bar(name: str, memory: Mapping[str, float], usable_bytes: float | None) -> str:
    """Parts from left to right; the line is what the GPU has, the whisker where it may end.

    `memory` has bytes by `<part>_bytes`, and the ends of the total.
    """
    total, high = memory["total_bytes"], memory["total_bytes_high"]
    scale = 100 / max(total, high, usable_bytes or 0.0, 1.0)
    drawn, reached, spelled = [], 0.0, []
    for part, words in MEMORY_PARTS.items():
        width = memory[f"{part}_bytes"] * scale
        if width > 0:
            drawn.append(f'<path class="m-{part}" d="{box(reached, 0, width, 10)}"/>')
            spelled.append(f"{words} {memory[f'{part}_bytes'] / GIB:.1f} GiB")
            reached += width
    low = memory["total_bytes_low"] * scale
    drawn.append(f'<path class="whisker" d="{box(low, 4.2, high * scale - low, 1.6)}"/>')
    if usable_bytes is not None:
        drawn.append(f'<path class="capacity" d="M{usable_bytes * scale:.4g} 0V10"/>')
    return figure((100, 10), name, ", ".join(spelled), drawn, "split fit")


def plan_document(answers: Sequence[tuple[Sequence[str], Mapping[str, Any]]]) -> str:
    """All answers of a file, one after the other: what was asked for, in lines, and what came."""
    plans = [_view(title, form) for title, form in answers]
    return rendered("plan.html", {}, plans=plans, parts=MEMORY_PARTS, gibibytes=_gibibytes)


def _view(title: Sequence[str], answer: Mapping[str, Any]) -> dict[str, Any]:
    form = {**_NOTHING, **answer}
    candidates: Sequence[Mapping[str, Any]] = form["candidates"]
    fitting = [_candidate(each) for each in candidates if each["fits"]]
    rejected = [_candidate(each) for each in candidates if not each["fits"]]
    best = next((each for each in candidates if each["fits"]), None)
    costs = None if best is None else best["costs"]
    offers: Sequence[Mapping[str, Any]] = (costs or {}).get("offers", ())
    known = (each for each in _WORK if any(offer[each[0]] is not None for offer in offers))
    work, words = next(known, _WORK[-1])
    return {
        "title": title,
        "form": form,
        "is_run": best is not None and best["training_hours"] is not None,
        "best": fitting[0] if fitting else None,
        "fitting": fitting[:_MOST],
        "more": max(0, len(fitting) - _MOST),
        "rejected": rejected[:_MOST],
        "more_rejected": max(0, len(rejected) - _MOST),
        "offers": [_offer(each, work) for each in offers],
        "work": words,
        "growth": [_grown(each) for each in form["growth"]],
    }


def _grown(form: Mapping[str, Any]) -> Sequence[str]:
    then, held = f"{form['count']} x {form['gpu']}", "" if form["fits"] else "does not fit"
    load = f"x{form['load_ratio']:.2f}"
    return str(form["month"]), load, then, _priced(form, "cost_per_hour"), held


def _candidate(form: Mapping[str, Any]) -> dict[str, str]:
    rental = form["rental"]
    memory, free = form["memory"], form["memory_headroom_ratio"]
    usable = memory["total_bytes"] / (1.0 - free) if free is not None and free < 1 else None
    first = "a batch" if form["tpot_ms"] is None else "to the first"
    latencies = [
        f"{number(form[key])} ms {what}"
        for key, what in (("ttft_ms", first), ("tpot_ms", "between"))
        if form[key] is not None
    ]
    return {
        "rank": str(form["rank"] or ""),
        "name": f"{form['count']} x {form['gpu']}"
        + (f" ({form['format']})" if form["format"] else "")
        + (f", {rental['count']} x {rental['instance']}" if rental else ""),
        "layout": "x".join(map(str, form["layout"].values())),
        "bar": memory_bar(f"Memory of each {form['gpu']}", memory, usable),
        "memory": f"{_gibibytes(memory['total_bytes'])} of "
        f"{'not known' if usable is None else _gibibytes(usable)} GiB"
        f"{', may turn out short' if form['memory_is_tight'] else ''}",
        "speed": _speed(form),
        "latency": ", ".join(latencies) or "-",
        "hourly": _priced(form, "cost_per_hour"),
        "work": _priced(form, "cost_per_million_tokens_asked"),
        "reasons": "; ".join(form["reasons"]),
    }


def _priced(form: Mapping[str, Any], key: str) -> str:
    """Dollars with the range behind them."""
    value, low, high = form[key], form[f"{key}_low"], form[f"{key}_high"]
    told = dollars(value, value)
    if low is None or low >= high:
        return told
    return f"{told} ({dollars(low, low)} to {dollars(high, high)})"


def _speed(form: Mapping[str, Any]) -> str:
    if form["training_hours"] is not None:
        return f"{_interval(form, 'training_hours')} h in all"
    if form["tokens_per_second"] is None:
        return str(form["no_rate_because"] or "not known")
    return _interval(form, "tokens_per_second")


def _interval(form: Mapping[str, Any], key: str) -> str:
    low, high = form[f"{key}_low"], form[f"{key}_high"]
    middle = number(form[key])
    return middle if low is None or high is None else f"{middle} ({number(low)} to {number(high)})"


def _offer(form: Mapping[str, Any], work: str) -> Sequence[str]:
    done = form[work]
    assumed = "assumed: " if form["assumed"] else ""
    return (
        BILLING_TERMS.get(form["billing"], form["billing"]),
        dollars(form["cost_per_hour"], form["cost_per_hour"]),
        dollars(form["cost_per_hour_low"], form["cost_per_hour_high"]),
        f"${done:,.2g}" if done is not None and done < 1 else dollars(done, done),
        form["date"] or "undated",
        f"{assumed}{form['source'] or ''}",
    )


def _gibibytes(value: float) -> str:
    return f"{value / GIB:,.1f}"

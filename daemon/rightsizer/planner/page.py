"""Page of a plan as one HTML document: candidates, memory, costs, checks."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rightsizer.model.units import GIB, number_text
from rightsizer.planner.display import BILLING_TERMS, MEMORY_PARTS
from rightsizer.report import figures
from rightsizer.report.charts import box, figure
from rightsizer.report.figures import dollars
from rightsizer.report.template import rendered

_JsonMapping = Mapping[str, Any]
_MOST: Final = 20
"""Candidates in a table."""
_NOTHING: Final[_JsonMapping] = {
    **dict.fromkeys(("error", "model", "nothing_fits", "launch")),
    **dict.fromkeys(("notes", "candidates", "alternatives", "growth", "validation"), ()),
}
"""Fields absent from an error answer, and vice versa."""
_WORK: Final = (
    ("cost_per_training", "a run"),
    ("cost_per_image", "an image"),
    ("cost_per_million_tokens", "a million"),
)


def plan_document(answers: Sequence[tuple[Sequence[str], _JsonMapping]]) -> str:
    """Return all answers of a file in turn: the requirements, and the results."""
    return _rendered("plan.html", answers)


def plan_page(answers: Sequence[tuple[Sequence[str], _JsonMapping]], **form: Any) -> str:
    """Return the same below its form; `form` has the fields of its template."""
    return _rendered("plan_form.html", answers, **form)


def _rendered(
    template: str, answers: Sequence[tuple[Sequence[str], _JsonMapping]], **form: Any
) -> str:
    return rendered(
        template,
        {"gibibytes": lambda value: f"{value / GIB:,.1f}", "priced": _priced, "speed": _speed},
        plans=[(_unwrapped(title), {**_NOTHING, **plan}) for title, plan in answers],
        figures=figures,
        memory_bar=memory_bar,
        most=_MOST,
        parts=MEMORY_PARTS,
        terms=BILLING_TERMS,
        usable_bytes=_usable_bytes,
        work_of=_work_of,
        **form,
    )


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Rejoin paragraphs wrapped for a terminal, whose continuation lines are indented."""
    paragraphs: list[str] = []
    for line in lines:
        if line.startswith(" ") and paragraphs:
            paragraphs[-1] += f" {line.strip()}"
        else:
            paragraphs.append(line)
    return paragraphs


def memory_bar(candidate: _JsonMapping) -> str:
    """Draw parts from left to right; the line is the GPU's memory, the whisker the range."""
    memory = candidate["memory"]
    usable = _usable_bytes(candidate)
    high = memory["total_bytes_high"]
    scale = 100 / max(memory["total_bytes"], high, usable or 0.0, 1.0)
    drawn = []
    reached = 0.0
    spelled = []
    for part, words in MEMORY_PARTS.items():
        width = memory[f"{part}_bytes"] * scale
        if width > 0:
            drawn.append(f'<path class="m-{part}" d="{box(reached, 0, width, 10)}"/>')
            spelled.append(f"{words} {memory[f'{part}_bytes'] / GIB:.1f} GiB")
            reached += width
    low = memory["total_bytes_low"] * scale
    drawn.append(f'<path class="whisker" d="{box(low, 4.2, high * scale - low, 1.6)}"/>')
    if usable is not None:
        drawn.append(f'<path class="capacity" d="M{usable * scale:.4g} 0V10"/>')
    name = f"Memory of each {candidate['gpu']}"
    return figure((100, 10), name, ", ".join(spelled), drawn, "split fit")


def _usable_bytes(candidate: _JsonMapping) -> float | None:
    free: float | None = candidate["memory_headroom_ratio"]
    total: float = candidate["memory"]["total_bytes"]
    return total / (1.0 - free) if free is not None and free < 1 else None


def _work_of(offers: Sequence[_JsonMapping]) -> tuple[str, str]:
    """Return the key and label of the first unit of work that any offer has."""
    known = (each for each in _WORK if any(offer[each[0]] is not None for offer in offers))
    return next(known, _WORK[-1])


def _priced(plan: _JsonMapping, key: str) -> str:
    value = plan[key]
    low = plan[f"{key}_low"]
    high = plan[f"{key}_high"]
    value_text = dollars(value, value)
    if low is None or low >= high:
        return value_text
    return f"{value_text} ({dollars(low, low)} to {dollars(high, high)})"


def _speed(plan: _JsonMapping) -> str:
    """Return the throughput of all GPUs together, or the duration."""
    if plan["training_hours"] is None and plan["tokens_per_second"] is None:
        return str(plan["no_rate_because"] or "not known")
    key = "tokens_per_second" if plan["training_hours"] is None else "training_hours"
    value, low, high = (plan[f"{key}{end}"] for end in ("", "_low", "_high"))
    spread = "" if low is None or high is None else f" ({number_text(low)} to {number_text(high)})"
    return f"{number_text(value)}{spread}{' h in all' if key == 'training_hours' else ''}"

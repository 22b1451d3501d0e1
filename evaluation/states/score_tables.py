"""The scores as tables for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from evaluation.states.baselines import BASELINES
from evaluation.states.confusion import Confusion, Detection
from evaluation.states.merged_states import coarse_state
from evaluation.states.scores import OURS, Scores
from measured import as_rows, summarized, table, with_rows
from rightsizer.model.state import Condition, Tier
from rightsizer.model.units import seconds

_FLOORS: Final = {Tier.PROFILING: 0.95, Tier.POWER: 0.85}
_TIERS: Final = (Tier.PROFILING, Tier.POWER, Tier.BASIC)
_MISTAKES: Final = 5
_USUAL: Final = 0.99
_OTHERS: Final = f"The others have at least {_USUAL} in each.\n"
_FALSE_IDLE: Final = "false idle, s per GPU-day"


def by_tier(total: Scores) -> Iterator[str]:
    """Accuracy by tier, against the promised floors."""
    yield "#### By tier\n"
    lines = [
        _tier_row(total.confusions[OURS, tier, is_disturbed], tier, is_disturbed=is_disturbed)
        for tier in _TIERS
        for is_disturbed in (False, True)
        if (OURS, tier, is_disturbed) in total.confusions
    ]
    yield table(
        lines,
        (
            "tier",
            "GPU-days",
            "accuracy",
            "with second cause",
            "macro-F1",
            "at least",
            "",
            _FALSE_IDLE,
            "at most",
        ),
    )
    unread, lost, invented = (
        f"{seconds(each) / 3600:.1f} h"
        for each in (total.abstained, total.rightly_unknown, total.invented)
    )
    yield (
        f"\nOver the states that a tier can distinguish. Left out: {unread} without a signal that "
        f"shows the state, and {lost} without a true state, as when a GPU is lost; {invented} of "
        "these got one.\n"
    )


def _tier_row(found: Confusion, tier: Tier, *, is_disturbed: bool) -> tuple[str, ...]:
    floor = None if is_disturbed else _FLOORS.get(tier)
    idle = found.false_idle_seconds_per_day
    return (
        f"{tier}, disturbed" if is_disturbed else str(tier),
        f"{found.gpu_days:.0f}",
        f"{found.accuracy:.3f}",
        f"{found.accuracy_of_two:.3f}",
        f"{found.macro_f1:.3f}",
        "" if floor is None else f"{floor:.2f}",
        "" if floor is None else _verdict(kept=found.macro_f1 >= floor),
        f"{idle:.1f}",
        "" if is_disturbed else f"0 {_verdict(kept=not found.false_idle)}",
    )


def _verdict(*, kept: bool) -> str:
    return "pass" if kept else "FAIL"


def baselines(total: Scores) -> Iterator[str]:
    """The same figures for the rules of others."""
    yield "#### Beside static rules\n"
    streams = [(tier, rough) for tier in (Tier.PROFILING, Tier.POWER) for rough in (False, True)]
    lines = []
    for name in (OURS, *BASELINES):
        rough = total.confusions[name, Tier.PROFILING, False].merged_by(coarse_state)
        lines.append(
            (
                name,
                *(f"{total.confusions[name, *stream].macro_f1:.3f}" for stream in streams),
                f"{rough.macro_f1:.3f}",
                f"{rough.recall('idle_held'):.3f}",
                f"{total.false_idle_seconds_per_day(name, is_disturbed=False):.1f}",
                f"{total.false_idle_seconds_per_day(name, is_disturbed=True):.1f}",
            )
        )
    yield table(
        lines,
        (
            "",
            "profiling",
            "disturbed",
            "power",
            "disturbed",
            "rest, stall, work",
            "idle found",
            _FALSE_IDLE,
            "disturbed",
        ),
    )
    yield (
        "\nMacro-F1; 'rest, stall, work' is of empty, held, stalled and at work alone. All rules "
        "know which GPUs have no holder, and those of pods and jobs the holders.\n"
    )


def by_state(total: Scores) -> Iterator[str]:
    """Each state's scores as they are and disturbed, and the worst mistakes."""
    for tier in (Tier.PROFILING, Tier.POWER):
        plain, other = (total.confusions[OURS, tier, rough] for rough in (False, True))
        after = {row[0]: row[2:] for row in other.score_rows()}
        states = summarized(
            ((*row, *after.get(row[0], ("", ""))) for row in plain.score_rows()),
            ("state", "hours", "precision", "recall", "disturbed: precision", "recall"),
            sums_up=_is_below,
        )
        text = f"#### States, {tier} tier\n\n{states}\n{_OTHERS}"
        yield text if tier is Tier.PROFILING else as_rows(with_rows(text))
        headings = ("", "truth", "taken for", "hours", "of that truth")
        mistakes = table(_mistakes(plain, other), headings)
        yield as_rows(f"Most frequent mistakes:\n\n{mistakes}\n")


def _is_below(line: Sequence[str]) -> bool:
    """Whether any score of a row is below that of most."""
    scores = [cell for cell in line[2:] if cell.replace(".", "").isdigit()]
    return any(float(score) < _USUAL for score in scores)


def _mistakes(plain: Confusion, disturbed: Confusion) -> Iterator[tuple[str, ...]]:
    for label, confusion in (("as it is", plain), ("disturbed", disturbed)):
        for mistake in confusion.mistakes(_MISTAKES):
            yield label, *mistake


def conditions(total: Scores) -> Iterator[str]:
    """Each condition's precision and recall."""
    yield "#### Conditions\n"
    lines = []
    for condition in Condition:
        plain, rough = (total.conditions[condition, disturbed] for disturbed in (False, True))
        hours = f"{plain.true_seconds / 3600:.1f}"
        lines.append((str(condition), hours, *_pair(plain), *_pair(rough)))
    headings = ("condition", "hours", "precision", "recall", "disturbed: precision", "recall")
    yield summarized(lines, headings, sums_up=_is_below)
    yield f"\nOn the profiling tier. {_OTHERS}"


def _pair(detection: Detection) -> tuple[str, str]:
    precision, recall = (
        "" if value is None else f"{value:.3f}" for value in (detection.precision, detection.recall)
    )
    return precision or "never called", recall or "never true"


def by_scenario(by_name: Mapping[str, Scores]) -> Iterator[str]:
    """Where it goes wrong; scenarios without a mistake are counted."""
    lines = []
    for name, scores in by_name.items():
        ours = [scores.confusions[OURS, tier, False] for tier in (Tier.PROFILING, Tier.POWER)]
        idle = [
            scores.false_idle_seconds_per_day(judge, is_disturbed=rough)
            for judge, rough in (
                (OURS, False),
                (OURS, True),
                ("gpu-pruner", False),
                ("GPU utilization alone", False),
            )
        ]
        accuracies = [f"{our.accuracy:.3f}" if our.gpu_days else "" for our in ours]
        false_idle = [f"{each:.0f}" for each in idle]
        if not {*accuracies, *false_idle} <= {"1.000", "", "0"}:
            lines.append((name, *accuracies, *false_idle))
    scenarios = table(
        lines,
        (
            "scenario",
            "accuracy, profiling",
            "power",
            _FALSE_IDLE,
            "disturbed",
            "gpu-pruner's",
            "of utilization alone",
        ),
    )
    yield as_rows(f"#### By scenario\n\n{scenarios}\n")
    faultless = len(by_name) - len(lines)
    yield f"{faultless} of {len(by_name)} scenarios: 1.000, and no false idle time.\n"

"""The summary and the detail log of one run, made one result."""

from dataclasses import replace
from typing import Final

from rightsizer.domain.profile import BenchmarkResult, Profile

__all__ = ["merged"]

_NO_RESULT: Final = ("It holds no result", "Its round wrote")
_ROUNDING_RATIO: Final = 1e-3
"""Summaries print four digits or more."""


def merged(summary: Profile, detail: Profile) -> Profile:
    """One profile of both; the summary's figures stand, for they are what is published."""
    ours, theirs = summary.benchmark, detail.benchmark
    if ours is None or theirs is None:
        return summary
    notes = [*summary.notes, *(each for each in detail.notes if each not in summary.notes)]
    if ours.figures:
        notes = [each for each in notes if not each.startswith(_NO_RESULT)]
    differing = _differing(ours, theirs)
    if differing:
        notes.append(
            f"The summary and the detail log differ in {', '.join(differing)}: they may be of "
            "two runs."
        )
    unread = dict(summary.unread)
    for what, count in detail.unread.items():
        unread[what] = unread.get(what, 0) + count
    return replace(
        summary,
        source=f"{summary.source}, {detail.source}",
        version=detail.version,
        start=detail.start,
        benchmark=BenchmarkResult(
            ours.benchmark or theirs.benchmark,
            ours.scenario or theirs.scenario,
            theirs.is_valid if ours.is_valid is None else ours.is_valid,
            {**theirs.figures, **ours.figures},
        ),
        events=summary.events + detail.events,
        unread=unread,
        notes=tuple(notes),
    )


def _differing(ours: BenchmarkResult, theirs: BenchmarkResult) -> list[str]:
    words = [
        word
        for word, one, other in (
            ("the scenario", ours.scenario, theirs.scenario),
            ("whether it is valid", ours.is_valid, theirs.is_valid),
        )
        if one and other and one != other
    ]
    return words + [
        name
        for name, figure in ours.figures.items()
        if abs(figure - theirs.figures.get(name, figure)) > _ROUNDING_RATIO * abs(figure)
    ]

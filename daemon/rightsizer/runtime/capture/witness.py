"""What a capture goes by: the node as it is, what the rules said, and what people made of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rightsizer.advice.judgement import Judgement
from rightsizer.domain.advice import Advice
from rightsizer.domain.report import Report

__all__ = ["Witness"]


@dataclass(frozen=True, slots=True)
class Witness:
    """Asked anew at every look, from a thread of a job's."""

    report: Callable[[], Report | None]
    """The latest."""
    judgements: Callable[[], Sequence[Judgement]]
    """Of the last run of the rules."""
    advice: Callable[[], Sequence[Advice]]
    """All of it, what was closed too."""

"""Lookup of a recommendation by its id, and of the places of open ones."""

from collections.abc import Iterable, Sequence
from typing import Final

from rightsizer.io.near import near_words
from rightsizer.model.values import AbsentError, Advice, RefusedError

_NEAR: Final = 3


def find_advice(advice: Sequence[Advice], asked: str) -> Advice:
    """Recommendation with an id.

    Raises:
        AbsentError: there is none; names similar ids first.
    """
    recommendation = next((candidate for candidate in advice if candidate.id == asked), None)
    if recommendation is None:
        raise AbsentError(_unknown(advice, asked))
    return recommendation


def find_open_advice(advice: Sequence[Advice], asked: str) -> Advice:
    """Open recommendation with an id.

    Raises:
        AbsentError: there is none; names similar ids first.
        RefusedError: it is closed.
    """
    recommendation = find_advice(advice, asked)
    if not recommendation.is_open:
        by = f" by {recommendation.actor}" if recommendation.actor else ""
        raise RefusedError(
            f"advice '{asked}' is closed already: {recommendation.state}{by}; "
            f"see `rightsizer explain {asked}`"
        )
    return recommendation


def open_places(advice: Iterable[Advice]) -> frozenset[tuple[str, str]]:
    """Workload key and rule of all open advice."""
    return frozenset(
        (recommendation.finding.key, recommendation.finding.rule)
        for recommendation in advice
        if recommendation.is_open
    )


def _unknown(advice: Sequence[Advice], asked: str) -> str:
    ids = [recommendation.id for recommendation in advice]
    begun = [identifier for identifier in ids if asked and identifier.startswith(asked)]
    if near := near_words(asked, ids, _NEAR) or begun:
        return f"there is no advice '{asked}'; did you mean {' or '.join(near)}?"
    if not ids:
        return (
            f"there is no advice '{asked}', nor any other: the ledger is empty; let the agent run, "
            "or keep what `rightsizer advise` finds with `rightsizer advise --save`"
        )
    still_open = [recommendation.id for recommendation in advice if recommendation.is_open]
    open_ids = ", ".join(still_open[:_NEAR]) + (" and others" if len(still_open) > _NEAR else "")
    return f"there is no advice '{asked}'; open is {open_ids or 'none'} (see `rightsizer advise`)"

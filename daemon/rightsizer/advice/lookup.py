"""Lookup of a recommendation by its id."""

from collections.abc import Sequence
from typing import Final

from rightsizer.io.near import near_words
from rightsizer.model.advice import Advice
from rightsizer.model.errors import AbsentError, RefusedError

_NEAR: Final = 3


def find_advice(advice: Sequence[Advice], asked: str) -> Advice:
    """Recommendation with an id.

    Raises:
        AbsentError: there is none; names similar ids first.
    """
    found = next((each for each in advice if each.id == asked), None)
    if found is None:
        raise AbsentError(_unknown(advice, asked))
    return found


def find_open_advice(advice: Sequence[Advice], asked: str) -> Advice:
    """Open recommendation with an id.

    Raises:
        AbsentError: there is none; names similar ids first.
        RefusedError: it is closed.
    """
    found = find_advice(advice, asked)
    if not found.is_open:
        by = f" by {found.actor}" if found.actor else ""
        raise RefusedError(
            f"advice '{asked}' is closed already: {found.state}{by}; see `rightsizer explain "
            f"{asked}`"
        )
    return found


def _unknown(advice: Sequence[Advice], asked: str) -> str:
    ids = [each.id for each in advice]
    begun = [identifier for identifier in ids if asked and identifier.startswith(asked)]
    if near := near_words(asked, ids, _NEAR) or begun:
        return f"there is no advice '{asked}'; did you mean {' or '.join(near)}?"
    if not ids:
        return (
            f"there is no advice '{asked}', nor any other: the ledger is empty; let the agent run, "
            "or keep what `rightsizer advise` finds with `rightsizer advise --save`"
        )
    still_open = [each.id for each in advice if each.is_open]
    known = ", ".join(still_open[:_NEAR]) + (" and others" if len(still_open) > _NEAR else "")
    return f"there is no advice '{asked}'; open is {known or 'none'} (see `rightsizer advise`)"

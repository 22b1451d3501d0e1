"""The advice of an estate for a person: what saves most of each kind, and the nodes' own."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from rightsizer.cli.counted import counted
from rightsizer.cli.wrapped import wrapped
from rightsizer.domain.advice import OPEN_STATES
from rightsizer.domain.finding import FindingKind, Severity

__all__ = ["advice_text", "node_advice_text"]

_KINDS: Final = tuple(FindingKind)
_SEVERITIES: Final = tuple(Severity)
_MOST_PIECES: Final = 20
_MOST_IDS: Final = 3


def advice_text(advice: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Open advice by what was found, in lines of at most 100 columns; what is severest first.

    Args:
        advice: As JSON has it.
    """
    still_open = sorted((each for each in advice if each["state"] in OPEN_STATES), key=_place)
    for kind, group in groupby(still_open, key=lambda each: str(each["finding"])):
        pieces = list(group)
        yield f"{kind.capitalize()}:"
        for each in pieces[:_MOST_PIECES]:
            yield from _piece(each)
        if len(pieces) > _MOST_PIECES:
            yield f"  and {len(pieces) - _MOST_PIECES} more; --json has all"
        yield ""
    is_or_are = counted(len(still_open), "piece of advice is", "pieces of advice are")
    yield f"{is_or_are} open."


def node_advice_text(
    pieces: Sequence[Mapping[str, Any]], advice: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """What the nodes' own agents advise, a line for each reason.

    Args:
        pieces: Theirs, as JSON has them.
        advice: The estate's, which may say the same.
    """
    if not pieces:
        return
    known = {each["id"] for each in advice if each["state"] in OPEN_STATES}
    same = sum(each["id"] in known for each in pieces)
    told = f", {same} of them told above too" if same else ""
    yield ""
    yield f"The nodes' own agents have {counted(len(pieces), 'piece')} of advice open{told}:"
    ordered = sorted(pieces, key=lambda each: (each["reason"], each["action"], each["id"]))
    for (reason, action), group in groupby(ordered, key=lambda e: (e["reason"], e["action"])):
        ids = list(dict.fromkeys(each["id"] for each in group))
        more = f" and {len(ids) - _MOST_IDS} more" if len(ids) > _MOST_IDS else ""
        named = f"{', '.join(ids[:_MOST_IDS])}{more}"
        yield from wrapped(f"{reason}, {_spoken(action)}: {named}", 2)


def _place(advice: Mapping[str, Any]) -> tuple[int, int, float, float, str]:
    """By kind; in a kind the severest first, then what saves most."""
    savings = advice["savings"]
    return (
        _KINDS.index(advice["finding"]),
        -_SEVERITIES.index(advice["severity"]),
        -(savings["dollars_per_hour_low"] or 0.0),
        -(savings["gpus_low"] or 0.0),
        advice["id"],
    )


def _piece(advice: Mapping[str, Any]) -> Iterator[str]:
    by = f" by {advice['actor']}" if advice["actor"] else ""
    about = f"; {advice['key']}" if advice["key"] else ""
    yield from wrapped(f"{advice['id']}  {advice['severity']}, {advice['state']}{by}{about}", 2)
    yield from wrapped(advice["summary"], 4, 0)
    rest = f"confidence {advice['confidence']:.2f}, risk {advice['risk']}"
    yield from wrapped(f"{_spoken(advice['action'])}; {rest}{_savings(advice['savings'])}", 4, 0)


def _savings(savings: Mapping[str, Any]) -> str:
    if savings["gpus_low"] is None or savings["gpus_high"] is None:
        return f"; savings: {savings['reason']}" if savings["reason"] else ""
    told = f"; saves {_range(savings['gpus_low'], savings['gpus_high'])} GPUs"
    low, high = savings["dollars_per_hour_low"], savings["dollars_per_hour_high"]
    return told if low is None or high is None else f"{told}, {_range(low, high)} $/h"


def _range(low: float, high: float) -> str:
    return f"{low:,.2f}" if low == high else f"{low:,.2f} to {high:,.2f}"


def _spoken(action: str) -> str:
    return "no action" if action == "none" else str(action).replace("_", " ")

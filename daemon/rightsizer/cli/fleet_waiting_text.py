"""Waiting work for a person: which pool could serve it, and what to do first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rightsizer.cli.counted import counted
from rightsizer.cli.wrapped import wrapped
from rightsizer.domain.units import format_duration

__all__ = ["waiting_text"]

_MOST_ROWS: Final = 10
_MOST_NAMED: Final = 4


def waiting_text(waiting: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A paragraph for each of the first pieces; nothing where nothing waits.

    Args:
        waiting: `waiting_work` of what `rightsizer fleet --json` prints.
    """
    if not waiting:
        return
    yield "Waiting work, the longest waiting first:"
    for each in waiting[:_MOST_ROWS]:
        yield from wrapped(_title(each), 2)
        for offer in each["offers"]:
            yield from wrapped(_offer(offer, each["pool"]), 4)
        if each["left_gpus"] > 0:
            left = _gpus(each["left_gpus"])
            yield from wrapped(f"nothing that is known could give {left}: {each['why_left']}", 4)
    if len(waiting) > _MOST_ROWS:
        yield f"  and {counted(len(waiting) - _MOST_ROWS, 'piece')} more; --json has all"
    yield ""


def _title(served: Mapping[str, Any]) -> str:
    since = served["waiting_seconds"]
    where = f" of {served['pool']}" if served["pool"] else ""
    long = "" if since is None else f" for {format_duration(since)}"
    return f"{served['key']} waits{long} for {_gpus(served['gpus'])}{where}."


def _offer(offer: Mapping[str, Any], own: str) -> str:
    what = _gpus(offer["gpus"])
    pool = f"{offer['pool']}, " if offer["pool"] != own else ""
    where = f"on {pool}{_names(list(offer['nodes']))}"
    if offer["is_now"]:
        return f"now: {what} {where}"
    steps = "; ".join(_step(each) for each in offer["steps"])
    return f"after: {what} {where}, once this is done: {steps}"


def _step(step: Mapping[str, Any]) -> str:
    who = _names(step["workloads"])
    advice = f" ({step['advice']})" if step["advice"] else ""
    to = f" to {step['target']}" if step["target"] else ""
    action = step["action"].replace("_", " ")
    return f"{action} {who}{to}{advice}, which frees {_gpus(sum(step['frees'].values()))}"


def _gpus(count: float) -> str:
    return f"{count:,.4g} GPU{'' if count == 1 else 's'}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

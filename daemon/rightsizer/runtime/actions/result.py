"""What became of advice that was acted on: the loop from an action to its verification."""

from dataclasses import replace
from typing import Final

from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.units import Nanoseconds
from rightsizer.runtime.actions.book import ActionOutcome, ActionRecord

__all__ = ["result_of"]

_GONE: Final = "its advice is kept no more"


def result_of(record: ActionRecord, advice: Advice | None, now: Nanoseconds) -> ActionRecord | None:
    """An entry with what the ledger says now, `None` where that is nothing new.

    Args:
        record: An entry of any kind.
        advice: What it was about, as it stands; `None` where the ledger has forgotten it.
        now: Wall time.
    """
    if not record.outcome.is_deed or record.outcome is ActionOutcome.STARTED:
        return None
    if record.result is AdviceState.SUCCEEDED:
        came_back = advice is not None and advice.opened > record.opened
        if advice is None or not came_back or advice.state is not AdviceState.REGRESSED:
            return None
        return _with(record, AdviceState.REGRESSED, "it came back", now)
    if record.result is not None:
        return None
    if advice is None:
        return _with(record, AdviceState.EXPIRED, _GONE, now)
    if advice.opened == record.opened:
        return None if advice.is_open else _with(record, advice.state, advice.why, now)
    # It was closed and opened again between two looks, and how it closed is written over.
    has_succeeded = advice.state is AdviceState.REGRESSED
    state = AdviceState.REGRESSED if has_succeeded else AdviceState.EXPIRED
    return _with(record, state, "it was opened again", now)


def _with(record: ActionRecord, state: AdviceState, why: str, now: Nanoseconds) -> ActionRecord:
    return replace(record, result=state, result_why=why, result_at=now)

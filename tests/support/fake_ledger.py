"""Advice without a ledger, which records decisions."""

from typing import Final

from msgspec.structs import replace

from advice_events import NOW, event
from rightsizer.advice.lookup import find_open_advice
from rightsizer.model.advice import Advice, AdviceEventKind, AdviceState

__all__ = ["CLOSED", "OPEN", "FakeLedger"]

OPEN: Final = event(AdviceEventKind.OPENED).advice
CLOSED: Final = event(
    AdviceEventKind.CLOSED, id="d4e5f6", state=AdviceState.DISMISSED, time=NOW
).advice


class FakeLedger:
    """Advice that records decisions."""

    def __init__(self) -> None:
        self.advice: tuple[Advice, ...] = (OPEN, replace(CLOSED, actor="ana"))
        self.acts: list[tuple[object, ...]] = []

    def act(
        self, advice_id: str, state: AdviceState, actor: str, why: str, for_seconds: float | None
    ) -> Advice:
        """Record the decision; refuse one on other than open advice, as a ledger does."""
        advice = find_open_advice(self.advice, advice_id)
        self.acts.append((advice_id, state, actor, why, for_seconds))
        return replace(advice, state=state, actor=actor, why=why)

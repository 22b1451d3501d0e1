"""Events of advice for tests of notifications."""

from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.model.finding import Action, Finding, FindingKind, Reason, Risk, Savings
from rightsizer.model.units import Nanoseconds

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND


def event(  # noqa: PLR0913 - one keyword for each thing that a test varies.
    kind: AdviceEventKind,
    *,
    id: str = "a1b2c3",  # noqa: A002 - the advice's own word.
    opened: Nanoseconds = NOW,
    time: Nanoseconds = NOW,
    state: AdviceState = AdviceState.ACTIVE,
    devices: tuple[str, ...] = ("GPU-0",),
    summary: str = "GPU-0 has been held idle for 6 h.",
) -> AdviceEvent:
    """A change of advice about an idle notebook."""
    finding = Finding(
        id=id,
        rule="held_idle",
        kind=FindingKind.IDLE,
        reasons=(Reason.IDLE_HELD,),
        devices=devices,
        culprits=(),
        workload="team-a/notebook",
        action=Action.SCALE_TO_ZERO,
        summary=summary,
        options=(),
        confidence=0.87,
        confidence_factors={},
        risk=Risk.LOW,
        savings=Savings(reason="not priced"),
        evidence={"idle_held_ratio": 0.93333, "window": "24h"},
    )
    return AdviceEvent(kind, Advice(finding, state, opened, updated=time), time)

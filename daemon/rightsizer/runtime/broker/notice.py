"""What a holder is told, as the JSON that a webhook is sent."""

import json
from typing import Final

from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.placement.broker_event import BrokerEvent, EventKind

__all__ = ["TOLD_TO_WEBHOOKS", "notice_of"]

TOLD_TO_WEBHOOKS: Final = frozenset(
    {EventKind.IDLE, EventKind.OVER_MEMORY, EventKind.TIME_UP, EventKind.AT_RISK}
)
_VERSION: Final = 1
"""As that of a change of advice: grows when a key changes its meaning or goes."""


def notice_of(event: BrokerEvent, now: Nanoseconds, node: str) -> str:
    """The body; `event` begins with `broker_`, so that it is told from a change of advice.

    Args:
        event: What happened.
        now: Wall time.
        node: What the machine is called.
    """
    return json.dumps(
        {
            "version": _VERSION,
            "event": f"broker_{event.kind}",
            "delivery": f"{event.id}-{event.kind}-{event.at}",
            "time": seconds(now),
            "node": node,
            "id": event.id,
            "user": event.user,
            "message": event.message,
        },
        separators=(",", ":"),
    )

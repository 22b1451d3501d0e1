"""A change of advice as the JSON that a webhook is sent."""

import json
from typing import Final

from rightsizer.domain.advice import AdviceEvent
from rightsizer.domain.units import seconds
from rightsizer.publish.json_form import advice_form

__all__ = ["CHANGE_VERSION", "change_of"]

CHANGE_VERSION: Final = 1
"""Grows when a key changes its meaning or goes; keys are added without."""


def change_of(event: AdviceEvent, node: str) -> str:
    """The body: what happened, when, to which advice, and on which machine.

    `delivery` is the same however often a message is sent, so that a receiver can tell.
    """
    return json.dumps(
        {
            "version": CHANGE_VERSION,
            "event": event.kind,
            "delivery": f"{event.advice.id}-{event.kind}-{event.time}",
            "time": seconds(event.time),
            "node": node,
            "advice": advice_form(event.advice),
        },
        separators=(",", ":"),
    )

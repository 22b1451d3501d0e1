"""A choice of seats, or its refusal, as plain values for JSON."""

from typing import Any, Final

from rightsizer.advice.cpu_list import cpu_list
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.placement.choice import Choice, Refusal, RejectedSet
from rightsizer.placement.request import Request
from rightsizer.placement.scoring import PlacementScore
from rightsizer.placement.seat import Seat
from rightsizer.placement.verdict import Verdict

__all__ = ["place_form"]

_CRITERIA: Final = tuple(PlacementScore.__dataclass_fields__)
Form = dict[str, Any]


def place_form(
    answer: Choice | Refusal, *, time: Nanoseconds, watched_seconds: float, source: str
) -> Form:
    """All that is known of an answer; what is not is null.

    Args:
        answer: What was chosen, or why nothing was.
        time: Wall time of the readings.
        watched_seconds: For how long the node was watched before.
        source: Who looked: `agent` or `look`.
    """
    choice = answer if isinstance(answer, Choice) else None
    cpus = () if choice is None else choice.cpus
    return {
        "is_met": choice is not None,
        "request": _request(answer.request),
        "source": source,
        "time": seconds(time),
        "watched_seconds": round(watched_seconds, 3),
        "cuda_visible_devices": None if choice is None else ",".join(choice.uuids),
        "cpus": cpu_list(cpus) or None,
        "numa_nodes": [] if choice is None else list(choice.numa_nodes),
        "seats": [] if choice is None else _seats(choice),
        "score": None if choice is None else _score(choice.score),
        "reasons": list(answer.reasons),
        "equals": 0 if choice is None else choice.equals,
        "is_exact": True if choice is None else choice.is_exact,
        "is_hopeless": isinstance(answer, Refusal) and answer.is_hopeless,
        "rejected": [] if choice is None else [_rejected(each) for each in choice.rejected],
        "occupied": [_occupied(each) for each in answer.occupied],
    }


def _request(request: Request) -> Form:
    return {
        "gpus": request.gpus,
        "memory_bytes": request.memory_bytes,
        "may_share": request.may_share,
        "interconnect": str(request.interconnect),
        "mig_profile": request.mig_profile,
    }


def _seats(choice: Choice) -> list[Form]:
    return [
        {
            **_named(verdict.seat),
            "name": verdict.seat.device.name,
            "mig_profile": None
            if verdict.seat.device.mig is None
            else verdict.seat.device.mig.profile,
            "parent_uuid": None if verdict.seat.device.mig is None else verdict.seat.gpu_uuid,
            "numa_node": verdict.seat.numa_node,
            "cpus": cpu_list(verdict.seat.cpus) or None,
            "state": str(verdict.seat.state),
            "is_certain": verdict.is_certain,
            "is_shared": verdict.is_shared,
            "memory_left_bytes": verdict.memory_left_bytes,
            "power_headroom_watts": verdict.seat.power_headroom_watts,
            "temperature_headroom_celsius": verdict.seat.temperature_headroom_celsius,
        }
        for verdict in choice.verdicts
    ]


def _named(seat: Seat) -> Form:
    return {"uuid": seat.uuid, "index": seat.device.index, "label": seat.label}


def _score(score: PlacementScore) -> Form:
    return {name: getattr(score, name) for name in _CRITERIA}


def _rejected(rejected: RejectedSet) -> Form:
    return {
        "seats": [_named(seat) for seat in rejected.seats],
        "score": _score(rejected.score),
        "why": rejected.why,
    }


def _occupied(verdict: Verdict) -> Form:
    return {
        **_named(verdict.seat),
        "obstacle": str(verdict.obstacle),
        "why": verdict.why,
        "state": str(verdict.seat.state),
        "idle_seconds": verdict.seat.idle_seconds,
    }

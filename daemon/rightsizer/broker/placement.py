"""Placement now: best slots by the latest report and the leases, as JSON."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

from rightsizer.advice.operator_commands import cpu_list
from rightsizer.broker.choice import PlacementChoice, PlacementRefusal, RejectedSet, choose
from rightsizer.broker.lease import GpuRequest, Lease
from rightsizer.broker.request_parser import request_of
from rightsizer.broker.scoring import PlacementScore
from rightsizer.broker.settings import PlacementSettings
from rightsizer.broker.slot import LeaseSlot, SlotVerdict
from rightsizer.broker.slot_builder import SlotView, slots_of
from rightsizer.model.report import Report
from rightsizer.model.topology import Topology
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Router

_CRITERIA: Final = tuple(PlacementScore.__dataclass_fields__)
Form = dict[str, Any]


def place_form(
    answer: PlacementChoice | PlacementRefusal,
    *,
    time: Nanoseconds,
    watched_seconds: float,
    source: str,
) -> Form:
    """All that is known of an answer; what is not is null.

    Args:
        answer: What was chosen, or why nothing was.
        time: Wall time of the readings.
        watched_seconds: For how long the node was watched before.
        source: Who looked: `agent` or `look`.
    """
    choice = answer if isinstance(answer, PlacementChoice) else None
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
        "seats": [] if choice is None else _slots(choice),
        "score": None if choice is None else _score(choice.score),
        "reasons": list(answer.reasons),
        "equals": 0 if choice is None else choice.equals,
        "is_exact": True if choice is None else choice.is_exact,
        "is_hopeless": isinstance(answer, PlacementRefusal) and answer.is_hopeless,
        "rejected": [] if choice is None else [_rejected(each) for each in choice.rejected],
        "occupied": [_occupied(each) for each in answer.occupied],
    }


def _request(request: GpuRequest) -> Form:
    return {
        "gpus": request.gpus,
        "memory_bytes": request.memory_bytes,
        "may_share": request.may_share,
        "interconnect": str(request.interconnect),
        "mig_profile": request.mig_profile,
    }


def _slots(choice: PlacementChoice) -> list[Form]:
    return [
        {
            **_named(verdict.slot),
            "name": verdict.slot.device.name,
            "mig_profile": None
            if verdict.slot.device.mig is None
            else verdict.slot.device.mig.profile,
            "parent_uuid": None if verdict.slot.device.mig is None else verdict.slot.gpu_uuid,
            "numa_node": verdict.slot.numa_node,
            "cpus": cpu_list(verdict.slot.cpus) or None,
            "state": str(verdict.slot.state),
            "is_certain": verdict.is_certain,
            "is_shared": verdict.is_shared,
            "memory_left_bytes": verdict.memory_left_bytes,
            "power_headroom_watts": verdict.slot.power_headroom_watts,
            "temperature_headroom_celsius": verdict.slot.temperature_headroom_celsius,
        }
        for verdict in choice.verdicts
    ]


def _named(slot: LeaseSlot) -> Form:
    return {"uuid": slot.uuid, "index": slot.device.index, "label": slot.label}


def _score(score: PlacementScore) -> Form:
    return {name: getattr(score, name) for name in _CRITERIA}


def _rejected(rejected: RejectedSet) -> Form:
    return {
        "seats": [_named(slot) for slot in rejected.slots],
        "score": _score(rejected.score),
        "why": rejected.why,
    }


def _occupied(verdict: SlotVerdict) -> Form:
    return {
        **_named(verdict.slot),
        "obstacle": str(verdict.obstacle),
        "why": verdict.why,
        "state": str(verdict.slot.state),
        "idle_seconds": verdict.slot.idle_seconds,
    }


@dataclass(frozen=True, slots=True)
class LeasedSlots:
    """What is lent of the node, and kept free."""

    leases: Mapping[str, tuple[Lease, ...]] = field(default_factory=dict)
    """By uuid of the slot."""
    reserved: Collection[str] = frozenset()
    """Uuids of the slots that are kept free for others."""
    pids: Collection[int] = frozenset()
    """All processes of the leases."""
    later: Mapping[str, str] = field(default_factory=dict)
    """By uuid of the slot the reservation that is the next to begin there, as a clause."""


def placement_response(
    site: Router, request: WebRequest, settings: PlacementSettings, given: LeasedSlots
) -> WebResponse:
    """The answer to a question about the best slots, by the latest report.

    Raises:
        UsageError: it is no such question.
    """
    wanted = request_of({name: values[-1] for name, values in request.query.items()})
    report = site.latest()
    trouble = "no GPU has been read yet; ask again in a moment"
    if report is None or not report.devices:
        told = trouble if report is None else report.agent.trouble or trouble
        return WebResponse.of_text(told, HTTPStatus.SERVICE_UNAVAILABLE)
    view = view_of(settings, site.wall_time(), site.freshness, given.pids)
    answer = chosen_of(slots_of(report, view), report, wanted, settings, given)
    answer = replace(answer, reasons=(*answer.reasons, *_kept_later(answer, given)))
    watched = seconds(report.wall_time - report.agent.started)
    return WebResponse.of_json(
        place_form(answer, time=report.wall_time, watched_seconds=watched, source="agent")
    )


def view_of(
    settings: PlacementSettings,
    now: Nanoseconds,
    freshness: FreshnessSettings,
    leased_pids: Collection[int] = frozenset(),
) -> SlotView:
    """How slots are seen in a report, by the settings.

    Args:
        settings: The thresholds of what counts as trouble.
        now: Wall time.
        freshness: When a reading is stale.
        leased_pids: All processes of leases.
    """
    rules: Any = settings.recommender.rules
    return SlotView(now, freshness, rules.hardware_unhealthy.trouble, leased_pids)


def chosen_of(
    slots: tuple[LeaseSlot, ...],
    report: Report,
    request: GpuRequest,
    settings: PlacementSettings,
    given: LeasedSlots,
) -> PlacementChoice | PlacementRefusal:
    """The best slots of a report, by the settings and by what is lent."""
    return choose(
        slots,
        report.node.topology or Topology(),
        request,
        settings.placement,
        leased=given.leases,
        reserved=given.reserved,
    )


def _kept_later(answer: PlacementChoice | PlacementRefusal, given: LeasedSlots) -> Iterator[str]:
    """A sentence for each slot that can be given now, and is kept for somebody from later on."""
    verdicts = answer.verdicts if isinstance(answer, PlacementChoice) else answer.free
    for slot in (each.slot for each in verdicts):
        if slot.uuid in given.later:
            yield (
                f"{slot.label} is kept for {given.later[slot.uuid]}: "
                "`rightsizer run` lends it only with a --time-limit that is over by then."
            )

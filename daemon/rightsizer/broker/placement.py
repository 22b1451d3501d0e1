"""Documents of placement proposals, by the latest report and the leases."""

from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.choice import PlacementChoice, PlacementRefusal, RejectedSet, choose
from rightsizer.broker.lease import Lease
from rightsizer.broker.request import request_of
from rightsizer.broker.settings import PlacementSettings
from rightsizer.broker.slot import LeaseSlot, SlotVerdict
from rightsizer.broker.slot_builder import SlotView, slots_of
from rightsizer.model.values import Nanoseconds, Report, Topology, cpu_list, seconds
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.message import WebRequest, WebResponse


def placement_document(
    answer: PlacementChoice | PlacementRefusal,
    *,
    time: Nanoseconds,
    watched_seconds: float,
    source: str,
) -> dict[str, object]:
    """Return an answer; unknown values are null.

    `time` is the readings' wall time, `watched_seconds` the observation time before it; `source`
    is `agent` or `look`.
    """
    choice = answer if isinstance(answer, PlacementChoice) else None
    return {
        "is_met": choice is not None,
        "request": answer.request,
        "source": source,
        "time": seconds(time),
        "watched_seconds": round(watched_seconds, 3),
        "cuda_visible_devices": ",".join(choice.uuids) if choice else None,
        "cpus": (cpu_list(choice.cpus) or None) if choice else None,
        "numa_nodes": choice.numa_nodes if choice else (),
        "seats": [*map(_chosen, choice.verdicts)] if choice else (),
        "score": choice.score if choice else None,
        "reasons": answer.reasons,
        "equals": choice.equals if choice else 0,
        "is_exact": choice.is_exact if choice else True,
        "is_hopeless": isinstance(answer, PlacementRefusal) and answer.is_hopeless,
        "rejected": [*map(_rejected, choice.rejected)] if choice else (),
        "occupied": [*map(_occupied, answer.occupied)],
    }


def _rejected(rejected_set: RejectedSet) -> dict[str, object]:
    seats = [*map(_named, rejected_set.slots)]
    return {"seats": seats, "score": rejected_set.score, "why": rejected_set.why}


def _chosen(verdict: SlotVerdict) -> dict[str, object]:
    slot = verdict.slot
    mig = slot.device.mig
    return {
        **_named(slot),
        "name": slot.device.name,
        "mig_profile": None if mig is None else mig.profile,
        "parent_uuid": None if mig is None else slot.device.board_uuid,
        "numa_node": slot.numa_node,
        "cpus": cpu_list(slot.cpus) or None,
        "state": slot.state,
        "is_certain": verdict.is_certain,
        "is_shared": verdict.is_shared,
        "memory_left_bytes": verdict.memory_left_bytes,
        "power_headroom_watts": slot.power_headroom_watts,
        "temperature_headroom_celsius": slot.temperature_headroom_celsius,
    }


def _named(slot: LeaseSlot) -> dict[str, object]:
    return {"uuid": slot.uuid, "index": slot.device.index, "label": slot.label}


def _occupied(verdict: SlotVerdict) -> dict[str, object]:
    return {
        **_named(verdict.slot),
        "obstacle": verdict.obstacle,
        "why": verdict.why,
        "state": verdict.slot.state,
        "idle_seconds": verdict.slot.idle_seconds,
    }


class LeasedSlots(Struct, frozen=True):
    """Leases and reservations of the node."""

    leases: Mapping[str, tuple[Lease, ...]] = {}
    reserved: Collection[str] = frozenset()
    """Uuids of slots kept free for others."""
    pids: Collection[int] = frozenset()
    later: Mapping[str, str] = {}
    """Next reservation by slot uuid, as a clause."""


def placement_response(
    request: WebRequest,
    report: Report | None,
    view: SlotView,
    settings: PlacementSettings,
    leased: LeasedSlots,
) -> WebResponse:
    """Answer with the best slots by a report; raises `UsageError` for a bad query."""
    wanted = request_of({name: values[-1] for name, values in request.query.items()})
    trouble = "no GPU has been read yet; ask again in a moment"
    if report is None or not report.devices:
        text = trouble if report is None else report.agent.trouble or trouble
        return WebResponse.of_text(text, HTTPStatus.SERVICE_UNAVAILABLE)
    answer = choose(
        slots_of(report, view),
        report.node.topology or Topology(),
        wanted,
        settings.placement,
        leased=leased.leases,
        reserved=leased.reserved,
    )
    answer = replace(answer, reasons=(*answer.reasons, *_kept_later(answer, leased)))
    now = report.wall_time
    watched = seconds(report.wall_time - report.agent.started)
    document = placement_document(answer, time=now, watched_seconds=watched, source="agent")
    return WebResponse.of_json(document)


def view_of(
    settings: PlacementSettings,
    now: Nanoseconds,
    freshness: FreshnessSettings,
    leased_pids: Collection[int] = frozenset(),
) -> SlotView:
    """Parameters of slots from a report, by the settings."""
    rules: Any = settings.recommender.rules
    return SlotView(now, freshness, rules.hardware_unhealthy.trouble, leased_pids)


def _kept_later(answer: PlacementChoice | PlacementRefusal, leased: LeasedSlots) -> Iterator[str]:
    """One sentence per slot that is available now but reserved later."""
    verdicts = answer.verdicts if isinstance(answer, PlacementChoice) else answer.free
    for slot in (verdict.slot for verdict in verdicts):
        if slot.uuid in leased.later:
            yield (
                f"{slot.label} is kept for {leased.later[slot.uuid]}: "
                "`rightsizer run` lends it only with a --time-limit that is over by then."
            )

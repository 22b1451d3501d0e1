"""Which GPUs of this node to take right now, from a report and from what is lent."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from rightsizer.domain.report import Report
from rightsizer.domain.topology import Topology
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.placement.choice import Choice, Refusal, choose
from rightsizer.placement.lease import Lease
from rightsizer.placement.request import Request as SeatRequest
from rightsizer.placement.seat import Seat
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Site
from rightsizer.runtime.place_form import place_form
from rightsizer.runtime.place_request import request_of
from rightsizer.runtime.seats import SeatView, seats_of
from rightsizer.runtime.settings import Settings

__all__ = ["Given", "answered", "chosen_of", "view_of"]


@dataclass(frozen=True, slots=True)
class Given:
    """What is lent of the node, and kept free."""

    leases: Mapping[str, tuple[Lease, ...]] = field(default_factory=dict)
    """By uuid of the seat."""
    reserved: Collection[str] = frozenset()
    """Uuids of the seats that are kept free for others."""
    pids: Collection[int] = frozenset()
    """All processes of the leases."""
    later: Mapping[str, str] = field(default_factory=dict)
    """By uuid of the seat the reservation that is the next to begin there, as a clause."""


def answered(site: Site, request: Request, settings: Settings, given: Given) -> Response:
    """The answer to a question about the best seats, by the latest report.

    Raises:
        UsageError: it is no such question.
    """
    wanted = request_of({name: values[-1] for name, values in request.query.items()})
    report = site.latest()
    trouble = "no GPU has been read yet; ask again in a moment"
    if report is None or not report.devices:
        told = trouble if report is None else report.agent.trouble or trouble
        return Response.of_text(told, HTTPStatus.SERVICE_UNAVAILABLE)
    view = view_of(settings, site.wall_time(), site.freshness, given.pids)
    answer = chosen_of(seats_of(report, view), report, wanted, settings, given)
    answer = replace(answer, reasons=(*answer.reasons, *_kept_later(answer, given)))
    watched = seconds(report.wall_time - report.agent.started)
    return Response.of_json(
        place_form(answer, time=report.wall_time, watched_seconds=watched, source="agent")
    )


def view_of(
    settings: Settings,
    now: Nanoseconds,
    freshness: FreshnessSettings,
    leased_pids: Collection[int] = frozenset(),
) -> SeatView:
    """How seats are seen in a report, by the settings.

    Args:
        settings: The thresholds of what counts as trouble.
        now: Wall time.
        freshness: When a reading is stale.
        leased_pids: All processes of leases.
    """
    rules: Any = settings.recommender.rules
    return SeatView(now, freshness, rules.hardware_unhealthy.trouble, leased_pids)


def chosen_of(
    seats: tuple[Seat, ...],
    report: Report,
    request: SeatRequest,
    settings: Settings,
    given: Given,
) -> Choice | Refusal:
    """The best seats of a report, by the settings and by what is lent."""
    return choose(
        seats,
        report.node.topology or Topology(),
        request,
        settings.placement,
        leased=given.leases,
        reserved=given.reserved,
    )


def _kept_later(answer: Choice | Refusal, given: Given) -> Iterator[str]:
    """A sentence for each seat that can be given now, and is kept for somebody from later on."""
    verdicts = answer.verdicts if isinstance(answer, Choice) else answer.free
    for seat in (each.seat for each in verdicts):
        if seat.uuid in given.later:
            yield (
                f"{seat.label} is kept for {given.later[seat.uuid]}: "
                "`rightsizer run` lends it only with a --time-limit that is over by then."
            )

"""A week of a node that is lent: arrivals come, wait, run and go, and everything is counted."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from broker_node import Running, World
from evaluation.broker.allocators import Answer, Lender
from evaluation.broker.arrivals import Arrival
from measured import quantile
from readings import GIBIBYTE
from rightsizer.broker.lease import LeaseObservation
from rightsizer.model.topology import Topology
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.sizing.gpu_sets import best_set, score_of

_LOOK_SECONDS: Final = 600.0
"""Between two looks at least; each arrival and each end brings one too."""
_OUTSIDER_EVERY: Final = 200
"""Arrivals for each process that someone starts without asking."""
_OUTSIDER_SECONDS: Final = 5400.0


@dataclass
class WeekCounts:
    """Counts of a week."""

    waits: dict[str, float] = field(default_factory=dict)
    """Seconds, by ticket."""
    sizes: dict[str, int] = field(default_factory=dict)
    leased_seconds: float = 0.0
    """GPU time with a lease."""
    job_seconds: float = 0.0
    """GPU time of jobs, each with all of its GPUs."""
    demand_seconds: float = 0.0
    """GPU time that jobs really kept busy."""
    joined: int = 0
    """Jobs on several GPUs that got a set as well joined as any on the empty node."""
    several: int = 0
    doubles: int = 0
    """Looks at which a GPU was lent twice though not all share."""
    overfull: int = 0
    """Looks at which jobs and outsiders held more memory than there is."""
    ends_seconds: float = 0.0
    """When the last job was over."""
    notices: int = 0

    def wait_of(self, share: float, gpus: int | None = None) -> float:
        """A quantile of the seconds that tickets waited, of one size or all; 0 of none."""
        chosen = [w for name, w in self.waits.items() if gpus in (None, self.sizes[name])]
        return quantile(chosen, share) if chosen else 0.0


def live(lender: Lender, topology: Topology, coming: Sequence[Arrival]) -> WeekCounts:
    """Live through all arrivals until the last one is served and over."""
    life = _Life(lender, topology, coming)
    while life.is_going_on:
        life.go_on()
    return life.lived


class _Life:
    """The node, its clients, and what happens next."""

    def __init__(self, lender: Lender, topology: Topology, coming: Sequence[Arrival]) -> None:
        self._lender = lender
        self._world = World(topology)
        self._coming = {each.ticket.id: each for each in coming}
        self._due = [(each.at_seconds, "come", each.ticket.id) for each in coming]
        outsiders = coming[_OUTSIDER_EVERY // 2 :: _OUTSIDER_EVERY]
        self._due += [
            (outsider.at_seconds + 1, "intrude", outsider.ticket.id) for outsider in outsiders
        ]
        heapq.heapify(self._due)
        self._waiting: set[str] = set()
        self._dead: set[str] = set()
        """Those that ended without a word, and may not have been seen to."""
        self._shared: set[str] = set()
        self._now = 0.0
        self.lived = WeekCounts(sizes={each.ticket.id: each.gpus for each in coming})

    @property
    def is_going_on(self) -> bool:
        """Whether arrivals, waiting or running leases remain."""
        return bool(self._due or self._waiting)

    def go_on(self) -> None:
        """Go to the next moment at which something happens, and look."""
        until = self._now + _LOOK_SECONDS
        at = min(until, self._due[0][0]) if self._due else until
        self._count(at - self._now)
        self._now = at
        while self._due and self._due[0][0] <= at:
            _, what, name = heapq.heappop(self._due)
            self._happens(what, name)
        self._start(self._lender.turn(self._time, self._seen(), self._world.observe()))
        self._check()

    @property
    def _time(self) -> Nanoseconds:
        return nanoseconds(self._now)

    def _happens(self, what: str, name: str) -> None:
        if what == "come":
            self._waiting.add(name)
            self._start(self._lender.ask(self._time, self._coming[name].ticket))
        elif what == "end":
            del self._world.running[name]
            self.lived.ends_seconds = self._now
            if self._coming[name].gives_back:
                self._lender.give_back(self._time, name)
            else:
                self._dead.add(name)
        elif what == "intrude":
            uuid = self._world.uuids[len(self._due) % len(self._world.uuids)]
            self._world.outsiders[name] = Running((uuid,), 5 * GIBIBYTE, 0.2)
            heapq.heappush(self._due, (self._now + _OUTSIDER_SECONDS, "leave", name))
        else:
            del self._world.outsiders[name]

    def _start(self, answer: Answer) -> None:
        self.lived.notices += answer.notices
        for name, uuids in answer.granted.items():
            if name not in self._waiting:
                continue
            job = self._coming[name]
            self._waiting.remove(name)
            self._world.running[name] = Running(uuids, job.memory_bytes, job.demand)
            heapq.heappush(self._due, (self._now + job.lasts_seconds, "end", name))
            self.lived.waits[name] = self._now - job.at_seconds
            self.lived.job_seconds += job.gpus * job.lasts_seconds
            self.lived.demand_seconds += job.gpus * job.lasts_seconds * job.demand
            if job.gpus > 1:
                self.lived.several += 1
                self.lived.joined += self._is_best_joined(uuids)

    def _seen(self) -> dict[str, LeaseObservation]:
        seen = {name: LeaseObservation(is_alive=True) for name in self._waiting}
        for name, job in self._world.running.items():
            memory = dict.fromkeys(job.uuids, job.memory_bytes)
            seen[name] = LeaseObservation(is_alive=True, is_active=True, memory_bytes=memory)
        return seen | {name: LeaseObservation(is_alive=False) for name in self._dead}

    def _check(self) -> None:
        for slot in self._world.observe().slots:
            jobs = [n for n, job in self._world.running.items() if slot.uuid in job.uuids]
            alone = [n for n in jobs if not self._coming[n].ticket.request.may_share]
            self.lived.doubles += bool(alone) and len(jobs) > 1
            self.lived.overfull += (slot.memory_used_bytes or 0) > (
                slot.device.memory_total_bytes or 0
            )

    def _count(self, elapsed_seconds: float) -> None:
        held = {uuid for job in self._world.running.values() for uuid in job.uuids}
        self.lived.leased_seconds += elapsed_seconds * len(held)

    def _is_best_joined(self, uuids: Sequence[str]) -> bool:
        topology = self._world.topology
        best = best_set(self._world.uuids, len(uuids), topology)
        assert best is not None
        return score_of(uuids, topology).weakest >= best.score.weakest

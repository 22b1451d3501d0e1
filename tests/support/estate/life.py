"""The holders of each GPU of the fleet over time, and gaps in its monitoring."""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from estate.character import EMPTY, SLOTS, Character, characters
from estate.layout import JOBS, Job, Layout, Machine, Owner
from rightsizer.model.device import Device
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import Level

__all__ = ["Gpu", "Life", "Part", "at_level", "live"]

_AWAY: Final = ("serve-2", 5)
"""A node, and the day on which it was unreachable."""
_RESTARTS: Final[Mapping[str, float]] = {"train-3": 9.55, "batch-1": 3.2, "serve-2": 6.0}
"""Nodes with a restarted agent, which resets its counters, and on which day."""
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Part(Struct, frozen=True):
    """A stretch of a GPU's life with one holder, in slots since the fleet's start."""

    first: int
    last: int
    """The first slot after it."""
    character: str
    job: Job | None = None
    pod: str = ""


class Gpu(Struct, frozen=True):
    """A GPU of the fleet."""

    device: Device
    machine: Machine
    number: int
    """Number within the whole fleet."""
    parts: tuple[Part, ...]
    """In order; time between them was not observed."""
    restarts: tuple[int, ...] = ()
    """Slots that begin with the agent's counters reset to 0."""

    @property
    def instance(self) -> str:
        """The scrape address of its agent."""
        return f"{self.machine.name}:19400"


class Life(Struct, frozen=True):
    """The fleet over some days."""

    layout: Layout
    days: int
    start: int
    """Start of the first day, UTC, in seconds since the epoch."""
    gpus: tuple[Gpu, ...]
    variants: tuple[Mapping[str, Character], ...]
    fine_hours: int = 24
    """Final span in which samples are a minute apart, as agents are scraped."""

    @property
    def slots(self) -> int:
        """Number of slots."""
        return self.days * SLOTS

    @property
    def fine_from(self) -> int:
        """The first slot with samples a minute apart.

        Before it there is one sample per slot, so that a store fills quickly.
        """
        return max(0, self.slots - self.fine_hours * SLOTS // 24)

    @property
    def end(self) -> int:
        """End of the last day."""
        return self.start + self.days * 86400

    def came(self, machine: Machine) -> int:
        """The first slot with the machine."""
        hours = machine.since_hours
        return 0 if hours is None else max(0, self.slots - hours * SLOTS // 24)

    def character(self, gpu: Gpu, part: Part, day: int) -> tuple[Character, int]:
        """A GPU's character on a day, and its shift in slots.

        Ranks of a job stay in step, and loads that follow the sun keep their hours; the rest is
        shifted, so that two replicas never do the same at once.
        """
        job = part.job
        spread = 0 if job is None or job.is_in_step else gpu.number
        variant = self.variants[(day + spread) % len(self.variants)]
        moves = job is not None and job.owner is Owner.DEPLOYMENT and job.name != "chat-api"
        return variant[part.character], (37 * gpu.number + 101 * day) % SLOTS if moves else 0


def live(
    layout: Layout, days: int, start: int, *, tick_seconds: int = 60, variants: int = 2
) -> Life:
    """Simulate a fleet; equal arguments give equal fleets.

    Args:
        layout: The holders' places.
        days: Number of days.
        start: Seconds since the epoch; midnight, UTC.
        tick_seconds: Time between two readings of an agent.
        variants: Number of different days of a character.
    """
    days_of = tuple(characters(tick_seconds, variant) for variant in range(variants))
    gpus: list[Gpu] = []
    ranks: dict[str, int] = {}
    for machine in layout.machines:
        for index, text in enumerate(machine.gpus):
            number = len(gpus)
            held = tuple(_parts(machine, text, ranks, days))
            device = _device(days_of[0][_character_name(machine, text)].device, number, index)
            away, restarts = _troubles(machine, days)
            gpus.append(Gpu(device, machine, number, _without(held, away), restarts))
    return Life(layout, days, start, tuple(gpus), days_of)


def at_level(life: Life, level: Level) -> Life:
    """The same life with agents at a lower metric level."""

    def kept(character: Character) -> Character:
        own: dict[str, Any] = {
            name: {key: values for key, values in getattr(character, name).items() if has(key[0])}
            for name in ("grown", "gauges")
        }
        return dataclasses.replace(character, **own)

    def has(series: str) -> bool:
        metric = METRICS.get(series) or METRICS[series.rpartition("_")[0]]
        return metric.level.rank <= level.rank

    variants = tuple(
        {name: kept(character) for name, character in variant.items()} for variant in life.variants
    )
    return replace(life, variants=variants)


def _character_name(machine: Machine, text: str) -> str:
    return f"{EMPTY}{machine.board}" if text == "-" else text.rpartition("@")[2]


def _device(device: Device, number: int, index: int) -> Device:
    uuid = f"GPU-{hashlib.sha256(b'estate %d' % number).hexdigest()[:32]}"
    uuid = "-".join((uuid[:12], uuid[12:16], uuid[16:20], uuid[20:24], uuid[24:]))
    return replace(device, uuid=uuid, index=index, pci_bus_id=f"00000000:{index + 16:02X}:00.0")


def _parts(machine: Machine, text: str, ranks: dict[str, int], days: int) -> Iterator[Part]:
    job = JOBS.get(text.partition("@")[0])
    free = f"{EMPTY}{machine.board}"
    if job is None:
        yield Part(0, days * SLOTS, free)
        return
    rank = ranks[job.name] = ranks.get(job.name, -1) + 1
    first = round(rank * job.joins_every_days * SLOTS)
    if first:
        yield Part(0, min(first, days * SLOTS), free)
    if job.hours is None:
        character = text.rpartition("@")[2]
        yield from _held(job, character, rank, (first, days * SLOTS))
        return
    begins, ends = (hour * SLOTS // 24 for hour in job.hours)
    at = first
    for day in range(days):
        # Its character includes the free hours; only the holder changes.
        until = day * SLOTS + ends
        again = day * SLOTS + begins
        yield Part(at, until, job.name, job, _pod(job, rank, day))
        yield Part(until, again, job.name)
        at = again
    yield Part(at, days * SLOTS, job.name, job, _pod(job, rank, days))


def _held(job: Job, character: str, rank: int, span: tuple[int, int]) -> Iterator[Part]:
    at, end = span
    churn = round(job.churn_days * SLOTS) or end
    while at < end:
        generation = at // churn
        until = min(end, (generation + 1) * churn)
        yield Part(at, until, character, job, _pod(job, rank, generation))
        at = until


def _pod(job: Job, rank: int, generation: int) -> str:
    if job.owner is Owner.SLURM:
        return ""
    suffix = _made_up(f"{job.name} {rank} {generation}", 5)
    if job.owner is Owner.CRON_JOB:
        # Minutes since the epoch at which it was due, as Kubernetes names such jobs.
        return f"{job.name}-{29_000_000 + 1440 * generation}-{suffix}"
    if job.owner in {Owner.JOB, Owner.NOTEBOOK}:
        return f"{job.name}-{suffix}"
    return f"{job.name}-{_made_up(f'{job.name} {generation}', 9)}-{suffix}"


def _made_up(text: str, length: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()[:length]
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest)


def _troubles(machine: Machine, days: int) -> tuple[tuple[int, int], tuple[int, ...]]:
    away = (_AWAY[1] * SLOTS, (_AWAY[1] + 1) * SLOTS) if machine.name == _AWAY[0] else (0, 0)
    if machine.since_hours is not None:
        away = (0, days * SLOTS - machine.since_hours * SLOTS // 24)
    restart = _RESTARTS.get(machine.name)
    restarts = (round(restart * SLOTS),) if restart is not None and restart < days else ()
    return away, restarts


def _without(parts: tuple[Part, ...], away: tuple[int, int]) -> tuple[Part, ...]:
    """The parts outside a gap."""
    first, last = away
    found = []
    for part in parts:
        before = replace(part, last=min(part.last, first)) if first < last else part
        after = replace(part, first=max(part.first, last)) if first < last else None
        found += [each for each in (before, after) if each and each.first < each.last]
    return tuple(found)

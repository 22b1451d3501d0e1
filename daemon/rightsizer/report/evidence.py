"""Evidence of accounts and of what was said about a source: read, assumed, learned, dropped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    HOUR,
    NANOSECONDS_PER_SECOND,
    Device,
    Evidence,
    EvidenceKind,
    Tier,
    UnknownReason,
    Window,
    weightiest,
)
from rightsizer.report.labels import unknown_parts

SHOWN: Final = 3
"""Items that a text shows; JSON has all."""
RESTS_ON: Final = {
    "memory_total_bytes": "whether a GPU is empty, and its need of memory",
    "power_limit_watts": "the power tier: stalls, and effective utilization",
    "sm_clock_maximum_hertz": "throttling, and stalls at a low clock",
}
"""What hangs on a capacity of a device."""


def assumed_capacities(devices: Iterable[tuple[Device, Iterable[str]]]) -> Iterator[Evidence]:
    """Yield capacities of devices that are those of the catalogue's boards."""
    counts = Counter((name, device.board) for device, names in devices for name in names)
    for (name, board), count in counts.items():
        subject = f"{name} of {counted(count, 'GPU')}"
        reason = f"from {board or 'its board'} in the catalogue"
        yield Evidence(EvidenceKind.ASSUMED, subject, reason, count, RESTS_ON.get(name, ""))


def accounts_evidence(accounts: Sequence[tuple[Device, Window]]) -> Iterator[Evidence]:
    """Yield what the accounts of devices over their windows rest on."""
    yield from assumed_capacities((device, device.assumed) for device, _ in accounts)
    windows = [window for _, window in accounts]
    basic = sum(window.tier is Tier.BASIC for window in windows)
    if basic:
        yield Evidence(
            EvidenceKind.ASSUMED,
            f"work of {counted(basic, 'GPU')} by utilization alone",
            "neither power with its limit nor profiling counters were read",
            basic,
            "whether a GPU works or only spins",
        )
    unknown: Counter[UnknownReason] = Counter()
    for window in windows:
        unknown.update(window.unknown_reasons)
    for reason, time in unknown_parts(unknown):
        yield Evidence(
            EvidenceKind.DROPPED,
            f"{_hours(time)} without a state",
            reason,
            effect="counted neither as idle nor as work",
        )
    known_nanoseconds = sum(window.known_seconds for window in windows) * NANOSECONDS_PER_SECOND
    subject = f"{_hours(known_nanoseconds)} of {counted(len(accounts), 'GPU')}"
    yield Evidence(EvidenceKind.READ, subject, count=len(accounts))


def noted(kind: EvidenceKind, notes: Iterable[str]) -> Iterator[Evidence]:
    """Yield sentences about a source as evidence."""
    return (Evidence(kind, note) for note in notes)


def rests_on(evidence: Iterable[Evidence]) -> list[str]:
    """Return what matters most, a line each, of what is not simply read."""
    evidences = [item for item in evidence if item.kind is not EvidenceKind.READ and item.effect]
    return [item.text for item in weightiest(evidences, SHOWN)]


def _hours(time: float) -> str:
    return f"{time / HOUR:,.1f} GPU-hours"

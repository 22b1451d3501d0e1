"""Judgement of profiles beside telemetry, from a history or a running agent's accounts."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from rightsizer.accounting.device_account import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, HolderPeriod
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.model.device import Device
from rightsizer.model.profile import Profile
from rightsizer.model.units import HOUR, NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.model.window import Window
from rightsizer.profiler.comparison import ProfileTelemetry, ProfileTelemetryOf
from rightsizer.profiler.join import join
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.profiler.taken_profile import TakenProfile, taken
from rightsizer.profiler.workload import judged_workloads

_UNSEEN: Final[Nanoseconds] = 120 * NANOSECONDS_PER_SECOND
"""A holder is written down once a minute, so that one of a moment ago is seen no later."""


def history_telemetry(history: HistoryRepository) -> tuple[tuple[Device, ...], ProfileTelemetryOf]:
    """The devices that a history knows, and their windows, those of long ago in hours.

    Raises:
        HistoryError: it cannot be read.
    """
    known, tenures = history.devices(), history.tenures()

    def telemetry(uuid: str, start: Nanoseconds, end: Nanoseconds) -> ProfileTelemetry | None:
        builder = WindowBuilder(uuid)
        for window in history.load(start - HOUR, end + 1):
            if window.uuid == uuid and window.end > start:
                builder.merge(window)
        window = builder.window()
        holder = _holder(uuid, start, end, tenures)
        return _telemetry(window, known, holder, (start, end)) if window.accounted else None

    return tuple(each.device for each in known), telemetry


def _accounts_telemetry(
    accountant: AccountingService, tenures: Sequence[HolderPeriod]
) -> tuple[tuple[Device, ...], ProfileTelemetryOf]:
    """The same of what an agent remembers now, and the holders that a history tells."""
    queries = {each.uuid: each for each in accountant.remembered()[1]}
    known = tuple(accountant.known())

    def telemetry(uuid: str, start: Nanoseconds, end: Nanoseconds) -> ProfileTelemetry | None:
        remembered = queries.get(uuid)
        if remembered is None:
            return None
        grain = remembered.grain(start - start % HOUR, end)
        window = remembered.window(start - start % grain, end + 1)
        if not window.accounted:
            return None
        present = (
            each.holder.key
            for each in known
            if each.device.uuid == uuid and each.holder and each.holder_since < end
        )
        holder = next(present, None) or _holder(uuid, start, end, tenures)
        return _telemetry(window, known, holder, (start, end))

    return tuple(each.device for each in known), telemetry


def _holder(
    uuid: str, start: Nanoseconds, end: Nanoseconds, tenures: Sequence[HolderPeriod]
) -> str | None:
    """The workload that held a device for most of a span of time; `None` where none is known."""
    parts = {
        each.workload: min(end, each.seen + _UNSEEN) - max(start, each.since)
        for each in tenures
        if each.uuid == uuid and each.since < end and each.seen + _UNSEEN > start
    }
    return max(parts, key=lambda key: (parts[key], key)) if parts else None


def _telemetry(
    window: Window,
    known: Iterable[DeviceRecord],
    workload: str | None,
    asked: tuple[Nanoseconds, Nanoseconds],
) -> ProfileTelemetry:
    devices = (each.device for each in known)
    total = next((each.memory_total_bytes for each in devices if each.uuid == window.uuid), None)
    start, end = asked
    unseen = max(0, min(window.start, end) - start) + max(0, end - max(window.end, start))
    return ProfileTelemetry(window, workload, total, seconds(unseen))


def taken_profiles(
    profiles: Sequence[Profile],
    accountant: AccountingService,
    tenures: Sequence[HolderPeriod],
    settings: ProfileSettings,
    now: Nanoseconds,
) -> tuple[TakenProfile, ...]:
    """What is kept of profiles in any order, one for each program, beside the accounts."""
    devices, telemetry = _accounts_telemetry(accountant, tenures)
    workloads = judged_workloads(profiles, settings.judges)
    return tuple(
        taken(
            each,
            join(each.profiles, devices, telemetry, settings.comparison),
            settings.comparison,
            now,
        )
        for each in workloads
    )


def profile_from_json(texts: Iterable[str]) -> tuple[TakenProfile, ...]:
    """What was kept, the latest first; what a newer program kept is passed over."""
    found: list[TakenProfile] = []
    for text in texts:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            found.append(TakenProfile.of(text))
    return tuple(sorted(found, key=lambda each: (-each.taken, each.id)))

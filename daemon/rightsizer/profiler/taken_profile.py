"""Taken profiles: judged with telemetry of the same time, and their stored form."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, HolderPeriod
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.advice.confidence import confidence_of
from rightsizer.advice.verdict import finding_id
from rightsizer.io.codec import decode, plain, stored
from rightsizer.model.profile import Profile
from rightsizer.model.values import (
    HOUR,
    NANOSECONDS_PER_SECOND,
    Device,
    Finding,
    Instruction,
    Nanoseconds,
    Reason,
    Window,
    seconds,
)
from rightsizer.profiler.comparison import (
    ACTIVE_SECONDS,
    PCIE_BOUND_RATIO,
    TENSOR_CORE_RATIO,
    ProfileTelemetry,
    ProfileTelemetryOf,
)
from rightsizer.profiler.join import ProfileJoin, join
from rightsizer.profiler.profile_encoder import joined_device_document
from rightsizer.profiler.settings import ProfileComparisonSettings, ProfileSettings
from rightsizer.profiler.workload import ProfiledWorkload, judged_workloads

_UNSEEN: Final[Nanoseconds] = 120 * NANOSECONDS_PER_SECOND
"""Holders are stored once a minute; a recent one may be missing for this time."""
_LONGEST: Final = 300
"""Limit of a stored name; template signatures can be very long."""
_LONGEST_TEXT: Final = 2000
_MOST_NAMED: Final = 20
_MEASURED: Final[Mapping[Reason, str]] = {
    Reason.PCIE_BOUND: PCIE_BOUND_RATIO,
    Reason.TENSOR_CORES_UNUSED: TENSOR_CORE_RATIO,
}
"""Figures that telemetry measures itself. It may miss waits for the host and short kernels, so
their absence is no counter-evidence."""


def history_telemetry(history: HistoryRepository) -> tuple[tuple[Device, ...], ProfileTelemetryOf]:
    """Return the devices of a history and their telemetry; old windows are hourly.

    Raises:
        HistoryError: it cannot be read.
    """

    def window_of(uuid: str, start: Nanoseconds, end: Nanoseconds) -> Window:
        windows = history.load(start - HOUR, end + 1)
        parts = (window for window in windows if window.uuid == uuid and window.end > start)
        return WindowBuilder(uuid, parts).window()

    return _telemetry(history.devices(), history.tenures(), window_of)


def _accounts_telemetry(
    accounting: AccountingService, tenures: Sequence[HolderPeriod]
) -> tuple[tuple[Device, ...], ProfileTelemetryOf]:
    """Return devices and telemetry of a running agent, with holders from the history."""
    queries = {query.uuid: query for query in accounting.device_queries()[1]}
    devices = tuple(accounting.device_records())

    def window_of(uuid: str, start: Nanoseconds, end: Nanoseconds) -> Window | None:
        if (remembered := queries.get(uuid)) is None:
            return None
        grain = remembered.grain(start - start % HOUR, end)
        return remembered.window(start - start % grain, end + 1)

    return _telemetry(devices, tenures, window_of, present=devices)


def _holder(
    uuid: str, start: Nanoseconds, end: Nanoseconds, tenures: Sequence[HolderPeriod]
) -> str | None:
    """Return the workload that held a device for most of a span, or `None`."""
    parts = {
        tenure.workload: min(end, tenure.seen + _UNSEEN) - max(start, tenure.since)
        for tenure in tenures
        if tenure.uuid == uuid and tenure.since < end and tenure.seen + _UNSEEN > start
    }
    return max(parts, key=lambda key: (parts[key], key)) if parts else None


def _telemetry(
    records: Sequence[DeviceRecord],
    tenures: Sequence[HolderPeriod],
    window_of: Callable[[str, Nanoseconds, Nanoseconds], Window | None],
    present: Sequence[DeviceRecord] = (),
) -> tuple[tuple[Device, ...], ProfileTelemetryOf]:
    """Combine devices with telemetry from windows; present devices have their current holders."""
    devices = {device.device.uuid: device.device for device in records}

    def telemetry(uuid: str, start: Nanoseconds, end: Nanoseconds) -> ProfileTelemetry | None:
        if (window := window_of(uuid, start, end)) is None or not window.accounted:
            return None
        holders = (
            device.holder.key
            for device in present
            if device.device.uuid == uuid and device.holder and device.holder_since < end
        )
        holder = next(holders, None) or _holder(uuid, start, end, tenures)
        total = devices[uuid].memory_total_bytes if uuid in devices else None
        unseen = max(0, min(window.start, end) - start) + max(0, end - max(window.end, start))
        return ProfileTelemetry(window, holder, total, seconds(unseen))

    return tuple(device.device for device in records), telemetry


class TakenProfile(Struct, frozen=True):
    """A file, or one per rank of a program, with its judgement."""

    id: str
    """Stable: the same files always get the same id."""
    taken: Nanoseconds
    """Wall time."""
    moment: Nanoseconds
    """End of its span if known, else the time it was taken."""
    sources: tuple[str, ...]
    """File names without folders."""
    format: str
    key: str | None
    """The workload, or the uuid of a device without a holder; `None` if unknown."""
    unmatched: str
    """Why the workload is unknown; empty if known."""
    devices: tuple[Mapping[str, Any], ...]
    """Each with telemetry's statements, as in `rightsizer profile --json`."""
    contradictions: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> str:
        """Outcome as a label."""
        if self.key is None:
            return "unmatched"
        if any(finding.is_actionable for finding in self.findings):
            return "complaint"
        is_judged = any(finding.abstained is None for finding in self.findings)
        return "fine" if is_judged else "undecided"

    @property
    def text(self) -> str:
        """JSON for the history."""
        return stored(self)

    @classmethod
    def of(cls, text: str) -> "TakenProfile":
        """Decode a stored text; fields of newer versions are ignored.

        Raises:
            ValueError: the text is no stored profile.
        """
        return decode(text, cls)


def taken(
    workload: ProfiledWorkload,
    join: ProfileJoin,
    settings: ProfileComparisonSettings,
    now: Nanoseconds,
) -> TakenProfile:
    """Return the stored form of one workload's profiles: one file, or one per rank."""
    profiles = workload.profiles
    written_by = str(workload.profiles[0].format)
    sources = tuple(profile.source[:_LONGEST] for profile in profiles)
    parts = "|".join(
        f"{profile.source}/{profile.start}/{profile.rank}/{profile.events}" for profile in profiles
    )
    profile: dict[str, object] = {"sources": list(sources[:_MOST_NAMED]), "format": written_by}
    profile |= {"start": None, "seconds": None}
    # A profile's clock that is ahead must not extend its validity.
    moment = now
    if join.span is not None:
        start, end = join.span
        # Formatted for people, who read the evidence.
        began = datetime.fromtimestamp(start // NANOSECONDS_PER_SECOND, UTC).isoformat(" ")
        profile |= {"start": began, "seconds": seconds(end - start)}
        moment = min(now, end)
    findings = weighed(workload, join, settings).findings
    return TakenProfile(
        id=finding_id(parts, "profile", written_by, ""),
        taken=now,
        moment=moment,
        sources=sources,
        format=written_by,
        key=join.key,
        unmatched=join.unmatched,
        devices=tuple(plain(joined_device_document(device)) for device in join.devices),
        contradictions=join.contradictions,
        findings=tuple(_kept(finding, join, profile) for finding in findings),
    )


def weighed(
    workload: ProfiledWorkload, join: ProfileJoin, settings: ProfileComparisonSettings
) -> ProfiledWorkload:
    """Lower the confidence of findings that telemetry contradicts.

    It must have measured the same figure, or have seen no activity where the profile has kernels.
    """
    findings = tuple(_weighed(finding, join, settings) for finding in workload.findings)
    return replace(workload, findings=findings)


def _weighed(finding: Finding, join: ProfileJoin, settings: ProfileComparisonSettings) -> Finding:
    figure = _MEASURED.get(finding.reasons[0]) if finding.is_actionable else None
    is_contradicted = join.contradicts(figure) or join.contradicts(ACTIVE_SECONDS)
    if finding.abstained is not None or not is_contradicted:
        return finding
    factors = {**finding.confidence_factors, "telemetry": settings.contradicted_ratio}
    return replace(finding, confidence=confidence_of(factors), confidence_factors=factors)


def _kept(finding: Finding, join: ProfileJoin, profile: Mapping[str, object]) -> Finding:
    """Return a finding on the node's own devices and workload, with shortened evidence."""
    uuids = {device.key: device.device.uuid for device in join.devices if device.device is not None}
    evidence = {**_short(finding.evidence), "profile": dict(profile)}
    if finding.is_actionable and join.contradictions:
        evidence["contradictions"] = list(join.contradictions)
    named = finding.reasons[0] if finding.is_actionable else finding.rule
    devices, culprits = (
        tuple(dict.fromkeys(uuids.get(key, key) for key in keys))
        for keys in (finding.devices, finding.culprits)
    )
    return replace(
        finding,
        id=finding_id(join.key or "", named, finding.action, ""),
        devices=devices,
        culprits=culprits,
        workload=join.key if join.key not in uuids.values() else None,
        summary=_short(finding.summary),
        evidence=evidence,
        instructions=tuple(
            Instruction(
                instruction.title[:_LONGEST], instruction.text[:_LONGEST_TEXT], instruction.language
            )
            for instruction in finding.instructions
        ),
    )


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..."
    if isinstance(value, Mapping):
        return {_short(str(key)): _short(inside) for key, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value[:_MOST_NAMED]]
    return value


def taken_profiles(
    profiles: Sequence[Profile],
    accounting: AccountingService,
    tenures: Sequence[HolderPeriod],
    settings: ProfileSettings,
    now: Nanoseconds,
) -> tuple[TakenProfile, ...]:
    """Join and judge profiles in any order; return one result per program."""
    devices, telemetry = _accounts_telemetry(accounting, tenures)
    comparison = settings.comparison
    return tuple(
        taken(workload, join(workload.profiles, devices, telemetry, comparison), comparison, now)
        for workload in judged_workloads(profiles, settings.judges)
    )


def profile_from_json(texts: Iterable[str]) -> tuple[TakenProfile, ...]:
    """Decode stored profiles, latest first; those of a newer version are skipped."""
    profiles: list[TakenProfile] = []
    for text in texts:
        with suppress(ValueError):
            profiles.append(TakenProfile.of(text))
    return tuple(sorted(profiles, key=lambda profile: (-profile.taken, profile.id)))

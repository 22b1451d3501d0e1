"""Taken profiles: judged beside telemetry of the same time, and as they are stored."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from rightsizer.accounting.device_account import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, HolderPeriod
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.advice.ledger_repository import finding_from, stored_finding
from rightsizer.advice.verdict import confidence_of, finding_id
from rightsizer.io.codec import convert
from rightsizer.model.device import Device
from rightsizer.model.finding import Finding, Instruction, Reason
from rightsizer.model.frozen import asdict, dataclass, replace
from rightsizer.model.profile import Profile
from rightsizer.model.units import HOUR, NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.model.window import Window
from rightsizer.profiler.comparison import (
    PCIE_BOUND_RATIO,
    TENSOR_CORE_RATIO,
    ProfileTelemetry,
    ProfileTelemetryOf,
)
from rightsizer.profiler.join import ProfileJoin, join
from rightsizer.profiler.profile_encoder import device_forms
from rightsizer.profiler.settings import ProfileComparisonSettings, ProfileSettings
from rightsizer.profiler.workload import ProfiledWorkload, judged_workloads

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


_LONGEST: Final = 300
"""Of a name that is kept; signatures of templates go on for lines."""
_LONGEST_TEXT: Final = 2000
_MOST_NAMED: Final = 20
_MEASURED: Final[Mapping[Reason, str]] = {
    Reason.PCIE_BOUND: PCIE_BOUND_RATIO,
    Reason.TENSOR_CORES_UNUSED: TENSOR_CORE_RATIO,
}
"""What telemetry measures itself. That a GPU waits for its host, or runs kernels too short, it
may not see at all, and what it does not see is no counter-evidence."""


@dataclass(frozen=True, slots=True)
class TakenProfile:
    """One file, or one for each rank of a program, as it was judged when it was taken."""

    id: str
    """The same for the same files, whenever they are taken."""
    taken: Nanoseconds
    """Wall time."""
    moment: Nanoseconds
    """What it is of: the end of its span where that is known, else when it was taken."""
    sources: tuple[str, ...]
    """Names of files, without their folders."""
    format: str
    key: str | None
    """The workload, or the uuid of a device without a holder; `None` where it cannot be told."""
    unmatched: str
    """Why no workload can be told; empty where one can."""
    devices: tuple[Mapping[str, Any], ...]
    """Each with what telemetry says beside it, as in `rightsizer profile --json`."""
    contradictions: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> str:
        """What came of it, in a word."""
        if self.key is None:
            return "unmatched"
        if any(each.is_complaint for each in self.findings):
            return "complaint"
        is_judged = any(each.abstained is None for each in self.findings)
        return "fine" if is_judged else "undecided"

    @property
    def text(self) -> str:
        """As JSON, for the history."""
        form = asdict(self)
        form["findings"] = [stored_finding(each) for each in form["findings"]]
        return json.dumps(form, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> "TakenProfile":
        """What `text` was written from; what a newer program added is left out.

        Raises:
            ValueError, KeyError, TypeError: it is none.
        """
        form = json.loads(text)
        findings = tuple(map(finding_from, form["findings"]))
        return replace(convert({**form, "findings": ()}, cls), findings=findings)


def taken(
    workload: ProfiledWorkload,
    join: ProfileJoin,
    settings: ProfileComparisonSettings,
    now: Nanoseconds,
) -> TakenProfile:
    """What is kept of the profiles of one workload: one file, or one for each rank."""
    span = join.span
    profiles, first = workload.profiles, workload.profiles[0]
    sources = tuple(each.source[:_LONGEST] for each in profiles)
    parts = "|".join(f"{each.source}/{each.start}/{each.rank}/{each.events}" for each in profiles)
    profile = {
        "sources": list(sources[:_MOST_NAMED]),
        "format": str(first.format),
        # A wall time for people, who read evidence.
        "start": None
        if span is None
        else datetime.fromtimestamp(span[0] // NANOSECONDS_PER_SECOND, UTC).isoformat(" "),
        "seconds": None if span is None else seconds(span[1] - span[0]),
    }
    return TakenProfile(
        id=finding_id(parts, "profile", str(first.format), ""),
        taken=now,
        # A clock that is ahead makes nothing valid for longer.
        moment=now if span is None else min(now, span[1]),
        sources=sources,
        format=str(first.format),
        key=join.key,
        unmatched=join.unmatched,
        devices=tuple(device_forms(join)),
        contradictions=join.contradictions,
        findings=tuple(
            _kept(each, join, profile) for each in weighed(workload, join, settings).findings
        ),
    )


def weighed(
    workload: ProfiledWorkload, join: ProfileJoin, settings: ProfileComparisonSettings
) -> ProfiledWorkload:
    """The workload with verdicts that are less sure where telemetry says otherwise.

    That is where it measured the same, or saw no activity on a GPU that the profile has at work.
    """
    findings = tuple(_weighed(each, join, settings) for each in workload.findings)
    return replace(workload, findings=findings)


def _weighed(finding: Finding, join: ProfileJoin, settings: ProfileComparisonSettings) -> Finding:
    figure = _MEASURED.get(finding.reasons[0]) if finding.is_complaint else None
    is_measured = figure is not None and join.contradicts(figure)
    if finding.abstained is not None or not (is_measured or join.was_idle):
        return finding
    factors = {**finding.confidence_factors, "telemetry": settings.contradicted_ratio}
    return replace(finding, confidence=confidence_of(factors), confidence_factors=factors)


def _kept(finding: Finding, join: ProfileJoin, profile: Mapping[str, object]) -> Finding:
    """A verdict on the node's own devices and workload, with what it rests on cut short."""
    uuids = {each.key: each.device.uuid for each in join.devices if each.device is not None}
    evidence: dict[str, Any] = _short(dict(finding.evidence))
    evidence["profile"] = dict(profile)
    if finding.is_complaint and join.contradictions:
        evidence["contradictions"] = list(join.contradictions)
    named = finding.reasons[0] if finding.is_complaint else finding.rule
    return replace(
        finding,
        id=finding_id(join.key or "", named, finding.action, ""),
        devices=tuple(dict.fromkeys(uuids.get(each, each) for each in finding.devices)),
        culprits=tuple(dict.fromkeys(uuids.get(each, each) for each in finding.culprits)),
        workload=join.key if join.key not in uuids.values() else None,
        summary=_short(finding.summary),
        evidence=evidence,
        instructions=tuple(
            Instruction(each.title[:_LONGEST], each.text[:_LONGEST_TEXT], each.language)
            for each in finding.instructions
        ),
    )


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..."
    if isinstance(value, Mapping):
        return {_short(str(key)): _short(inside) for key, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(each) for each in value[:_MOST_NAMED]]
    return value


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

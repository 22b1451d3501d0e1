"""Verdicts of a rule on a case as findings, with id, severity, confidence and savings."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.confidence import confidence_of
from rightsizer.advice.market import Market
from rightsizer.advice.savings import LOW_CONFIDENCE, UNPRICED_SAVINGS
from rightsizer.model.values import (
    Action,
    Case,
    Device,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
    SharedPart,
    format_duration,
)

_LEAST_GPUS: Final = ((4.0, Severity.CRITICAL), (1.0, Severity.HIGH), (0.25, Severity.MEDIUM))
"""Steps at which people act: a quarter of a GPU, a GPU, half of a node of eight."""


def severity_of(affected_gpus: float) -> Severity:
    """Severity by the affected time in GPUs."""
    return next(
        (severity for least, severity in _LEAST_GPUS if affected_gpus >= least), Severity.LOW
    )


_SCHEMA: Final = "1"
_ID_LENGTH: Final = 12
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_MOST_HOSTS: Final = 3
"""Maximum hosts named in a sentence."""
_NO_VERDICT: Final = Savings(reason="no verdict")
_NOTHING_TO_SAVE: Final = Savings(reason="nothing to save")
_UNSAID: Final[dict[str, Any]] = {
    "kind": FindingKind.UNKNOWN,
    "reasons": (),
    "culprits": (),
    "action": Action.NONE,
    "options": (),
    "risk": Risk.UNKNOWN,
    "savings": _NO_VERDICT,
}
"""Defaults of a finding."""


class _VerdictOptions(Struct, frozen=True, kw_only=True):
    scope: str = ""
    """Tells recommendations of a rule from those of others with the same reason and action."""
    is_counted: bool = False
    """Whether a verdict without a complaint is only counted, and needs no id."""


class CaseSubject(_VerdictOptions, frozen=True):
    """Case under judgement by one rule, and the verdicts that the rule may give."""

    rule: str
    case: Case
    market: Market

    @property
    def name(self) -> str:
        """Display name of its devices."""
        return names_of(self.case.devices)

    @property
    def span(self) -> str:
        """Known time: `the last 6 h`."""
        return f"the last {format_duration(self.case.known_seconds)}"

    @property
    def holder(self) -> str:
        """` of NAME` for a case of a workload; empty otherwise."""
        return f" of {self.case.workload.name}" if self.case.workload else ""

    def find_problem(  # noqa: PLR0913 - all that a complaint has beside its rule and case.
        self,
        *,
        reasons: tuple[Reason, ...],
        action: Action,
        summary: str,
        factors: Mapping[str, float],
        risk: Risk,
        evidence: Mapping[str, object],
        kind: FindingKind | None = None,
        culprits: tuple[str, ...] = (),
        options: tuple[Option, ...] = (),
        target: str = "",
        savings: Savings | str = UNPRICED_SAVINGS,
        instructions: tuple[Instruction, ...] = (),
        severity: Severity | None = None,
        affected_gpus: float = 0.0,
        shared_by: Mapping[str, tuple[SharedPart, ...]] = _NOTHING,
    ) -> Finding:
        """Make a finding that asks for action.

        The first reason and the rounded target are part of the id. Culprits are uuids; options are
        ordered best first. Savings are omitted below the market's minimum confidence; a text
        explains why there never are any. The severity defaults to that of the affected time in
        GPUs. A rule of faults names the parts of the node that may be the cause, by culprit.
        """
        if isinstance(savings, str):
            least = 0.0
            savings = Savings(reason=savings)
        else:
            least = self.market.settings.minimum_confidence_ratio
        is_sure = confidence_of(factors) >= least
        if not is_sure:
            options = tuple(
                replace(option, savings=option.savings and LOW_CONFIDENCE) for option in options
            )
        return self._finding(
            finding_id(self.case.key, reasons[0], action, f"{self.scope}{target}"),
            summary,
            factors,
            evidence,
            kind=kind or reasons[0].kind,
            reasons=reasons,
            culprits=culprits,
            action=action,
            options=options,
            risk=risk,
            savings=savings if is_sure else LOW_CONFIDENCE,
            severity=severity or severity_of(affected_gpus),
            instructions=instructions,
            shared_by=dict(shared_by),
        )

    def find_nothing(
        self,
        summary: str,
        factors: Mapping[str, float] = _NOTHING,
        evidence: Mapping[str, object] = _NOTHING,
    ) -> Finding:
        """Make a finding without a complaint."""
        return self._finding(
            self._id(Action.NONE),
            summary,
            factors,
            evidence,
            kind=FindingKind.OPTIMIZED,
            risk=Risk.VERY_LOW,
            savings=_NOTHING_TO_SAVE,
        )

    def abstain(self, why: str, reason: Reason = Reason.UNSUPPORTED_TELEMETRY) -> Finding:
        """Make a finding that the rule cannot decide, with the reason."""
        return self._finding(
            self._id(reason),
            f"No verdict: {why}.",
            reasons=(reason,),
            abstained=why,
        )

    def abstain_early(self, minimum_seconds: float) -> Finding | None:
        """Abstain if too little of the window is known; `None` if there is enough."""
        if (known_seconds := self.case.known_seconds) >= minimum_seconds:
            return None
        why = f"only {format_duration(known_seconds)} of telemetry"
        return self.abstain(why, Reason.INSUFFICIENT_DATA)

    def _id(self, of: Action | Reason) -> str:
        """Id of a verdict without a complaint, or empty if it is only counted."""
        return "" if self.is_counted else finding_id(self.case.key, self.rule, of, "")

    def _finding(
        self,
        advice_id: str,
        summary: str,
        factors: Mapping[str, float] | None = None,
        evidence: Mapping[str, object] = _NOTHING,
        **said: Any,
    ) -> Finding:
        case = self.case
        if not advice_id:
            return Finding(
                id="",
                rule=self.rule,
                devices=(),
                workload=None,
                summary=summary,
                confidence=0.0,
                confidence_factors=_NOTHING,
                evidence=evidence,
                key=case.key,
                **_UNSAID | said,
            )
        return Finding(
            id=advice_id,
            rule=self.rule,
            devices=tuple(device.uuid for device in case.devices),
            workload=None if case.workload is None else case.workload.key,
            summary=summary,
            confidence=0.0 if factors is None else confidence_of(factors),
            confidence_factors={name: round(value, 3) for name, value in (factors or {}).items()},
            evidence={**case.span_facts, **evidence},
            key=case.key,
            **_UNSAID | said,
        )


def finding_id(key: str, reason: str, action: str, target: str) -> str:
    """Twelve characters, stable as long as the same is recommended for the same workload."""
    text = f"{_SCHEMA}|{key}|{reason}|{action}|{target}"
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b32encode(digest[:_ID_LENGTH]).decode().lower()[:_ID_LENGTH]


def names_of(devices: Sequence[Device]) -> str:
    """Display name of devices: `GPU 3`, `GPUs 0, 1 and 2`, `MIG 4:1 (1g.10gb)`.

    With host names if known: `GPUs 0 and 1 on node-7 and GPU 3 on node-8`.
    """
    by_host: dict[str, list[Device]] = {}
    for device in devices:
        by_host.setdefault(device.host, []).append(device)
    if len(by_host) > _MOST_HOSTS:
        named = list(by_host)[:_MOST_HOSTS]
        more = len(by_host) - _MOST_HOSTS
        return f"{len(devices)} GPUs on {', '.join(named)} and {more} more nodes"
    return _listed([_on_host(host, host_devices) for host, host_devices in by_host.items()])


def _on_host(host: str, devices: Sequence[Device]) -> str:
    where = f" on {host}" if host else ""
    if len(devices) == 1:
        (device,) = devices
        return f"{device.label}{where}"
    if all(device.mig for device in devices):
        boards = tuple(dict.fromkeys(device.board_title for device in devices))
        return f"{len(devices)} MIG instances on {_listed(boards)}{where}"
    if all(device.has_index for device in devices):
        return f"GPUs {_listed([str(device.index) for device in devices])}{where}"
    return f"{_listed([device.title for device in devices])}{where}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

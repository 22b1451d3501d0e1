"""Cache of what the advice of an agent rests on, so that many readers cost as little as one."""

import threading
from typing import Final

from msgspec import Struct

from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Evidence,
    Nanoseconds,
    Report,
    WholeAccounts,
)
from rightsizer.report.evidence import accounts_evidence

_FRESH_FOR: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
"""Shorter changes are not visible in hours of GPUs."""


class _KeptEvidence(Struct, frozen=True):
    made: Nanoseconds
    uuids: frozenset[str]
    evidence: tuple[Evidence, ...]


class EvidenceCache:
    """Evidence of the accounts of present devices, which is read again once a minute at most."""

    def __init__(self, accounts: WholeAccounts) -> None:
        self._accounts = accounts
        self._lock = threading.Lock()
        self._kept: _KeptEvidence | None = None

    def __call__(self, report: Report | None, now: Nanoseconds) -> tuple[Evidence, ...]:
        """Evidence up to a wall time; that of other devices is never shown."""
        devices = () if report is None else report.devices
        uuids = frozenset(device.device.uuid for device in devices)
        with self._lock:
            kept = self._kept
            # The wall clock may step back.
            if kept and kept.uuids == uuids and 0 <= now - kept.made < _FRESH_FOR:
                return kept.evidence
            evidence = tuple(accounts_evidence(self._accounts(now)))
            self._kept = _KeptEvidence(now, uuids, evidence)
            return evidence

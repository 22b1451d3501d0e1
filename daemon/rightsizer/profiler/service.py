"""Profile service: joins profiles with the accounts, judges, stores and publishes them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from rightsizer.accounting.history import HolderPeriod
from rightsizer.accounting.service import AccountingService
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import Clock
from rightsizer.io.log import logger
from rightsizer.model.values import (
    Advice,
    HistoryError,
    Nanoseconds,
    nanoseconds,
    seconds,
    series_key,
)
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.report.advice_document import finding_document
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.model.profile import Profile
    from rightsizer.profiler.taken_profile import TakenProfile


_MOST_NAMED: Final = 3
"""Limit of files in a line of the log."""


class ProfileService:
    """Takes profiles from any thread, and passes their judgements to the recommender."""

    def __init__(
        self,
        accounting: AccountingService,
        storage: Storage,
        clock: Clock,
        settings: ProfileSettings | None = None,
    ) -> None:
        self._accounting = accounting
        self._storage = storage
        self._clock = clock
        self._settings = settings or ProfileSettings()
        self._log = logger("profiles")
        self._lock = threading.Lock()
        self._breaks = storage.database.breaks
        self._is_saved = True
        # As text, which takes a tenth of the objects' memory for weeks.
        self._kept: dict[str, str] = {}
        try:
            self._kept = _latest(storage.profiles(), self._settings.kept_maximum)
        except HistoryError as error:
            self._log.warning("profiles_unreadable", error=str(error))
        self.counts: Counter[tuple[str, str]] = Counter()
        """Profiles taken since the start, by format and outcome."""

    def metrics(self) -> dict[str, float]:
        """Profiles taken since the start, by format and outcome."""
        name = "rightsizer_profiles_total"
        return {
            series_key(name, format=profile_format, outcome=outcome): float(count)
            for (profile_format, outcome), count in self.counts.items()
        }

    def change_settings(self, settings: ProfileSettings) -> None:
        """Apply other settings to the next profiles and to retention."""
        self._settings = settings

    def take(self, profiles: Sequence[Profile]) -> tuple[TakenProfile, ...]:
        """Join, judge and store profiles in any order; return one result per program; thread-safe.

        Files taken again are stored once. A failed write is retried with the next profile, or in
        the next run of the recommender.
        """
        from rightsizer.profiler.taken_profile import taken_profiles  # noqa: PLC0415 - see above.

        settings = self._settings
        now = self._clock.wall_time()
        taken = taken_profiles(profiles, self._accounting, self._tenures(), settings, now)
        with self._lock:
            new = [taken_profile for taken_profile in taken if taken_profile.id not in self._kept]
            self._kept |= {taken_profile.id: taken_profile.text for taken_profile in taken}
            self._kept = _latest(self._kept, settings.kept_maximum)
            self._is_saved = False
            # Replaced, not changed: the sampling thread reads it.
            self.counts = self.counts + Counter(
                (taken_profile.format, taken_profile.outcome) for taken_profile in new
            )
            self._save()
        for profile in new:
            self._log_profile(profile)
        return taken

    def profiles(self) -> tuple[TakenProfile, ...]:
        """Return all stored profiles, latest first; those of a newer version are skipped."""
        with self._lock:
            texts = tuple(self._kept.values())
        if not texts:
            return ()
        from rightsizer.profiler.taken_profile import profile_from_json  # noqa: PLC0415 - see above.

        return profile_from_json(texts)

    def combined_with(
        self,
        judgements: Sequence[Judgement],
        open_now: AbstractSet[tuple[str, str]],
        now: Nanoseconds,
        advice: Sequence[Advice] = (),
    ) -> tuple[Judgement, ...]:
        """Merge the judgements of valid profiles into those of the rules.

        A profile does not reopen advice of the ledger that was closed after it.
        """
        with self._lock:
            if not self._is_saved or self._storage.database.breaks != self._breaks:
                self._save()
            if not self._kept:
                return tuple(judgements)
        from rightsizer.profiler.advice import judgements_of, with_profiles  # noqa: PLC0415 - see above.

        present = {judgement.key: judgement.workload for judgement in judgements}
        since = now - nanoseconds(self._settings.valid_for)
        profiled = judgements_of(self.profiles(), present, advice, since)
        return with_profiles(judgements, profiled, open_now) if profiled else tuple(judgements)

    def _tenures(self) -> tuple[HolderPeriod, ...]:
        history = self._storage.history
        try:
            return () if history is None else history.tenures()
        except HistoryError as error:
            self._log.warning("history_unreadable", error=str(error))
            return ()

    def _save(self) -> None:
        self._breaks = self._storage.database.breaks
        try:
            self._storage.save_profiles(self._kept)
        except HistoryError as error:
            self._is_saved = False
            self._log.warning("profiles_not_saved", error=str(error))
        else:
            self._is_saved = True

    def _log_profile(self, profile: TakenProfile) -> None:
        complaints = [
            str(finding.reasons[0]) for finding in profile.findings if finding.is_actionable
        ]
        self._log.info(
            "profile_taken",
            id=profile.id,
            source=", ".join(profile.sources[:_MOST_NAMED]),
            format=profile.format,
            workload=profile.key or "",
            unmatched=profile.unmatched,
            complaints=",".join(complaints),
            contradictions=len(profile.contradictions),
        )


def _latest(kept: Mapping[str, str], maximum: int) -> dict[str, str]:
    return dict(sorted(kept.items(), key=lambda item: _taken(item[1]))[-maximum:])


def _taken(text: str) -> Nanoseconds:
    """Return the time of a stored text; 0, so that it is dropped first, if it is unreadable."""
    try:
        time = json.loads(text)["taken"]
    except (ValueError, KeyError, TypeError):
        return 0
    return time if isinstance(time, int) else 0


def profiles_route(profiles: Callable[[], tuple[TakenProfile, ...]]) -> Route:
    """Return the route of the stored profiles, latest first; thread-safe."""

    def answer(_: WebRequest) -> WebResponse:
        forms = [
            {
                "id": profile.id,
                "taken": seconds(profile.taken),
                "moment": seconds(profile.moment),
                "sources": profile.sources,
                "format": profile.format,
                "outcome": profile.outcome,
                "workload": profile.key,
                "unmatched": profile.unmatched or None,
                "devices": profile.devices,
                "contradictions": profile.contradictions,
                "findings": [*map(finding_document, profile.findings)],
            }
            for profile in profiles()
        ]
        return WebResponse.of_json({"profiles": forms})

    return Route("GET", "/api/v1/profiles", answer)

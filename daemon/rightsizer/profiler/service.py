"""Profile service: joins each profile with the accounts, judges, stores and shows it."""

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
from rightsizer.model.advice import Advice
from rightsizer.model.errors import HistoryError
from rightsizer.model.units import Nanoseconds, nanoseconds, seconds
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.report.json_encoder import attributes, encode_finding
from rightsizer.web.message import WebResponse
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.model.profile import Profile
    from rightsizer.profiler.taken_profile import TakenProfile


_MOST_NAMED: Final = 3
"""Files in a line of the log."""


class ProfileService:
    """Takes profiles from any thread, and gives what they say to the recommender."""

    def __init__(
        self,
        accountant: AccountingService,
        storage: Storage,
        clock: Clock,
        settings: ProfileSettings | None = None,
    ) -> None:
        self._accountant, self._storage, self._clock = accountant, storage, clock
        self._settings = settings or ProfileSettings()
        self._log = logger("profiles")
        self._lock = threading.Lock()
        self._breaks = storage.database.breaks
        self._is_saved = True
        # As text, a tenth of what the objects would take for weeks.
        self._kept: dict[str, str] = {}
        try:
            self._kept = _latest(storage.profiles(), self._settings.kept_maximum)
        except HistoryError as error:
            self._log.warning("profiles_unreadable", error=str(error))
        self.counts: Counter[tuple[str, str]] = Counter()
        """Profiles that were taken since the start, by format and by what came of them."""

    def follow(self, settings: ProfileSettings) -> None:
        """Judge by other settings from the next profile on, and keep what is kept by them."""
        self._settings = settings

    def take(self, profiles: Sequence[Profile]) -> tuple[TakenProfile, ...]:
        """Join, judge and keep profiles, in any order, one result a program; from any thread.

        The same files taken again are kept once. What cannot be written now is tried again with
        the next profile, or in the next run of the recommender.
        """
        from rightsizer.profiler.taken_profile import taken_profiles  # noqa: PLC0415 - see above.

        settings, now = self._settings, self._clock.wall_time()
        found = taken_profiles(profiles, self._accountant, self._tenures(), settings, now)
        with self._lock:
            new = [each for each in found if each.id not in self._kept]
            self._kept |= {each.id: each.text for each in found}
            self._kept = _latest(self._kept, settings.kept_maximum)
            self._is_saved = False
            # A new one each time, for sampling reads it meanwhile.
            self.counts = self.counts + Counter((each.format, each.outcome) for each in new)
            self._save()
        for each in new:
            self._tell(each)
        return found

    def profiles(self) -> tuple[TakenProfile, ...]:
        """All that is kept, the latest first; what a newer program kept is passed over."""
        with self._lock:
            texts = tuple(self._kept.values())
        if not texts:
            return ()
        from rightsizer.profiler.taken_profile import profile_from_json  # noqa: PLC0415 - see above.

        return profile_from_json(texts)

    def combined_with(
        self,
        found: Sequence[Judgement],
        open_now: AbstractSet[tuple[str, str]],
        now: Nanoseconds,
        advice: Sequence[Advice] = (),
    ) -> tuple[Judgement, ...]:
        """The rules' judgements, with those of profiles that still count among them.

        What has ended since a profile, by all advice of the ledger, is not opened by it.
        """
        with self._lock:
            if not self._is_saved or self._storage.database.breaks != self._breaks:
                self._save()
            if not self._kept:
                return tuple(found)
        from rightsizer.profiler.advice import judgements_of, with_profiles  # noqa: PLC0415 - see above.

        present = {each.key: each.workload for each in found}
        since = now - nanoseconds(self._settings.valid_for)
        profiled = judgements_of(self.profiles(), present, advice, since)
        return with_profiles(found, profiled, open_now) if profiled else tuple(found)

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

    def _tell(self, profile: TakenProfile) -> None:
        complaints = [str(each.reasons[0]) for each in profile.findings if each.is_complaint]
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
    return dict(sorted(kept.items(), key=lambda each: _taken(each[1]))[-maximum:])


def _taken(text: str) -> Nanoseconds:
    """When, of text that need not be understood; what is not understood goes first."""
    try:
        time = json.loads(text)["taken"]
    except (ValueError, KeyError, TypeError):
        return 0
    return time if isinstance(time, int) else 0


def profiles_route(profiles: Callable[[], tuple[TakenProfile, ...]]) -> Route:
    """The route that tells what was taken, the latest first; answers from any thread."""

    def answer(*_: object) -> WebResponse:
        forms = [
            {
                "id": each.id,
                "taken": seconds(each.taken),
                "moment": seconds(each.moment),
                **attributes(each, "sources format outcome"),
                "workload": each.key,
                "unmatched": each.unmatched or None,
                **attributes(each, "devices contradictions"),
                "findings": [encode_finding(finding) for finding in each.findings],
            }
            for each in profiles()
        ]
        return WebResponse.of_json({"profiles": forms})

    return Route("GET", "/api/v1/profiles", answer)

"""Profiles judged and joined with telemetry, and read back as they were kept."""

from collections.abc import Iterable, Sequence

from rightsizer.accounting.history import Tenure
from rightsizer.advice.profile_join import join
from rightsizer.advice.taken_profile import TakenProfile, taken
from rightsizer.domain.profile import Profile
from rightsizer.domain.units import Nanoseconds
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.profile_join_form import device_forms
from rightsizer.runtime.profile_settings import ProfileSettings
from rightsizer.runtime.profile_telemetry import AccountsTelemetry
from rightsizer.runtime.profiled_workload import ProfiledWorkload, judged_workloads

__all__ = ["taken_profiles", "understood"]


def taken_profiles(
    profiles: Sequence[Profile],
    accountant: Accountant,
    tenures: Sequence[Tenure],
    settings: ProfileSettings,
    now: Nanoseconds,
) -> tuple[TakenProfile, ...]:
    """What is kept of profiles, one for each program.

    Args:
        profiles: In any order; ranks of one program find each other.
        accountant: Knows what the GPUs did meanwhile, and who holds them.
        tenures: Who held them before, as far as a history tells.
        settings: How they are judged.
        now: Wall time.
    """
    telemetry = AccountsTelemetry(accountant.remembered()[1], accountant.known(), tenures)
    return tuple(
        _taken(each, telemetry, settings, now)
        for each in judged_workloads(profiles, settings.judges)
    )


def understood(texts: Iterable[str]) -> tuple[TakenProfile, ...]:
    """What was kept, the latest first; what a newer program kept is passed over."""
    found = [each for each in map(_understood, texts) if each is not None]
    return tuple(sorted(found, key=lambda each: (-each.taken, each.id)))


def _taken(
    workload: ProfiledWorkload,
    telemetry: AccountsTelemetry,
    settings: ProfileSettings,
    now: Nanoseconds,
) -> TakenProfile:
    joined = join(workload.profiles, telemetry.devices, telemetry, settings.comparison)
    return taken(
        workload.profiles,
        workload.findings,
        joined,
        forms=device_forms(joined),
        settings=settings.comparison,
        now=now,
    )


def _understood(text: str) -> TakenProfile | None:
    try:
        return TakenProfile.of(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None

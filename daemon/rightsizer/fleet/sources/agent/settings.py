"""From when on the probe warns."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["AgentSourceSettings"]


@dataclass(frozen=True, slots=True)
class AgentSourceSettings:
    """What the probe of our agents' metrics finds worth a warning."""

    clock_skew_seconds: float = setting(
        60.0,
        help="How far a node's clock may be from the store's before it is told.",
        unit="seconds",
        minimum=1.0,
        maximum=3600.0,
        source="one scrape at the longest usual interval",
    )
    stale_seconds: float = setting(
        300.0,
        help="How old a device's last reading may be before it is told.",
        unit="seconds",
        minimum=10.0,
        maximum=86400.0,
        source="docs/alerts.md: RightsizerDeviceDown fires after 5 min",
    )
    sizing_days: float = setting(
        7.0,
        help="Days of samples under which it is told that sizing must wait.",
        minimum=1.0,
        maximum=90.0,
        source="docs/definitions.md, conduct: a week has one of each day",
    )
    fine_resolution_seconds: float = setting(
        120.0,
        help="Time between two samples up to which a day is worth reading by five minutes.",
        unit="seconds",
        minimum=1.0,
        maximum=300.0,
        source="increase needs two samples in a range of five minutes, and one may be missing",
    )

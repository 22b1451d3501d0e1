"""What an operator may change about the checking of passwords."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["PasswordSettings"]


@dataclass(frozen=True, slots=True)
class PasswordSettings:
    """How much work strangers may cause, and how many of them may wait."""

    share_ratio: float = setting(
        0.1,
        help="The most of one core that wrong passwords may take; the rest of the time they wait.",
        unit="ratio",
        minimum=0.001,
        maximum=1.0,
        source="half of the unit's CPUQuota=20%",
    )
    pause_maximum_seconds: float = setting(
        2.0,
        help="The longest rest after a wrong password.",
        unit="seconds",
        minimum=0.0,
        maximum=10.0,
    )
    wait_seconds: float = setting(
        5.0,
        help="How long a password waits for its check before it is answered 429.",
        unit="seconds",
        minimum=0.1,
        maximum=60.0,
        source="half of Prometheus's default scrape timeout",
    )
    waiting_maximum: int = setting(
        8, help="Passwords that wait for their check at once.", minimum=1, maximum=1000
    )
    waiting_per_client: int = setting(
        2,
        help="Those of them from one address, so that one client never keeps others waiting.",
        minimum=1,
        maximum=1000,
    )
    remembered_maximum: int = setting(
        100,
        help="Checked passwords that are remembered, right ones and wrong ones each.",
        minimum=1,
        maximum=10000,
        source="what the exporter toolkit remembers",
    )

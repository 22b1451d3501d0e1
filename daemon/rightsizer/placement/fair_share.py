"""Who has used how much, and who goes first for it.

Usage is GPU time that decays by half in a half-life, as in Slurm's multifactor plugin. Its classic
fair-share factor 2^(-U/S) stands here too: U is a user's part of all usage, S the part that is due
to him, which is the same for everybody.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.domain.units import Nanoseconds, nanoseconds, seconds
from rightsizer.placement.broker_settings import BrokerSettings
from rightsizer.placement.lease import Ticket

__all__ = ["Usage", "ranked"]

_FORGOTTEN: Final = 1.0
"""GPU-seconds below which somebody who holds nothing has used nothing."""


@dataclass(frozen=True, slots=True)
class Usage:
    """GPU-seconds by user, decayed up to some moment."""

    as_of: Nanoseconds = 0
    gpu_seconds: Mapping[str, float] = field(default_factory=dict)
    """Of a shared GPU the part of its memory that was set aside; of a MIG instance its part."""

    def charged(
        self, now: Nanoseconds, rates: Mapping[str, float], half_life_seconds: float
    ) -> "Usage":
        """The usage at a later moment.

        The integral is exact, so that it does not matter how often this is asked.

        Args:
            now: Until when; nothing happens where that is not later.
            rates: GPUs that each user held all the time since, shared ones in part.
            half_life_seconds: In which usage decays by half.
        """
        elapsed = seconds(now - self.as_of)
        if elapsed <= 0:
            return self
        kept = 2.0 ** (-elapsed / half_life_seconds)
        life = half_life_seconds / math.log(2)
        added = life * -math.expm1(-elapsed / life)
        users = sorted({*self.gpu_seconds, *(user for user, rate in rates.items() if rate > 0)})
        sums = {
            user: self.gpu_seconds.get(user, 0.0) * kept + rates.get(user, 0.0) * added
            for user in users
        }
        return Usage(
            now,
            {user: sums[user] for user in users if sums[user] >= _FORGOTTEN or rates.get(user)},
        )

    def moved(self, now: Nanoseconds) -> "Usage":
        """The same as of another clock's moment."""
        return Usage(now, self.gpu_seconds)

    def factor(self, user: str, users: Collection[str]) -> float:
        """1 for somebody who used nothing, 1/2 for his due part, nearly 0 for far more.

        Args:
            user: Whose.
            users: All among whom the node is divided; those with usage are of them anyway.
        """
        total = sum(self.gpu_seconds.values())
        if total <= 0:
            return 1.0
        count = len({*users, *self.gpu_seconds})
        return float(2.0 ** (-self.gpu_seconds.get(user, 0.0) / total * count))


def ranked(
    tickets: Iterable[Ticket], usage: Usage, settings: BrokerSettings, now: Nanoseconds
) -> tuple[Ticket, ...]:
    """Tickets in the order in which they are served.

    A step of priority goes before any fair share, and waiting for `aging_seconds` is worth a
    step, so that every ticket is some day before all that come after it. Of equal ones the older
    is first, then that with the smaller id; the order that they come in does not matter.
    """
    waiting = tuple(tickets)
    users = {ticket.client.user for ticket in waiting}
    factors = {user: usage.factor(user, users) for user in users}
    aging = nanoseconds(settings.aging_seconds)

    def key(ticket: Ticket) -> tuple[float, Nanoseconds, str]:
        waited = max(0, now - ticket.asked) / aging
        fair = settings.fair_share_weight * factors[ticket.client.user]
        return -(ticket.priority + waited + fair), ticket.asked, ticket.id

    return tuple(sorted(waiting, key=key))

"""Routing: which receiver gets which recommendations, and when."""

import re
from collections.abc import Sequence
from datetime import datetime, time
from fnmatch import fnmatchcase
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.model.values import CONSTANT, DAY_SECONDS, Advice, Reason, Severity, Spec

_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


class ReceiverSettings(Struct, frozen=True):
    """What a receiver gets, and when.

    Raises:
        ValueError: the quiet hours are none.

    Attributes:
        name: Name in metrics and log; empty to use host and port.
        reasons: Reasons to send; empty for all.
        minimum_severity: Minimum severity to send.
        workloads: Shell patterns of the workloads to send, by key, such as
            `kubernetes:research/*` or `slurm:*`; empty for all, and for GPUs without a workload.
        sends_rest: Whether only that is sent which no receiver with a selection of its own gets.
            Source: the root of Alertmanager's routing tree
        quiet_hours: Local time, such as `19:00-08:00`, in which only critical changes are sent; the
            others wait for its end. Empty for none.
        send_resolved: Whether closed recommendations are sent too.
        external_url: The agent's address for its users, used for links.
        outbox_maximum: Maximum pending changes; beyond it the oldest are dropped.
        pause_seconds: Maximum pause after failures; the first is one minute, each next one twice as
            long. A Retry-After is waited for, up to half an hour.
            Source: restarts and upgrades of a server take minutes; a request every five is no load
    """

    name: str = ""
    reasons: tuple[Reason, ...] = ()
    minimum_severity: Severity = Severity.LOW
    workloads: tuple[str, ...] = ()
    sends_rest: bool = False
    quiet_hours: str = ""
    send_resolved: bool = True
    external_url: str = ""
    outbox_maximum: Annotated[int, Spec(within=(1, 100_000)), CONSTANT] = 1000
    pause_seconds: Annotated[float, Spec(within=(1.0, DAY_SECONDS)), CONSTANT] = 300.0

    def __post_init__(self) -> None:
        _ = self.quiet_span

    @property
    def quiet_span(self) -> tuple[time, time] | None:
        """Start and end of the quiet hours, or `None`; raises `ValueError` for another text."""
        if not self.quiet_hours:
            return None
        hours = _HOURS.fullmatch(self.quiet_hours)
        if hours is None:
            raise ValueError(
                f"quiet_hours: '{self.quiet_hours}' is no span of a day; write it like 19:00-08:00"
            )
        start, start_minute, end, end_minute = map(int, hours.groups())
        return time(start, start_minute), time(end, end_minute)

    def is_quiet(self, now: datetime) -> bool:
        """Whether a local time is within the quiet hours, which may last over midnight."""
        if self.quiet_span is None:
            return False
        start, end = self.quiet_span
        at = now.time()
        return start <= at < end if start <= end else at >= start or at < end

    @property
    def is_selective(self) -> bool:
        """Whether it is for some recommendations, as of an owner; not for all or for the rest."""
        has_selection = self.workloads or self.reasons or self.minimum_severity is not Severity.LOW
        return bool(has_selection) and not self.sends_rest

    def selects(self, advice: Advice) -> bool:
        """Whether its own settings select advice."""
        finding = advice.finding
        key = finding.workload or ""
        return (
            (not self.reasons or any(reason in self.reasons for reason in finding.reasons))
            and finding.severity.rank >= self.minimum_severity.rank
            and (
                not self.workloads or any(fnmatchcase(key, workload) for workload in self.workloads)
            )
        )


class RoutedReceiver(Struct, frozen=True):
    """A receiver among all others."""

    settings: ReceiverSettings
    others: Sequence[ReceiverSettings] = ()

    def wants(self, advice: Advice) -> bool:
        """Whether the receiver gets advice."""
        if not self.settings.selects(advice):
            return False
        first = (
            receiver_settings for receiver_settings in self.others if receiver_settings.is_selective
        )
        return not (
            self.settings.sends_rest
            and any(receiver_settings.selects(advice) for receiver_settings in first)
        )

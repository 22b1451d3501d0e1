"""How a webhook goes."""

from dataclasses import dataclass

from rightsizer.domain.units import Nanoseconds

__all__ = ["WebhookReport"]


@dataclass(frozen=True, slots=True)
class WebhookReport:
    """Counters of one webhook since the start, and how things stand."""

    name: str
    sent: int = 0
    """Requests that the receiver took."""
    failed: int = 0
    """Requests that it did not take."""
    dropped: int = 0
    """Changes given up: refused for what they say, or crowded out."""
    pending: int = 0
    """Changes that wait."""
    last_success: Nanoseconds | None = None
    """Wall time of the last run that left nothing to send."""
    trouble: str | None = None
    """What stands in the way; `None` where nothing does."""

    @property
    def tried(self) -> int:
        """Requests, taken or not."""
        return self.sent + self.failed

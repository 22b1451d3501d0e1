"""Whether an agent lends its GPUs; most do not, and load nothing for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rightsizer.domain.report import Report
from rightsizer.edge.clock import Clock
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.runtime.settings import Settings

if TYPE_CHECKING:
    from rightsizer.runtime.broker.lending import Lending

__all__ = ["lending_of"]


def lending_of(
    settings: Settings,
    latest: Callable[[], Report | None],
    freshness: FreshnessSettings,
    clock: Clock,
    notify: Callable[[str], None],
) -> "Lending | None":
    """The broker that the settings ask for, `None` where it is off.

    Args:
        settings: Of the whole agent.
        latest: Gives the last report, `None` before the first.
        freshness: When a reading is stale.
        clock: The agent's.
        notify: Sends JSON to webhooks.

    Raises:
        HistoryError: its file cannot be opened.
    """
    if not settings.broker.enabled:
        return None
    from rightsizer.runtime.broker.lending import Lending  # noqa: PLC0415 - as said above.

    return Lending(settings, latest, freshness, clock, notify)

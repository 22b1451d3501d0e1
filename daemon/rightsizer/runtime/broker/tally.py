"""What the broker has done, as metrics."""

from rightsizer.domain.units import seconds
from rightsizer.placement.broker_state import BrokerState
from rightsizer.placement.lease import Lease

__all__ = ["Tally"]


class Tally:
    """Counts grants and how long they had to be waited for; changed under the desk's lock."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._grants = 0
        self._waited_seconds = 0.0

    def granted(self, lease: Lease) -> None:
        """Count one."""
        self._grants += 1
        self._waited_seconds += seconds(lease.granted - lease.asked)

    def counters(self) -> dict[str, float]:
        """Since the agent started, by the names of metrics."""
        return {
            "rightsizer_broker_grants_total": float(self._grants),
            "rightsizer_broker_wait_seconds_total": self._waited_seconds,
        }

    @staticmethod
    def gauges(state: BrokerState) -> dict[str, float]:
        """As it stands, by the names of metrics."""
        return {
            "rightsizer_broker_leases": float(len(state.leases)),
            "rightsizer_broker_queue_length": float(len(state.tickets)),
        }

"""Requests GPUs from a broker's manager up to a file size limit, like a full disk; restarts there.

A program of its own, since the limit holds for a whole process.
"""

import json
import logging
import resource
import signal
import sys
from pathlib import Path

import structlog

from broker_node import World, hgx, ticket
from managed_node import ManagedNode
from rightsizer.broker.lease_manager import LeaseManager
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.model.errors import RightsizerError

_ROOM = 64 * 1024


def main(path: Path) -> None:
    """Request until refused, continue to serve, and make room."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    settings = BrokerSettings(maximum_tickets_per_user=100_000, maximum_tickets=100_000)
    managed = ManagedNode(World(hgx(2)), path, settings)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    largest = max(file.stat().st_size for file in path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + _ROOM, hard))
    taken = 0
    refusal = ""
    while not refusal:
        try:
            managed.manager.ask(ticket(f"ticket{taken}"))
        except RightsizerError as error:
            refusal = str(error)
        else:
            taken += 1
    managed.manager.turn()
    scheduling = managed.manager.overview
    leases_while_full = len(scheduling.state.leases)
    why = scheduling.why_waiting("ticket0")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    managed.manager.turn()
    leases_with_room = len(managed.manager.overview.state.leases)
    managed.manager.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    reopened = ManagedNode(World(hgx(2)), path, settings).manager
    kept = reopened.overview.state
    reopened.begin(BrokerTransition(kept))
    refused_at_start = is_refused(reopened, "late")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    refused_with_room = is_refused(reopened, "late")
    reopened.close()
    result = {
        "taken": taken,
        "refusal": refusal,
        "leases_while_full": leases_while_full,
        "why": why,
        "leases_with_room": leases_with_room,
        "tickets_on_disk": len(kept.tickets),
        "refused_at_start": refused_at_start,
        "refused_with_room": refused_with_room,
    }
    print(json.dumps(result))


def is_refused(manager: LeaseManager, name: str) -> bool:
    """Whether a request is refused for the disk."""
    try:
        manager.ask(ticket(name))
    except RightsizerError:
        return True
    return False


if __name__ == "__main__":
    main(Path(sys.argv[1]))

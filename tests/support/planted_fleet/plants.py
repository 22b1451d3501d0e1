"""All cases of the planted fleet, what its owners state, and what waits."""

from typing import Any, Final

from msgspec import Struct

from planted_fleet.decoys import DECOYS
from planted_fleet.limits import CAUSES, HEALTH
from planted_fleet.plant import Style
from planted_fleet.waste import IDLE, SIZE

__all__ = ["PENDING", "PLANTS", "POLICIES", "Pending"]

PLANTS: Final = (*IDLE, *SIZE, *CAUSES, *HEALTH, *DECOYS)
POLICIES: Final[list[dict[str, Any]]] = [
    {"match": {"owner": "failover"}, "class": "standby"},
    {"match": {"pool": "reserve"}, "ignore": [{"why": "spare for repairs"}]},
]


class Pending(Struct, frozen=True):
    """A pod that waits in one cluster, and how many GPUs are there for it now."""

    style: Style
    name: str
    gpus: int
    pool: str
    free_gpus: int


PENDING: Final = (
    Pending(Style.KUBERNETES, "backfill", 2, "waiting", 2),
    Pending(Style.EXPORTED, "backfill", 2, "", 2),
)

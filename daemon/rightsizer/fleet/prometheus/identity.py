"""Which store it is, as far as it tells."""

import json
from dataclasses import dataclass

from rightsizer.domain.errors import StoreError
from rightsizer.fleet.prometheus.endpoint import Endpoint
from rightsizer.fleet.prometheus.limits import Limit

__all__ = ["Identity", "identified"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A store's product and version; empty where it does not tell."""

    product: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.product} {self.version}".strip() or "a store that does not tell its name"


def identified(endpoint: Endpoint) -> Identity:
    """What a store says of itself; not to tell is no fault, and whether it is up others find."""
    try:
        raw = endpoint.ask("/api/v1/status/buildinfo", ())
        data = {} if isinstance(raw, Limit) else json.loads(raw)["data"]
        version = str(data.get("version", ""))
    except (StoreError, ValueError, LookupError, AttributeError, TypeError):
        return Identity()
    if "application" in data:
        return Identity(str(data["application"]), version)
    if data.keys() <= {"version"}:
        # VictoriaMetrics gives a version of Prometheus for Grafana's sake, or nothing at all.
        return Identity("VictoriaMetrics")
    return Identity("Thanos" if version.startswith("0.") else "Prometheus", version)

"""Answers of `rightsizer fleet` about the planted fleet, in one run or in shards."""

from pathlib import Path
from typing import Any, Final

from fleet_command import asked_in_process, configured
from planted_fleet.plants import POLICIES
from planted_fleet.series import DAYS, END
from prometheus_server import Prometheus
from rightsizer.fleet.answers import merged

__all__ = ["SHARDS", "advice_of", "looked", "looked_in_shards"]

SHARDS: Final = 3


def looked(store: Prometheus, folder: Path, *flags: str) -> dict[str, Any]:
    """The command's answer with every verdict, under the policies that the fleet's owners state."""
    settings = {"lookback": f"{DAYS}d", "other": {"policies": POLICIES}}
    config = configured(folder, store.url, {"timeout": "60s"}, **settings)
    said = asked_in_process(config, "--json", "--all", "--at", str(END), *flags)
    return said.document


def looked_in_shards(store: Prometheus, folder: Path) -> dict[str, Any]:
    """The merged answers of shards, each with a cache of its own."""
    names = [f"{shard}/{SHARDS}" for shard in range(SHARDS)]
    answers = [looked(store, folder, "--shard", name) for name in names]
    return merged(answers, names, 3600.0)


def advice_of(document: dict[str, Any]) -> frozenset[tuple[str, str, tuple[str, ...], str]]:
    """Open advice, for comparison: its id, which holds the target, subject, reasons and action."""
    return frozenset(
        (each["id"], each["key"], tuple(each["reasons"]), each["action"])
        for each in document["advice"]
        if each["closed"] is None
    )

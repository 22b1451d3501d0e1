"""What a look at an estate would ask of its store, for a person."""

from collections.abc import Mapping
from typing import Any

from rightsizer.cli.counted import counted
from rightsizer.cli.fleet_source_text import sources_text
from rightsizer.cli.wrapped import wrapped

__all__ = ["plan_text"]


def plan_text(form: Mapping[str, Any]) -> str:
    """In lines of at most 100 columns.

    Args:
        form: What `rightsizer fleet --dry-run --json` prints.
    """
    fine, coarse = counted(form["fine_days"], "day"), counted(form["coarse_days"], "day")
    kept, wanted = form["kept_device_days"], form["device_days"]
    days = (
        f"{fine} would be read by five minutes and {coarse} by the hour; of {wanted:,} days of "
        f"devices {kept:,} are kept already."
    )
    shards, queries = counted(form["shards"], "shard"), counted(form["queries"], "query", "queries")
    costs = (
        f"That is about {queries} in {shards}, which bring about {form['samples']:,} samples. "
        "Nothing was asked but the probe."
    )
    sources = sources_text(form["sources"], form["time"])
    return "\n".join([*sources, "", *wrapped(days, 0, 0), *wrapped(costs, 0, 0)])

"""Instance types that clouds rent: how many GPUs of a board are in one, and its list price."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.table import table_rows

_DATES: Final = {"v8": "2025-09 to 2026-08"}


@dataclass(frozen=True, slots=True)
class Instance:
    """One type of server that a cloud rents."""

    provider: str
    name: str
    board: str
    """Key of its GPUs in the catalogue of boards."""
    gpus: int
    dollars_per_hour: float | None
    """Of the whole instance, without commitment; `None` where no source tells it."""
    date: str
    source: str


@cache
def built_in_instances() -> tuple[Instance, ...]:
    """Those that come with the program."""
    rows = table_rows(__file__, "instance_sources.csv")
    sources = {"": "", **{row["name"]: row["source"] for row in rows}}
    return tuple(_instance(row, sources) for row in table_rows(__file__, "instances.csv"))


def _instance(row: Mapping[str, str], sources: Mapping[str, str]) -> Instance:
    price = row["dollars_per_hour"]
    return Instance(
        provider=row["provider"],
        name=row["instance"],
        board=row["board"],
        gpus=int(row["gpus"]),
        dollars_per_hour=float(price) if price else None,
        date=_DATES.get(row["date"], row["date"]),
        source=sources[row["source"]],
    )

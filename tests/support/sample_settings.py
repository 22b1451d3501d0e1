"""A small tree of settings with one of everything that a configuration file can hold."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from enum import StrEnum
from types import MappingProxyType

from rightsizer.model.settings import setting


class Color(StrEnum):
    """Words to choose from."""

    RED = "red"
    GREEN = "green"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Job:
    """What runs at intervals."""

    interval: float = setting(
        600.0, help="How often it runs.", unit="seconds", within=(1, 3600), source="a paper"
    )
    jitter_seconds: float = setting(0.0, help="How far it may stray.")
    share: float = setting(0.5, help="Share of the time.", unit="ratio")
    workers: int = setting(2, help="How many at once.", within=(1, None))
    enabled: bool = setting(True, help="Whether it runs.")


@dataclass(frozen=True, slots=True)
class Store:
    """Where things are kept."""

    path: str = setting("/var/lib/thing", help="The file.")
    limit_bytes: int = setting(512 * 2**20, help="How much of it.", within=(1, None))
    color: Color = setting(Color.RED, help="How it looks.")
    token_file: str | None = setting(None, help="A file with a secret.")
    keep: float | None = setting(None, help="How long to keep it.", unit="seconds")


@dataclass(frozen=True, slots=True)
class Match:
    """What a policy is about."""

    owner: str | None = setting(None, help="Whose it is.")


@dataclass(frozen=True, slots=True)
class Policy:
    """An exception for some of the owners."""

    class_: Color = setting(MISSING, help="A key that is a keyword of Python.")
    match: Match = field(default_factory=Match)
    thresholds: Mapping[str, float] = setting(
        MappingProxyType({}), help="Limits by name.", within=(0, 1)
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the sample can be told."""

    job: Job = field(default_factory=Job)
    night_job: Job = Job(interval=3600.0, workers=1)
    store: Store = field(default_factory=Store)
    listen: tuple[str, ...] = setting((":19400",), help="Where it listens.")
    policies: tuple[Policy, ...] = ()
    collectors: Mapping[str, bool] = setting(
        MappingProxyType({"gpm": True}), help="What is switched on or off."
    )
    stores: Mapping[str, Store] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold what two settings must hold together."""
        if self.job.jitter_seconds > self.job.interval:
            raise ValueError("job.jitter must not exceed job.interval; lower it")

"""A small tree of settings with one of everything that a configuration file can hold."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from msgspec import Struct

from rightsizer.model.settings import CONSTANT, Spec


class Color(StrEnum):
    """Words to choose from."""

    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Job(Struct, frozen=True):
    """What runs at intervals."""

    interval: Annotated[
        float, Spec(help="How often it runs.", unit="seconds", within=(1, 3600), source="a paper")
    ] = 600.0
    jitter_seconds: Annotated[float, Spec(help="How far it may stray.")] = 0.0
    share: Annotated[float, Spec(help="Share of the time.", unit="ratio")] = 0.5
    workers: Annotated[int, Spec(help="How many at once.", within=(1, None))] = 2
    enabled: Annotated[bool, Spec(help="Whether it runs.")] = True
    efficiency_ratio: Annotated[float, Spec(help="What is left of a peak."), CONSTANT] = 0.8


class Store(Struct, frozen=True):
    """Where things are kept."""

    path: Annotated[str, Spec(help="The file.")] = "/var/lib/thing"
    limit_bytes: Annotated[int, Spec(help="How much of it.", within=(1, None))] = 512 * 2**20
    color: Annotated[Color, Spec(help="How it looks.")] = Color.RED
    token_file: Annotated[str | None, Spec(help="A file with a secret.")] = None
    keep: Annotated[float | None, Spec(help="How long to keep it.", unit="seconds")] = None


class Match(Struct, frozen=True):
    """What a policy is about."""

    owner: Annotated[str | None, Spec(help="Whose it is.")] = None


class Policy(Struct, frozen=True):
    """An exception for some of the owners."""

    class_: Annotated[Color, Spec(help="A key that is a keyword of Python.")]
    match: Match = Match()
    thresholds: Annotated[Mapping[str, float], Spec(help="Limits by name.", within=(0, 1))] = (
        MappingProxyType({})
    )


class Settings(Struct, frozen=True):
    """Everything that the sample can be told."""

    job: Job = Job()
    night_job: Job = Job(interval=3600.0, workers=1)
    store: Store = Store()
    listen: Annotated[tuple[str, ...], Spec(help="Where it listens.")] = (":19400",)
    policies: tuple[Policy, ...] = ()
    collectors: Annotated[Mapping[str, bool], Spec(help="What is switched on or off.")] = (
        MappingProxyType({"gpm": True})
    )
    stores: Mapping[str, Store] = {}

    def __post_init__(self) -> None:
        """Hold what two settings must hold together."""
        if self.job.jitter_seconds > self.job.interval:
            raise ValueError("job.jitter must not exceed job.interval; lower it")

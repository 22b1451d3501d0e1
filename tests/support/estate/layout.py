"""Positions and holders of the fleet's GPUs: two fleets, one of a hundred GPUs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

__all__ = ["EAST", "JOBS", "LARGE", "SMALL", "WEST", "Job", "Layout", "Machine", "Owner"]


class Owner(StrEnum):
    """The controller that creates a workload's next pod."""

    DEPLOYMENT = "Deployment"
    NOTEBOOK = "Notebook"
    JOB = "Job"
    CRON_JOB = "CronJob"
    SLURM = "Slurm"


class Job(Struct, frozen=True):
    """A workload of the fleet; its name is its character's."""

    name: str
    owner: Owner
    team: str
    namespace: str = ""
    churn_days: float = 0.0
    """Interval at which its pods are replaced; 0 for never."""
    hours: tuple[int, int] | None = None
    """Hours of the day, UTC, of its start and end; `None` for all the time."""
    joins_every_days: float = 0.0
    """Delay between its GPUs; 0 for all at once."""
    is_in_step: bool = False
    """Whether its ranks are synchronized."""
    like: str = ""
    """The job with the same days; empty for its own."""

    @property
    def key(self) -> str:
        """The workload's key, as written by the agent."""
        if self.owner is Owner.SLURM:
            return f"slurm:{self.name}"
        return f"kubernetes:{self.namespace}/{self.name}"


class Machine(Struct, frozen=True):
    """A node and its GPUs' holders; `-` for none, `NAME@CHARACTER` for a different rank."""

    name: str
    pool: str
    board: str
    gpus: tuple[str, ...]
    since_hours: int | None = None
    """Time of its arrival before the end; `None` for always."""


class Layout(Struct, frozen=True):
    """A fleet."""

    name: str
    machines: tuple[Machine, ...]

    @property
    def size(self) -> int:
        """Number of GPUs."""
        return sum(len(machine.gpus) for machine in self.machines)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs placed on it."""
        names = {text.partition("@")[0] for machine in self.machines for text in machine.gpus}
        return tuple(job for name, job in JOBS.items() if name in names)


def _deployment(name: str, namespace: str, team: str, churn_days: float) -> Job:
    return Job(name, Owner.DEPLOYMENT, team, namespace, churn_days)


def _slurm(name: str) -> Job:
    return Job(name, Owner.SLURM, "foundation", is_in_step=True)


JOBS: Final[Mapping[str, Job]] = {
    job.name: job
    for job in (
        _slurm("pretrain"),
        _slurm("stall"),
        _slurm("skew"),
        Job("loader", Owner.JOB, "vision", "vision", is_in_step=True),
        _slurm("launch"),
        Job("render", Owner.JOB, "studio", "studio", is_in_step=True),
        Job("scattered", Owner.JOB, "research", "research", is_in_step=True),
        Job("nightly", Owner.CRON_JOB, "quality", "quality", 1.0, hours=(20, 6), is_in_step=True),
        Job("notebook-lab", Owner.NOTEBOOK, "people", "notebooks"),
        _deployment("chat-api", "production", "chat", 3.0),
        _deployment("embed-svc", "production", "search", 5.0),
        _deployment("search-rank", "production", "search", 4.0),
        _deployment("translate", "production", "language", 6.0),
        _deployment("vllm-code", "production", "language", 0.0),
        _deployment("standby", "production", "chat", 0.0),
        Job("notebook-ana", Owner.NOTEBOOK, "people", "notebooks"),
        Job("notebook-bo", Owner.NOTEBOOK, "people", "notebooks"),
        _deployment("asr", "media", "media", 4.0),
        _deployment("ocr", "media", "media", 0.0),
        _deployment("tts", "media", "media", 0.0),
        Job("upscale", Owner.JOB, "media", "media"),
        Job("tenant", Owner.JOB, "tenants", "tenants", joins_every_days=2.2),
        Job("preview", Owner.DEPLOYMENT, "studio", "previews", like="translate"),
        Job("survey", Owner.JOB, "studio", "surveys", is_in_step=True, like="render"),
    )
}

_H100 = "H100-SXM5-80GB"
_A100 = "A100-SXM4-80GB"
_A100_SMALL = "A100-SXM4-40GB"


def _machine(name: str, board: str, gpus: str, since_hours: int | None = None) -> Machine:
    """A machine from `NAME:COUNT NAME:COUNT`; its pool is its name without the number."""
    held = []
    for text in gpus.split():
        who, _, count = text.partition(":")
        held += [who] * int(count)
    return Machine(name, name.rpartition("-")[0], board, tuple(held), since_hours)


_NEW: Final = (
    _machine("burst-1", _A100, "preview@translate:1 -:3", since_hours=2),
    _machine("burst-2", _A100, "survey@render:3 -:1", since_hours=2),
)
"""Recent nodes for a job that takes a whole node; the job had others before."""


LARGE: Final = Layout(
    "large",
    (
        _machine("train-1", _H100, "pretrain:8"),
        _machine("train-2", _H100, "pretrain:6 launch:2"),
        _machine("train-3", _H100, "stall:4 skew@skew-slow:4"),
        _machine("train-4", _H100, "stall:4 skew:4"),
        _machine("batch-1", _A100, "loader:4 scattered:1 render:2 -:1"),
        _machine("batch-2", _A100, "render:2 scattered:1 nightly:2 notebook-lab:1 -:2"),
        _machine("batch-3", _A100, "scattered:2 nightly:2 render:3 -:1"),
        _machine("serve-1", _A100, "chat-api:4 embed-svc:1 search-rank:3"),
        _machine("serve-2", _A100, "chat-api:4 embed-svc:1 search-rank:2 translate:1"),
        _machine("serve-3", _A100, "chat-api:4 vllm-code:2 standby:1 translate:1"),
        _machine("dev-1", "L4", "notebook-ana:1 notebook-bo:1 asr:1 ocr:1"),
        _machine("dev-2", "L4", "upscale:2 tts:1 notebook-bo:1"),
        _machine("spare-1", _A100_SMALL, "-:4"),
        _machine("tenants-1", "L40S", "tenant:8"),
        *_NEW,
    ),
)
"""A hundred GPUs, and eight that are new."""

EAST: Final = Layout(
    "east",
    (_machine("serve-1", _A100, "chat-api:2 embed-svc:1 -:1"), _machine("spare-1", _A100, "-:2")),
)
WEST: Final = Layout("west", (_machine("serve-1", _A100, "chat-api@notebook-ana:2 embed-svc:1"),))
"""A cluster with the other's names: the same service is idle in it, and no GPU is free."""

SMALL: Final = Layout(
    "small",
    (
        _machine("train-1", _H100, "stall:2 skew@skew-slow:2"),
        _machine("train-2", _H100, "stall:2 skew:2"),
        _machine("train-3", _H100, "pretrain:2 launch:1"),
        _machine("batch-1", _A100, "loader:1 render:1 scattered:1 -:1"),
        _machine("batch-2", _A100, "scattered:1 nightly:1 notebook-lab:1 -:1"),
        _machine("serve-1", _A100, "chat-api:4 embed-svc:1 search-rank:3"),
        _machine("serve-2", _A100, "chat-api:5 standby:1 search-rank:2"),
        _machine("dev-1", "L4", "notebook-ana:1 asr:1 ocr:1"),
        _machine("spare-1", _A100_SMALL, "-:2"),
        _machine("tenants-1", "L40S", "tenant:8"),
        *_NEW,
    ),
)
"""A fleet small enough to fill two stores in a test."""

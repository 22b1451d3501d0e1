"""Settings of capture: how a profile is requested, where it lands, what that may cost."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.config.spelling import is_asked_for, unknown_placeholders
from rightsizer.io.http_settings import HttpSettings, ServerSettings
from rightsizer.model.values import CONSTANT, Reason, Spec

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "pid": "a process of the workload on the GPU",
    "pids": "all of them, separated by commas",
    "gpu_uuid": "the GPU that the finding is about most",
    "gpu_index": "its index",
    "seconds": "how long to record",
    "folder": "where the profile goes, made for this capture",
    "workload": "the workload's key, without characters that mean something to programs",
}
"""Placeholders with their meanings."""
_NAMED: Final = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)


class CaptureTimingSettings(Struct, frozen=True):
    """Findings that trigger a capture, and its timing.

    Attributes:
        reasons: Reasons that trigger a capture.
            Source: docs/profiles.md, findings: what the rules over profiles judge, and stalls
        minimum_confidence_ratio: Minimum confidence of a finding.
            Source: docs/definitions.md, conduct: the least confidence of advice
        maximum_confidence_ratio: Maximum confidence of a finding; 1 for no limit.
        minimum_age_seconds: Time for which the processes must have run and been at work.
            Source: compilation and autotuning of large models take minutes
        steady_seconds: Preceding time for which a workload must have been steady and at work.
            Source: one block of the accounts
        unsteadiness_maximum_ratio: Maximum change of the state shares between checks, as total
            variation.
        minimum_active_ratio: Minimum active share of that time.
        cool_down_seconds: Minimum time between captures of a workload.
            Source: a profile holds until the code changes, daily at the soonest
        retry_after_seconds: Minimum time until a workload's next capture after a failed one.
        maximum_a_day: Maximum captures on this node in any 24 hours.
    """

    reasons: tuple[Reason, ...] = (
        Reason.HOST_BOUND,
        Reason.LAUNCH_BOUND,
        Reason.PCIE_BOUND,
        Reason.STORAGE_BOUND,
        Reason.TENSOR_CORES_UNUSED,
        Reason.RANK_IMBALANCE,
        Reason.HIDDEN_STALL,
    )
    minimum_confidence_ratio: float = 0.5
    maximum_confidence_ratio: Annotated[float, CONSTANT] = 1.0
    minimum_age_seconds: Annotated[float, Spec(within=(0.0, 86400.0)), CONSTANT] = 600.0
    steady_seconds: Annotated[float, Spec(within=(60.0, 3600.0)), CONSTANT] = 300.0
    unsteadiness_maximum_ratio: Annotated[float, CONSTANT] = 0.25
    minimum_active_ratio: Annotated[float, CONSTANT] = 0.5
    cool_down_seconds: Annotated[float, Spec(within=(600.0, 366 * 86400.0))] = 86400.0
    retry_after_seconds: Annotated[float, Spec(within=(600.0, 366 * 86400.0)), CONSTANT] = 3600.0
    maximum_a_day: Annotated[int, Spec(within=(1, 1000))] = 4

    def __post_init__(self) -> None:
        if self.minimum_confidence_ratio > self.maximum_confidence_ratio:
            raise ValueError("minimum_confidence_ratio is above maximum_confidence_ratio")


class CaptureKind(StrEnum):
    """Who is called for a profile."""

    NONE = "none"
    DYNOLOG = "dynolog"
    """Dynolog's daemon, by its command `dyno gputrace`."""
    COMMAND = "command"
    WEBHOOK = "webhook"
    """A receiver that takes JSON over HTTP."""


class DynologSettings(Struct, frozen=True):
    """Dynolog, which triggers profiles in PyTorch programs.

    Attributes:
        program: Command name on PATH, or an absolute path.
        port: Local port of the dynolog daemon.
            Source: dynolog: DYNO_PORT
        arguments: Additional arguments of `dyno gputrace`, such as --with-stacks.
    """

    program: str = "dyno"
    port: Annotated[int, Spec(within=(1, 65535))] = 1778
    arguments: tuple[str, ...] = ()


class CaptureWebhookSettings(ServerSettings, frozen=True):
    """Receiver of JSON over HTTP that captures a profile."""

    http: HttpSettings = HttpSettings()


class CaptureStorageSettings(Struct, frozen=True):
    """Disk space for captured profiles; other files are never deleted.

    Attributes:
        quota_bytes: Maximum total size; the oldest are deleted first. Unread ones alone stop
            captures.
            Source: four profiles of some 300 MB a day, of eight GPUs each a few
        kept_for: How long captured profiles are kept.
            Source: as long as the history
        minimum_free_ratio: Share of the file system that must be free for a capture.
    """

    quota_bytes: Annotated[int, Spec(within=(2**20, None))] = 4 * 2**30
    kept_for: Annotated[float, Spec(unit="seconds", within=(3600.0, 366 * 86400.0))] = 30 * 86400.0
    minimum_free_ratio: float = 0.1


class CaptureSettings(Struct, frozen=True):
    """Profiles captured on findings; disabled unless `kind` is set.

    Raises:
        ValueError: what the kind needs is not there, or a placeholder stands for nothing.

    Attributes:
        kind: Capture method.
        seconds: Recording time of a profile.
            Source: some ten steps of training; a rule over profiles asks for 50 kernels
        timeout: Additional time, after which the call and all its processes are killed.
            Source: writing a trace takes longer than recording it
        margin: How long profiling counters stay released after a recording that is only requested.
            Source: a program under Kineto hears of it when it next asks the daemon
        landing: How long to wait for a profile before the capture counts as empty.
    """

    kind: CaptureKind = CaptureKind.NONE
    seconds: Annotated[float, Spec(unit="seconds", within=(0.1, 600.0))] = 5.0
    timeout: Annotated[float, Spec(unit="seconds", within=(1.0, 3600.0))] = 120.0
    margin: Annotated[float, Spec(unit="seconds", within=(0.0, 600.0)), CONSTANT] = 15.0
    landing: Annotated[float, Spec(unit="seconds", within=(60.0, 86400.0)), CONSTANT] = 900.0
    timing: CaptureTimingSettings = CaptureTimingSettings()
    command: Annotated[
        tuple[str, ...],
        Spec(help=f"Program and arguments, one item each, without a shell; may contain {_NAMED}."),
    ] = ()
    dynolog: DynologSettings = DynologSettings()
    webhook: CaptureWebhookSettings = CaptureWebhookSettings()
    room: CaptureStorageSettings = CaptureStorageSettings()

    def __post_init__(self) -> None:
        if unknown := unknown_placeholders(self.command, PLACEHOLDERS):
            raise ValueError(f"command: there is no {{{unknown[0]}}}; choose from {_NAMED}")
        if self.kind is CaptureKind.COMMAND and not (self.command and self.command[0]):
            raise ValueError("command: is empty; name a program, or another kind")
        if self.kind is CaptureKind.WEBHOOK and not self.webhook.url:
            raise ValueError("webhook.url: is empty; name an address, or another kind")
        if self.kind is CaptureKind.DYNOLOG and not self.dynolog.program:
            raise ValueError("dynolog.program: is empty; name the command, or another kind")

    @property
    def names_workload(self) -> bool:
        """Whether a capture is told the workload, and not its processes alone."""
        if self.kind is CaptureKind.COMMAND:
            return is_asked_for("workload", self.command)
        return self.kind is CaptureKind.WEBHOOK

    @property
    def needs_pids(self) -> bool:
        """Whether a capture requires the workload's process ids."""
        if self.kind is CaptureKind.COMMAND:
            return any(is_asked_for(name, self.command) for name in ("pid", "pids"))
        return self.kind is CaptureKind.DYNOLOG


class DropFolderSettings(Struct, frozen=True):
    """Directory whose profiles are read as they arrive, including the agent's own captures.

    Attributes:
        path: Absolute path of the directory. Files are left in place.
        interval: Time between scans; a file unchanged since the previous one is read.
        files_maximum: Maximum files considered, newest first.
        read_timeout: Time limit for reading one file, in a separate process.
            Source: benchmarks/RESULTS.md, profiles: thrice what 300 MB of PyTorch's JSON take on
            the fifth of a core that the unit allows
        read_memory_bytes: Memory limit of that process.
            Source: 7 million kernels of 40 bytes each, and the program itself
    """

    path: str = ""
    interval: Annotated[float, Spec(unit="seconds", within=(5.0, 3600.0))] = 60.0
    files_maximum: Annotated[int, Spec(within=(1, 100_000)), CONSTANT] = 1000
    read_timeout: Annotated[float, Spec(unit="seconds", within=(1.0, 3600.0))] = 120.0
    read_memory_bytes: Annotated[int, Spec(within=(128 * 2**20, None))] = 512 * 2**20

    def __post_init__(self) -> None:
        if self.path and not self.path.startswith("/"):
            raise ValueError(f"path: '{self.path}' is no whole path; begin it with /")

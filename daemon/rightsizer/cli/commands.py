"""All commands of `rightsizer`, in the order of its help."""

from typing import Final

from rightsizer.cli import (
    advise,
    agent,
    catalogue,
    check_config,
    claim,
    compare,
    demo,
    doctor,
    explain,
    export,
    fleet,
    job_report,
    plan,
    profile,
    project,
    record,
    release,
    replay,
    report,
    topology,
    version,
)
from rightsizer.cli.command import Command

__all__ = ["COMMANDS"]

COMMANDS: Final[tuple[Command, ...]] = (
    agent.COMMAND,
    demo.COMMAND,
    record.COMMAND,
    replay.COMMAND,
    advise.COMMAND,
    explain.COMMAND,
    claim.CLAIM,
    claim.DISMISS,
    claim.SNOOZE,
    export.COMMAND,
    report.COMMAND,
    fleet.COMMAND,
    job_report.COMMAND,
    release.RELEASE,
    release.RESUME,
    topology.COMMAND,
    profile.COMMAND,
    project.COMMAND,
    catalogue.COMMAND,
    compare.COMMAND,
    plan.COMMAND,
    check_config.COMMAND,
    doctor.COMMAND,
    version.COMMAND,
)

"""What can go wrong, as one tree; every message names the thing, the place and the remedy."""

from typing import ClassVar


class RightsizerError(Exception):
    """Anything that an operator can mend."""

    exit_code: ClassVar[int] = 1


class UsageError(RightsizerError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class RefusedError(UsageError):
    """Something that an agent understands and does not do, with its reason."""


class EndedError(UsageError):
    """A ticket or a lease that was ended; the message says who."""


class ConfigurationError(RightsizerError):
    """A configuration file with faults, one line each: `file:line:column: key: what; remedy`."""

    exit_code = 78


class RecordingError(RightsizerError):
    """A recording that is missing, empty, of an unknown format, or without what it needs."""


class RequirementError(RightsizerError):
    """A model or a layout that contradicts itself: the key, what is wrong with it, the remedy."""


class ScenarioError(RightsizerError):
    """A scenario of the simulator that contradicts itself or the catalogue."""


class AgentAbsentError(RightsizerError):
    """A command that asks the agent, where none runs."""


class AgentBusyError(RightsizerError):
    """An agent that did not answer this time, and may the next."""


class HistoryError(RightsizerError):
    """A history that cannot be opened: locked, newer than this program, or read-only."""


class ProfileError(RightsizerError):
    """A profiler's file that is missing, broken, hostile, or of an unknown format."""


class StoreError(RightsizerError):
    """A store of samples that is away, refuses, or answers with a part of what was asked."""


class StoreLimitError(StoreError):
    """A store that allows less than was asked for in one query; less can be asked for."""


class DriverError(RightsizerError):
    """A driver that is absent, unloaded or refused; telemetry turns it into a reason."""

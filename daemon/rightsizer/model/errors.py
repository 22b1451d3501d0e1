"""Exception hierarchy; every message names the thing, the place and the remedy."""

from typing import ClassVar


class RightsizerError(Exception):
    """Error that an operator can fix."""

    exit_code: ClassVar[int] = 1


class UsageError(RightsizerError):
    """Command line that refers to something nonexistent."""

    exit_code = 2


class AbsentError(UsageError):
    """Request for something that does not exist."""


class RefusedError(UsageError):
    """Valid request that the agent declines, with the reason."""


class EndedError(UsageError):
    """Ticket or lease that has ended; the message says by whom."""


class ConfigurationError(RightsizerError):
    """Invalid configuration file, one line per fault: `file:line:column: key: what; remedy`."""

    exit_code = 78


class RecordingError(RightsizerError):
    """Recording that is missing, empty, of unknown format, or incomplete."""


class RequirementError(RightsizerError):
    """Contradictory model or layout; names the key, the fault and the remedy."""


class ScenarioError(RightsizerError):
    """Simulator scenario that contradicts itself or the catalogue."""


class AgentAbsentError(RightsizerError):
    """No agent is running to answer the command."""


class AgentBusyError(RightsizerError):
    """Agent that did not respond in time; a retry may succeed."""


class ListenError(RightsizerError):
    """Address that cannot be listened on where another would do."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"{fault} with --web.listen-address")
        self.fault = fault
        """What to choose, without by which flag."""


class HistoryError(RightsizerError):
    """History that cannot be opened: locked, written by a newer version, or read-only."""


class DocumentError(RightsizerError):
    """Document of another program that takes more than is allowed."""


class ProfileError(RightsizerError):
    """Profile that is missing, broken, hostile, or of unknown format."""


class StoreError(RightsizerError):
    """Metrics store that is unreachable, refuses, or returns partial results."""


class StoreLimitError(StoreError):
    """Query beyond the store's limits; a smaller one may succeed."""


class DriverError(RightsizerError):
    """Driver that is absent, unloaded or inaccessible; telemetry turns it into a reason."""

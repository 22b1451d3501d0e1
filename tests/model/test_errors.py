"""Exit codes that scripts rely on."""

import pytest

from rightsizer.model.errors import (
    AgentAbsentError,
    ConfigurationError,
    DriverError,
    HistoryError,
    RecordingError,
    RightsizerError,
    ScenarioError,
    UsageError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RightsizerError, 1),
        (UsageError, 2),
        (AgentAbsentError, 1),
        (ConfigurationError, 78),
        (RecordingError, 1),
        (ScenarioError, 1),
        (HistoryError, 1),
        (DriverError, 1),
    ],
)
def test_exit_code(error: type[RightsizerError], code: int) -> None:
    """1 failed, 2 usage, 78 invalid configuration; one base class covers all."""
    assert error.exit_code == code
    assert issubclass(error, RightsizerError)

"""What the log says of the source: each change once, and no flood where reasons take turns."""

from structlog import get_logger
from structlog.testing import capture_logs

from rightsizer.agent.coordinator import SourceLog
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND

SECOND = NANOSECONDS_PER_SECOND


def told(*troubles: str | None) -> list[str]:
    """The reasons that the log gives, one trouble a second; `back` where devices were found."""
    log = SourceLog(get_logger())
    with capture_logs() as lines:
        for second, trouble in enumerate(troubles):
            log.tell(Snapshot(second * SECOND, second * SECOND, SECOND, (), {}, trouble=trouble))
    return [line.get("reason", "back") for line in lines]


def test_reasons_that_take_turns_are_told_once_each() -> None:
    """A driver that hangs here and there while it is opened; what is new is told at once."""
    turns = ["NVML is slow", "NVML hangs in a", "NVML is slow", "NVML hangs in b"]

    assert told(*turns * 20) == ["NVML is slow", "NVML hangs in a", "NVML hangs in b"]


def test_turns_that_last_are_told_again() -> None:
    """After ten minutes each: whoever looks at the end of the log sees it."""
    turns = ["NVML is slow", "NVML hangs in a"]

    assert told(*turns * 601) == turns * 3


def test_what_comes_back_after_devices_were_there_is_new() -> None:
    """Its time has begun anew."""
    assert told("gone", None, "gone") == ["gone", "back", "gone"]

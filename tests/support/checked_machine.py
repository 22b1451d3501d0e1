"""A machine for the doctor's checks."""

from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from readings import TRAINING, gpu, reading, snapshot
from rightsizer.agent.doctor.check import Check, CheckContext, Verdict
from rightsizer.agent.settings import Settings
from rightsizer.model.reading import Process
from rightsizer.model.snapshot import Snapshot

__all__ = ["ANSWERED", "GPU", "configured", "machine", "seen", "verdict", "write"]

GPU: Final = gpu()
ANSWERED: Final = replace(
    reading(GPU, 1.0, TRAINING), processes=(Process(1), Process(4_000_000)), missing={}
)


def machine(tmp_path: Path) -> CheckContext:
    """An empty machine with one readable GPU."""
    settings = Settings()
    path = replace(
        settings.path,
        procfs=str(tmp_path / "proc"),
        sysfs=str(tmp_path / "sys"),
        api_socket=str(tmp_path / "api.sock"),
    )
    history = replace(settings.history, path=str(tmp_path / "history.db"), maximum_size_bytes=2**20)
    web = replace(settings.web, listen_addresses=("127.0.0.1:0",))
    settings = replace(settings, path=path, history=history, web=web)
    return CheckContext(settings, seen(ANSWERED), {}, devices=tmp_path / "dev")


def seen(*readings: Any, **facts: Any) -> Snapshot:
    """A reading of the source."""
    return replace(
        snapshot(0.0, [GPU], {}),
        readings={each.uuid: each for each in readings},
        **facts,
    )


def write(path: Path, text: str = "") -> Path:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def configured(context: CheckContext, **sources: Any) -> CheckContext:
    """The machine with other sources."""
    settings = context.settings
    return replace(
        context, settings=replace(settings, sources=replace(settings.sources, **sources))
    )


def verdict(check: Check) -> str:
    """The verdict of a check; any fault states its consequence."""
    if check.verdict in {Verdict.LIMITED, Verdict.MISSING}:
        assert check.lost
    else:
        assert (check.lost, check.remedy) == ("", "")
    return str(check.verdict)

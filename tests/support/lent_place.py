"""A folder with the socket of an agent that has a broker, and a client that runs commands."""

from pathlib import Path
from typing import Any, Final

from agent_process import eventually
from rightsizer.io.local import LocalClient
from run_commands import Run, RunCommands

__all__ = ["Place", "children_of", "is_there", "pid_in"]

NODE: Final = """\
name: lent-node
seed: 3
cores: 16
boards: [{board: H100-SXM5-80GB, count: 2}]
workloads: []
"""
CONFIG: Final = """\
sampling: {{interval: 200ms}}
history: {{path: ''}}
web: {{listen_addresses: ['127.0.0.1:0']}}
sources: {{simulated: {{scenario: '{folder}/node.yaml'}}}}
path: {{api_socket: '{folder}/api.sock'}}
broker: {{enabled: true, path: '{folder}/broker.db', maximum_reservations_per_user: 2}}
"""


class Place:
    """A folder with an agent's socket, and a client that runs commands."""

    def __init__(self, folder: Path, commands: RunCommands) -> None:
        self.folder = folder
        self._commands = commands
        (folder / "node.yaml").write_text(NODE)
        self.config = CONFIG.format(folder=folder)
        self.client = LocalClient(folder / "api.sock")

    @property
    def socket(self) -> tuple[str, Path]:
        """The flag that names it."""
        return "--path.api-socket", self.folder / "api.sock"

    def run(self, *arguments: str) -> Run:
        """A command under a lease, or waiting for one."""
        return self._commands.start("run", *self.socket, *arguments)

    def broker(self) -> Any:
        """The broker's state."""
        return self.client.get("/api/v1/broker")

    def leases(self) -> list[Any]:
        """The current leases."""
        found: list[Any] = self.broker()["leases"]
        return found

    def held(self, run: Run) -> Any:
        """The lease of a run, once granted."""
        return eventually(
            lambda: next((lease for lease in self.leases() if lease["pid"] == run.pid), None)
        )

    def works(self, run: Run) -> Any:
        """The lease of a run, once its command has begun and certainly knows of it."""
        lease = self.held(run)
        eventually(lambda: any(_is_begun(each) for each in children_of(run.pid)))
        return lease

    def waits(self, run: Run) -> None:
        """Wait until a run knows its reason for waiting."""
        eventually(lambda: "waits as" in run.said)

    def nothing_is_lent(self) -> bool:
        """Whether all leases have ended, and the queue is empty."""
        document = self.broker()
        return not document["leases"] and not document["queue"]


def pid_in(file: Path) -> int:
    """A process's pid, once it has written it."""
    return int(eventually(lambda: file.exists() and file.read_text().strip()))


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    """A process's children; none if it has ended."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(each) for each in text.split()]


def _is_begun(pid: int) -> bool:
    """Whether a child has executed its command."""
    try:
        return b"RIGHTSIZER_LEASE=" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False

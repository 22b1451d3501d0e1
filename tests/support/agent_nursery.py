"""Starts dozens of agents, forked from one process that has loaded all their modules.

As a program its arguments are folders, each with a configuration file; it prints the agents' pids
and lives until its standard input ends.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from rightsizer.cli.main import main as rightsizer

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main(folders: list[str]) -> None:
    """Fork, print the pids, and wait."""
    pids = [_fork(Path(folder)) for folder in folders]
    print(json.dumps(pids), flush=True)
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork(folder: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    status = 1
    try:
        status = rightsizer(["agent", "--config.file", "rightsizer.yaml"])
    finally:
        # The parent's exit handlers are for the parent alone.
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])

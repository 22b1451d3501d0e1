"""Entry point of `make run`: an agent on this machine's GPUs, else the demonstration."""

import os
import sys
from contextlib import closing
from pathlib import Path

from rightsizer.agent.agent import Agent
from rightsizer.agent.service import serve
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.cli.demo import DemoSettings, pages_text, run_demo
from rightsizer.console.command import say
from rightsizer.console.flags import with_values
from rightsizer.io.clock import SystemClock
from rightsizer.model.errors import RightsizerError
from rightsizer.model.units import nanoseconds

_ADDRESS = "127.0.0.1:19400"
_PATIENCE_SECONDS = 10.0


def main() -> int:
    """Run in the foreground on loopback; return the exit status."""
    trouble = _trouble()
    try:
        if trouble is not None:
            say(f"No GPU to read here: {trouble}\nRunning the built-in simulated node instead.")
            run_demo(DemoSettings(listen_address=_ADDRESS), say)
        else:
            _run_agent()
    except RightsizerError as error:
        print(f"rightsizer: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _trouble() -> str | None:
    """Return why there are no devices, or `None` if there are."""
    clock = SystemClock()
    deadline = clock.time() + nanoseconds(_PATIENCE_SECONDS)
    with closing(live_source(Settings(), clock).source) as source:
        while True:
            snapshot = source.read()
            if snapshot.devices:
                return None
            if snapshot.trouble is not None or clock.time() > deadline:
                return snapshot.trouble or "the driver does not answer"


def _run_agent() -> None:
    state = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local/state"))
    path = state / "rightsizer" / "history.db"
    values = {"history.path": str(path), "web.listen_addresses": (_ADDRESS,)}

    def announce(agent: Agent) -> None:
        say(f"Sampling this machine's GPUs; history in {path}")
        for address in agent.server.addresses:
            say(pages_text(address))

    serve(with_values(Settings(), values), announce=announce)


if __name__ == "__main__":
    sys.exit(main())

"""Entry point of `make run`, an agent on this machine's GPUs, and of `make demo`."""

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

from rightsizer.agent.agent import Agent
from rightsizer.agent.service import serve
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.cli.demo import DemoSettings, pages_text, run_demo
from rightsizer.console.command import say
from rightsizer.console.flags import with_values
from rightsizer.io.clock import SystemClock
from rightsizer.model.values import ListenError, RightsizerError, nanoseconds

_ADDRESS: Final = "127.0.0.1:19400"
_OTHER: Final = "127.0.0.1:19401"
_PATIENCE_SECONDS = 10.0


def main(target: str = "run", address: str = _ADDRESS) -> int:
    """Run a target of `make` in the foreground at an address; return the exit status."""
    try:
        if target == "demo":
            run_demo(DemoSettings(listen_address=address), say)
        elif (trouble := _trouble()) is not None:
            say(f"No GPU to read here: {trouble}\nRunning the built-in simulated node instead.")
            run_demo(DemoSettings(listen_address=address), say)
        else:
            _run_agent(address)
    except RightsizerError as error:
        said = str(error)
        if isinstance(error, ListenError):
            # `make` takes no flags.
            said = f"{error.fault} with `make {target} LISTEN={_OTHER}`"
        print(f"rightsizer: {said}", file=sys.stderr)
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


def _run_agent(address: str) -> None:
    state = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local/state"))
    path = state / "rightsizer" / "history.db"
    values = {"history.path": str(path), "web.listen_addresses": (address,)}

    def announce(agent: Agent) -> None:
        say(f"Sampling this machine's GPUs; history in {path}")
        for place in agent.server.addresses:
            say(pages_text(place))

    serve(with_values(Settings(), values), announce=announce)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))

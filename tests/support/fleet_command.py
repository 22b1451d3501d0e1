"""`rightsizer fleet` in a process of its own or in this one, with its own configuration."""

import json
import subprocess
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_process import RIGHTSIZER, run_rightsizer
from rightsizer.cli.main import main

__all__ = ["Said", "asked_in_process", "configured", "fleet_process", "look_command"]


class Said(Struct, frozen=True):
    """The result of a run."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Its JSON."""
        assert self.status == 0, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def refusal(self) -> str:
        """The only line of output, which ends the run."""
        assert (self.out, self.err.count("\n")) == ("", 1), self.err
        assert "Traceback" not in self.err
        return self.err.removesuffix("\n").removeprefix("rightsizer: ")


def configured(
    folder: Path, url: str, store: dict[str, Any] | None = None, **settings: Any
) -> Path:
    """A configuration with all files in one folder and short timeouts.

    Args:
        folder: The folder.
        url: The store.
        store: Further settings of `fleet.store`.
        settings: Further settings of `fleet`; other sections by `other`.
    """
    other = settings.pop("other", {})
    fleet = {
        "store": {"url": url, "backoff": "0s", "patience": "0s", "timeout": "20s", **(store or {})},
        "path": str(folder / "fleet.db"),
        "workers": 1,
        **settings,
    }
    file = folder / "rightsizer.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"fleet": fleet, **other}), encoding="utf-8")
    return file


def look_command(config: Path, *flags: str) -> list[str]:
    """The command line of a run."""
    return [
        *RIGHTSIZER,
        "fleet",
        "--no-progress",
        "--config.file",
        str(config),
        *flags,
    ]


def fleet_process(config: Path, *flags: str, prefix: Sequence[str] = ()) -> Said:
    """One run, in a process of its own."""
    command = look_command(config, *flags)
    if prefix:
        done = subprocess.run(
            [*prefix, *command], capture_output=True, text=True, timeout=60, check=False
        )
    else:
        done = run_rightsizer(*command[len(RIGHTSIZER) :], timeout_seconds=60)
    return Said(done.returncode, done.stdout, done.stderr)


def asked_in_process(config: Path, *flags: str) -> Said:
    """One run, in this process."""
    out = StringIO()
    err = StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["fleet", "--no-progress", "--config.file", str(config), *flags])
    return Said(status, out.getvalue(), err.getvalue())

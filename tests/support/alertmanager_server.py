"""A real Alertmanager for tests, from Debian's package."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from msgspec import Struct

from debian_program import program, run_program, running_program

__all__ = ["Alertmanager", "alertmanager_server", "amtool"]

_PACKAGE: Final = "prometheus-alertmanager"
_SHARED: Final = b"/usr/share/prometheus/alertmanager"
_LISTENS: Final = re.compile(r'msg="Listening on" address=(127\.0\.0\.1:\d+)')


def amtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run amtool to its end, without raising on a failure."""
    return run_program(program(_PACKAGE, "amtool"), *arguments)


class Alertmanager(Struct, frozen=True):
    """A running server."""

    url: str

    @property
    def address(self) -> str:
        """The address to which Prometheus sends alerts."""
        return self.url.removeprefix("http://")

    def tell(self, alerts: list[dict[str, Any]]) -> None:
        """Post alerts as Prometheus does."""
        body = json.dumps(alerts).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(f"{self.url}/api/v2/alerts", body, headers), timeout=60):
            pass

    def alerts(self) -> list[dict[str, Any]]:
        """All of its alerts, inhibited ones too."""
        with urlopen(f"{self.url}/api/v2/alerts", timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found


@contextmanager
def alertmanager_server(config: str) -> Iterator[Alertmanager]:
    """An Alertmanager on loopback with a temporary data folder, stopped after the block."""
    installed = program(_PACKAGE, "prometheus-alertmanager")
    with tempfile.TemporaryDirectory(prefix="alertmanager-") as name:
        folder = Path(name)
        alertmanager = _relocated(installed, folder)
        (folder / "alertmanager.yml").write_text(config)
        command: list[str | Path] = [
            alertmanager,
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            "--cluster.listen-address=",
        ]
        with running_program(command, folder, _LISTENS, "/-/ready") as url:
            yield Alertmanager(url)


def _relocated(installed: Path, folder: Path) -> Path:
    """A copy that finds its templates in its working folder.

    Debian's build has their path built in, and does not start from an unpacked package.
    """
    templates = installed.parents[1] / "share" / "prometheus" / "alertmanager"
    for template in templates.glob("*.tmpl"):
        shutil.copy(template, folder)
    copy = folder / installed.name
    here = b"." + b"/" * (len(_SHARED) - 1)
    copy.write_bytes(installed.read_bytes().replace(_SHARED, here))
    copy.chmod(0o755)
    return copy

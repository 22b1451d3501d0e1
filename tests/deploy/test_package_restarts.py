"""What a Debian package starts, by its own script among programs that note their arguments."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

POSTINST: Final = Path(__file__).parents[2] / "config/packages/deb/postinst"
NOTED: Final = ("deb-systemd-invoke", "deb-systemd-helper", "systemctl", "systemd-sysusers",
                "rightsizer", "dpkg-query")  # fmt: skip

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="only root can mount a file system of its own",
)
_SCRIPT: Final = """
set -e
mount --bind / "$1/root"
for place in etc run tmp usr/share/rightsizer; do
    [ -d "$1/root/$place" ] || continue
    mount -t tmpfs none "$1/root/$place"
done
mkdir -p "$1/root/run/systemd/system" "$1/root/etc/systemd/system" "$1/root/etc/rightsizer"
echo '{}' >"$1/root/etc/rightsizer/rightsizer.yaml"
cp -r "$1/bin" "$1/root/run/bin"
cp "$2" "$1/root/run/postinst"
[ -z "$4" ] || ln -s /dev/null "$1/root/etc/systemd/system/rightsizer.service"
chroot "$1/root" /usr/bin/env PATH="/run/bin:$PATH" sh /run/postinst configure $3 >&2
cat "$1/root/run/noted"
"""


def _started(folder: Path, former: str = "", *, was_removed: bool = False) -> str:
    """What the script has systemd do with the agent; empty for nothing."""
    (folder / "root").mkdir()
    (folder / "bin").mkdir()
    for name in NOTED:
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>/run/noted\n')
        program.chmod(0o755)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", folder, POSTINST, former,
         "removed" if was_removed else ""],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "Operation not permitted" in done.stderr or "permission denied" in done.stderr:
        pytest.skip("this container may not mount")
    assert done.returncode == 0, done.stderr
    agent = "rightsizer.service"
    lines = (line.split() for line in done.stdout.splitlines())
    found = [line[1] for line in lines if line[0] == "deb-systemd-invoke" and line[-1] == agent]
    return " ".join(found)


def test_a_first_installation_starts_the_agent(tmp_path: Path) -> None:
    """As Debian's packages do."""
    assert _started(tmp_path) == "start"


def test_an_upgrade_leaves_a_stopped_agent_stopped(tmp_path: Path) -> None:
    """A running one is restarted."""
    assert _started(tmp_path, "1.0") == "try-restart"


def test_what_was_removed_starts_when_it_is_installed_again(tmp_path: Path) -> None:
    """Its former version is known then, too, but nothing of it runs."""
    assert _started(tmp_path, "1.0", was_removed=True) == "start"

"""Upgrades and removals by a real dpkg in a separate root: effects on the configuration.

Maintainer scripts run with DPKG_ROOT, so neither root nor a container is needed.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from built_packages import built, tool
from rightsizer.cli.config import starter

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can unpack a package's files"),
]

EDITED: Final = "sampling: {interval: 2s}\n"
DEFAULTS: Final = "sampling: {interval: 1s}\n"
"""The file of a former version."""


class Root(Struct, frozen=True):
    """A root file system with a dpkg database."""

    folder: Path

    @property
    def configuration(self) -> Path:
        """The agent's configuration."""
        return self.folder / "etc/rightsizer/rightsizer.yaml"

    @property
    def state(self) -> str:
        """The state according to dpkg."""
        command = ["dpkg-query", f"--admindir={self.folder}/var/lib/dpkg", "-W"]
        shown = subprocess.run(
            [*command, "-f", "${db:Status-Status}", "rightsizer"],
            capture_output=True,
            text=True,
            check=False,
        )
        return shown.stdout or "not known"

    def dpkg(self, *arguments: str | Path) -> None:
        """Run dpkg without a terminal: a question would abort it."""
        done = subprocess.run(
            [
                "dpkg",
                f"--root={self.folder}",
                "--force-script-chrootless",
                "--force-depends",
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A former package with every default in its conffile, and the one of this checkout.

    Both omit Python and its libraries, since only dpkg's handling matters.
    """
    tool("dpkg-deb", "dpkg")
    tool("systemd-sysusers", "systemd")
    folder = tmp_path_factory.mktemp("packages")
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "-R", built("deb"), tree], check=True)
    shutil.rmtree(tree / "usr/lib/rightsizer")
    (tree / "usr/lib/rightsizer").mkdir()
    own = _packed(tree, folder / "own.deb", "2.0")
    (tree / "etc/rightsizer").mkdir(parents=True, exist_ok=True)
    (tree / "etc/rightsizer/rightsizer.yaml").write_text(DEFAULTS)
    (tree / "DEBIAN/conffiles").write_text("/etc/rightsizer/rightsizer.yaml\n")
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\n")
    return _packed(tree, folder / "former.deb", "1.0"), own


def _packed(tree: Path, package: Path, version: str) -> Path:
    control = tree / "DEBIAN/control"
    lines = control.read_text().splitlines()
    lines = [f"Version: {version}" if line.startswith("Version:") else line for line in lines]
    control.write_text("\n".join(lines) + "\n")
    build = ["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, package]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    return package


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """An empty root."""
    folder = tmp_path / "root"
    (folder / "var/lib/dpkg/info").mkdir(parents=True)
    (folder / "var/lib/dpkg/updates").mkdir()
    (folder / "var/lib/dpkg/status").touch()
    (folder / "etc").mkdir()
    return Root(folder)


def test_a_first_installation_has_the_starter(root: Root, packages: tuple[Path, Path]) -> None:
    """And a folder for drop-ins."""
    root.dpkg("--install", packages[1])

    assert (root.state, root.configuration.read_text()) == ("installed", starter())
    assert (root.configuration.parent / "conf.d").is_dir()


@pytest.mark.parametrize(
    ("before", "after"), [(EDITED, EDITED), (DEFAULTS, starter())], ids=["edited", "untouched"]
)
def test_an_upgrade_asks_nothing(
    root: Root, packages: tuple[Path, Path], before: str, after: str
) -> None:
    """An edited file stays; one of former defaults, chosen by no operator, does not pin them."""
    former, own = packages
    root.dpkg("--install", former)
    root.configuration.write_text(before)
    root.dpkg("--install", own)
    assert (root.state, root.configuration.read_text()) == ("installed", after)
    root.dpkg("--install", own)
    assert root.configuration.read_text() == after


def test_a_way_back_keeps_what_was_written(root: Root, packages: tuple[Path, Path]) -> None:
    """The former version finds the file if dpkg is told to keep it."""
    former, own = packages
    root.dpkg("--install", own)
    root.configuration.write_text(EDITED)
    root.dpkg("--install", "--force-confold", former)
    assert root.configuration.read_text() == EDITED
    root.dpkg("--install", own)
    assert root.configuration.read_text() == EDITED


def test_removed_and_installed_again_it_is_as_it_was(
    root: Root, packages: tuple[Path, Path]
) -> None:
    """Configuration, drop-ins and history survive, and the unit is unmasked."""
    history = root.folder / "var/lib/rightsizer/history.db"
    drop_in = root.configuration.parent / "conf.d/10-site.yaml"
    root.dpkg("--install", packages[1])
    root.configuration.write_text(EDITED)
    for file in (history, drop_in):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    root.dpkg("--remove", "rightsizer")
    assert root.state == "config-files"
    root.dpkg("--install", packages[1])

    assert (root.state, root.configuration.read_text()) == ("installed", EDITED)
    assert history.exists()
    assert drop_in.exists()
    assert not (root.folder / "etc/systemd/system/rightsizer.service").exists()
    wants = root.folder / "etc/systemd/system/multi-user.target.wants/rightsizer.service"
    assert wants.is_symlink()


@pytest.mark.parametrize("steps", [(), ("--remove",), ("--install", "--remove")])
def test_a_purge_leaves_nothing(
    root: Root, packages: tuple[Path, Path], steps: tuple[str, ...]
) -> None:
    """From every state of dpkg."""
    former, own = packages
    root.dpkg("--install", former)
    root.dpkg("--install", own)
    (root.folder / "var/lib/rightsizer").mkdir(parents=True)
    (root.configuration.parent / "conf.d").mkdir(exist_ok=True)
    (root.configuration.parent / "conf.d/mine.yaml").write_text("{}")
    for step in steps:
        root.dpkg(step, own if step == "--install" else "rightsizer")
    root.dpkg("--purge", "rightsizer")

    assert root.state in {"not known", "not-installed"}
    left = [path for path in root.folder.rglob("*rightsizer*") if "dpkg" not in path.parts]
    assert left == []

"""The Dockerfile, executed: a real build, and the command in the image that comes of it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from built_packages import ROOT, tool
from rightsizer import __version__
from systemd_machine import pristine_root

# The first run makes a root file system and fetches the libraries.
pytestmark = pytest.mark.timeout(600)

CACHE: Final = ROOT / ".cache"
BASE_PACKAGES: Final = ("python3-venv", "python-is-python3", "passwd")
BASE: Final = "localhost/python-base"
IMAGE: Final = "localhost/rightsizer-test"
MAXIMUM_ADDED_BYTES: Final = 32 * 10**6
POLICY: Final = {"default": [{"type": "insecureAcceptAnything"}]}


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs buildah, with a store of its own beside the checkout."""
    if os.geteuid():
        pytest.skip("building an image takes root")
    program = tool("buildah", "buildah")
    folder, policy = CACHE / "images", tmp_path_factory.mktemp("policy") / "policy.json"
    policy.write_text(json.dumps(POLICY))
    options = ["--storage-driver", "vfs", "--root", folder / "root", "--runroot", folder / "run"]

    def run(command: str, *arguments: str | Path) -> str:
        trust = ["--signature-policy", policy] if command in {"bud", "commit", "from"} else []
        done = subprocess.run(
            [program, *options, command, *trust, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture(scope="module")
def wheelhouse() -> Path:
    """All that the build installs, fetched once for each state of the pins."""
    pins = (ROOT / "constraints.txt").read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    folder = CACHE / "wheelhouse" / hashlib.sha256(pins).hexdigest()[:16]
    if not folder.exists():
        fresh = folder.with_name(f"{folder.name}-{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", fresh]
        pinned = ["--only-binary", ":all:", "--constraint", ROOT / "constraints.txt"]
        wanted = [f"{ROOT}[kubernetes,fleet]", "hatchling>=1.27"]
        done = subprocess.run([*pip, *pinned, *wanted], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the libraries cannot be fetched from here: {done.stderr[-300:]}")
        fresh.rename(folder)
    return folder


@pytest.fixture(scope="module")
def base(buildah: Any) -> str:
    """A base image as the Dockerfile expects one, made of a minimal Debian with its Python."""
    if not buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        root = pristine_root("bookworm-python", BASE_PACKAGES)
        container = buildah("from", "scratch")
        buildah("copy", "--quiet", container, root, "/")
        # The fetched libraries stand where the package index would be asked.
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        for value in (path, "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheelhouse"):
            buildah("config", "--env", value, container)
        buildah("commit", "--quiet", "--format", "docker", "--rm", container, BASE)
    return BASE


@pytest.fixture(scope="module")
def container(buildah: Any, base: str, wheelhouse: Path) -> Iterator[str]:
    """A container of the image."""
    buildah(
        *("bud", "--isolation", "chroot", "--format", "docker", "--pull=never", "--quiet"),
        *("--volume", f"{wheelhouse}:/wheelhouse:ro", "--build-arg", f"PYTHON={base}"),
        *("--build-arg", f"VERSION={__version__}", "--tag", IMAGE, ROOT),
    )
    made = buildah("from", "--pull=never", IMAGE)
    yield made
    buildah("rm", made)
    buildah("rmi", IMAGE)


def test_the_image_is_small_and_runs_without_root(buildah: Any, container: str) -> None:
    """The command answers as user 19400; libraries add little, and no installer is left."""

    def run(*command: str) -> str:
        isolated = ("--isolation", "chroot", "--user", "19400:19400", container, "--")
        return str(buildah("run", *isolated, *command))

    assert run("rightsizer", "version").startswith(f"rightsizer {__version__} ")
    script = "import importlib.util as u, os; print(u.find_spec('pip'), os.geteuid())"
    assert run("/opt/rightsizer/bin/python", "-c", script) == "None 19400"
    assert "missing  device files: there is no /dev/nvidiactl" in run("rightsizer", "doctor")

    root = Path(buildah("mount", container))
    try:
        files = [path for path in (root / "opt/rightsizer").rglob("*") if path.is_file()]
        added = sum(path.stat().st_size for path in files if not path.is_symlink())
        print(f"the image adds {added / 1e6:.1f} MB to its base")
        assert added < MAXIMUM_ADDED_BYTES
        assert not [path for path in files if path.name == "direct_url.json"]
        assert (root / "run/rightsizer").stat().st_uid == 19400
    finally:
        buildah("umount", container)


def test_the_image_says_how_it_is_run(buildah: Any, container: str) -> None:
    """User, volumes, health check and version reach the image's own configuration."""
    config = json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
    assert config["User"] == "19400:19400"
    assert set(config["Volumes"]) == {"/var/lib/rightsizer", "/run/rightsizer"}
    assert config["Labels"]["org.opencontainers.image.version"] == __version__
    assert config["Healthcheck"]["Test"][:2] == ["CMD", "python"]
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in config["Env"]

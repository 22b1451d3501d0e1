"""Real builds of the Dockerfile, and their images run as an operator would.

`make image` runs it, since it takes minutes; a minimal Debian replaces the named base.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct
from packaging.utils import canonicalize_name

from built_packages import ROOT, tool
from image_base import CACHE, LISTS, OFFLINE_PIP, python_root, wheelhouse
from rightsizer import __version__

# The first run makes a root file system and fetches the libraries.
pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

IMAGES: Final = (("agent", "amd64"), ("tools", "amd64"), ("agent", "arm64"))
"""Libraries and architecture of those that are built."""
BASE: Final = "localhost/python-base"
IMAGE: Final = "localhost/rightsizer-test"
USER: Final = 19400
IDENTITY: Final = (f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
DOCUMENTED_MB: Final = {"agent": 25, "tools": 110}
"""Maximum size that each image adds to its base; documented in docs/install.md."""
POLICY: Final = {"default": [{"type": "insecureAcceptAnything"}]}


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run buildah, with a store of its own beside the checkout."""
    if os.geteuid():
        pytest.skip("building an image takes root")
    program = tool("buildah", "buildah")
    policy = tmp_path_factory.mktemp("policy") / "policy.json"
    policy.write_text(json.dumps(POLICY))
    driver = _storage_driver(program, policy.parent)
    folder = CACHE / f"images-{driver}"
    options = ["--storage-driver", driver, "--root", folder / "root", "--runroot", folder / "run"]

    def run(command: str, *arguments: str | Path) -> str:
        trust = ["--signature-policy", policy] if command in {"bud", "commit", "from"} else []
        done = subprocess.run(
            [program, *options, command, *trust, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run


def _storage_driver(program: str, folder: Path) -> str:
    """Overlay if the file system supports it, else copies, which are five times as slow."""
    options = [
        "--storage-driver",
        "overlay",
        "--root",
        folder / "root",
        "--runroot",
        folder / "run",
    ]
    done = subprocess.run([program, *options, "info"], capture_output=True, check=False)
    return "vfs" if done.returncode else "overlay"


class Image(Struct, frozen=True):
    """A built image and its file system."""

    libraries: str
    config: dict[str, Any]
    root: Path


@pytest.fixture(scope="module", params=IMAGES, ids=" ".join)
def image(request: pytest.FixtureRequest, buildah: Any) -> Iterator[Image]:
    """Each of the images."""
    libraries, architecture = request.param
    name = f"{IMAGE}-{libraries}-{architecture}"
    base = _base(buildah, architecture)
    buildah(
        "bud",
        "--isolation",
        "chroot",
        "--format",
        "docker",
        "--pull=never",
        "--quiet",
        "--arch",
        architecture,
        "--volume",
        f"{wheelhouse(architecture)}:/wheelhouse:ro",
        "--build-arg",
        f"PYTHON={base}",
        "--build-arg",
        f"LIBRARIES={libraries}",
        "--build-arg",
        f"VERSION={__version__}",
        "--tag",
        name,
        ROOT,
    )
    made = buildah("from", "--pull=never", name)
    docker = json.loads(buildah("inspect", "--type", "image", name))["Docker"]
    assert docker["architecture"] == architecture
    yield Image(libraries, docker["config"], Path(buildah("mount", made)))
    buildah("umount", made)
    buildah("rm", made)
    buildah("rmi", name)


def _base(buildah: Any, architecture: str) -> str:
    """A base image for the Dockerfile, made of a minimal Debian with its Python."""
    name = f"{BASE}-{architecture}"
    if not buildah("images", "--quiet", "--filter", f"reference={name}"):
        container = buildah("from", "--arch", architecture, "scratch")
        buildah("copy", "--quiet", container, python_root(architecture), "/")
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        variables = (part for each in (path, *OFFLINE_PIP) for part in ("--env", each))
        buildah("config", "--arch", architecture, *variables, container)
        buildah("commit", "--quiet", "--format", "docker", "--rm", container, name)
    return name


@contextmanager
def confined(image: Image, folder: Path, *command: str) -> Iterator[int]:
    """A command of the image, started like the documented `docker run`; its outer process.

    Only volumes are writable; no capability, no network, no new privileges.
    """
    mounts = ["--ro-bind", image.root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for number, volume in enumerate(sorted(image.config["Volumes"])):
        (own := folder / str(number)).mkdir()
        os.chown(own, USER, USER)
        mounts += ["--bind", own, volume]
    variables = [each.partition("=")[::2] for each in image.config["Env"]]
    process = subprocess.Popen(
        [
            tool("bwrap", "bubblewrap"),
            "--die-with-parent",
            "--clearenv",
            *mounts,
            "--unshare-net",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            *(part for name, value in variables for part in ("--setenv", name, value)),
            "--chdir",
            image.config["WorkingDir"],
            "setpriv",
            "--no-new-privs",
            *IDENTITY,
            "--inh-caps=-all",
            "--bounding-set=-all",
            *command,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield _started(process)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _started(process: "subprocess.Popen[bytes]") -> int:
    """The command's own process, below those that hold its namespaces."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        found = process.pid
        while children := Path(f"/proc/{found}/task/{found}/children").read_text().split():
            found = int(children[0])
            # QEMU's own name comes first where it runs the program.
            command = Path(f"/proc/{found}/cmdline").read_bytes().split(b"\0")[:2]
            if any(part.rpartition(b"/")[2].startswith(b"python") for part in command):
                return found
        time.sleep(0.1)
    said = process.communicate()[0].decode() if process.poll() is not None else ""
    raise AssertionError(f"the command did not start: {said}")


def inside(process: int, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command beside a confined one, as its user."""
    identity = ("setpriv", *IDENTITY, "--bounding-set=-all", "--inh-caps=-all")
    return subprocess.run(
        ["nsenter", "--target", str(process), "--all", *identity, *command],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/opt/rightsizer/bin:/usr/local/bin:/usr/bin:/bin"},
        timeout=60,
    )


def test_an_image_is_as_small_as_documented(image: Image) -> None:
    """With compiled libraries, without an installer or trace of the build folder."""
    files = [path for path in (image.root / "opt/rightsizer").rglob("*") if path.is_file()]
    added = sum(path.stat().st_size for path in files if not path.is_symlink())
    print(f"the image {image.libraries} adds {added / 1e6:.1f} MB to its base")
    assert added < DOCUMENTED_MB[image.libraries] * 1e6
    assert f"{DOCUMENTED_MB[image.libraries]} MB" in (ROOT / "docs/install.md").read_text()
    assert not [path for path in files if path.name in {"direct_url.json", "pip", "hatchling"}]


def test_an_image_contains_what_its_list_says(image: Image) -> None:
    """Every library at its version, and nothing else but the program."""
    lines = (LISTS / f"{image.libraries}.txt").read_text().splitlines()
    pinned = dict(line.removesuffix(" \\").split("==") for line in lines if "==" in line)
    folders = (image.root / "opt/rightsizer").glob("lib/python*/site-packages/*.dist-info")
    found = dict(path.name.removesuffix(".dist-info").split("-") for path in folders)
    assert found.pop("gpu_rightsizer") == __version__
    assert {canonicalize_name(name): version for name, version in found.items()} == pinned


def test_an_image_runs_read_only_without_capabilities_and_network(
    image: Image, tmp_path: Path
) -> None:
    """The agent is healthy by the image's own check, without our files and a driver."""
    start = (*image.config["Entrypoint"], *image.config["Cmd"])
    with confined(image, tmp_path, *start) as agent:
        check = image.config["Healthcheck"]["Test"][1:]
        deadline = time.monotonic() + 120
        while (done := inside(agent, *check)).returncode and time.monotonic() < deadline:
            time.sleep(0.2)
        assert done.returncode == 0, done.stderr

        status = Path(f"/proc/{agent}/status").read_text()
        for name, value in (("Uid", "19400"), ("CapEff", "0" * 16), ("CapBnd", "0" * 16)):
            assert re.search(rf"^{name}:\t{value}\b", status, re.MULTILINE), name
        assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
        interfaces = Path(f"/proc/{agent}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
        refused = inside(agent, "touch", "/opt/rightsizer/x", "/etc/x").stderr
        assert refused.count("Read-only file system") == 2
        doctor = inside(agent, "rightsizer", "doctor").stdout
        assert "missing  device files: there is no /dev/nvidiactl" in doctor


def test_an_image_has_the_commands_that_it_is_for(image: Image, tmp_path: Path) -> None:
    """Simulated GPUs are accounted for; `fleet` runs in one image, the other has the remedy."""
    with confined(
        image, tmp_path, "rightsizer", "demo", "--web.listen-address=127.0.0.1:0"
    ) as demo:
        assert inside(demo, "rightsizer", "version").stdout.startswith(f"rightsizer {__version__} ")
        fleet = inside(demo, "rightsizer", "fleet", "--dry-run", "--store.url=http://127.0.0.1:1")
        top = inside(demo, "rightsizer", "top", "--help")
    assert top.returncode == 0, top.stderr
    assert ("numpy" in fleet.stderr) == (image.libraries == "agent")


def test_an_image_says_how_it_is_run(image: Image) -> None:
    """User, volumes, health check and version are in the image's configuration."""
    assert image.config["User"] == "19400:19400"
    assert set(image.config["Volumes"]) == {"/var/lib/rightsizer", "/run/rightsizer"}
    assert image.config["Labels"]["org.opencontainers.image.version"] == __version__
    assert image.config["Healthcheck"]["Test"][:2] == ["CMD", "python"]
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in image.config["Env"]

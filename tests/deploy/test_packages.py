"""The packages: their contents, and installation and removal in a clean root."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from built_packages import COMMIT_SECONDS, OFFLINE, ROOT, built, other_version, run_build, tool
from rightsizer import __version__
from systemd_machine import Machine, layered, pristine_root

# The first run makes a root file system and fetches the libraries.
pytestmark = pytest.mark.timeout(600)

FLEET_UNITS: Final = {path.name for path in (ROOT / "systemd").glob("rightsizer-fleet*.*")}
UNITS: Final = {
    path.name
    for path in (ROOT / "systemd").iterdir()
    if path.suffix in {".service", ".socket", ".timer"}
} - FLEET_UNITS
FLEET: Final = "rightsizer-fleet"
MOST_BYTES: Final = 60_000_000
"""Of the agent's package, as installed and compiled."""
LIBRARIES: Final = "/usr/lib/rightsizer/libraries/"
PACKAGES: Final = ROOT / "config" / "packages"
RPMLINT: Final = PACKAGES / "rpm" / "rightsizer.rpmlintrc"
RPM_ALONE: Final = {
    "/etc/rightsizer/rightsizer.yaml",
    "/usr/share/licenses/rightsizer/LICENSE",
    "/usr/share/zsh/site-functions/_rightsizer",
}
DEB_ALONE: Final = {
    "/usr/share/doc/rightsizer/changelog.gz",
    "/usr/share/doc/rightsizer/copyright",
    "/usr/share/lintian/overrides/rightsizer",
    "/usr/share/zsh/vendor-completions/_rightsizer",
}


@pytest.fixture(scope="module")
def deb() -> Path:
    """The .deb of this checkout."""
    return built("deb")


@pytest.fixture(scope="module")
def tree(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked .deb."""
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run(["dpkg-deb", "-R", deb, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def fleet_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked .deb of the fleet."""
    folder = tmp_path_factory.mktemp("fleet")
    subprocess.run(["dpkg-deb", "-R", built("deb", FLEET), folder], check=True)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A clean root."""
    with layered(pristine_root(), tmp_path / "clean") as own:
        yield own


def files_of(tree: Path) -> set[str]:
    """All files of a tree except the package's metadata, by their final path."""
    found = (path for path in tree.rglob("*") if path.is_file())
    names = {f"/{path.relative_to(tree)}" for path in found}
    return {name for name in names if not name.startswith("/DEBIAN/")}


def test_it_brings_all_that_a_node_needs(tree: Path) -> None:
    """Command, libraries, units, user, configuration, drop-ins, rules, dashboards, manual."""
    files = files_of(tree)
    assert {f"/usr/lib/systemd/system/{name}" for name in UNITS} <= files
    drop_ins = {path.name for path in (ROOT / "systemd/rightsizer.service.d").iterdir()}
    assert {f"/usr/share/rightsizer/drop-ins/{name}" for name in drop_ins} <= files
    assert {
        "/usr/bin/rightsizer",
        "/usr/lib/sysusers.d/rightsizer.conf",
        "/usr/share/rightsizer/rightsizer.yaml",
        "/usr/share/man/man8/rightsizer.8.gz",
        "/usr/share/bash-completion/completions/rightsizer",
        "/usr/share/rightsizer/prometheus/rules.yaml",
        "/usr/share/rightsizer/slurm/epilog.sh",
        "/usr/share/rightsizer/slurm/prolog.sh",
        f"{LIBRARIES}h2/__init__.py",
    } <= files
    # Files that an upgrade would ask about.
    assert not (tree / "DEBIAN/conffiles").exists()
    assert not [name for name in files if name.startswith("/etc/")]


def test_it_brings_nothing_else(tree: Path) -> None:
    """No compiled files, no library scripts, no trace of the build machine."""
    files = files_of(tree)
    assert not [name for name in files if name.endswith(".pyc")]
    assert [name for name in files if "/bin/" in name] == ["/usr/bin/rightsizer"]
    texts = (tree / "usr/lib/rightsizer").rglob("*.dist-info/*")
    assert not [path for path in texts if path.is_file() and str(ROOT) in path.read_text("latin-1")]


def test_fleet_package_brings_what_the_agent_lacks(tree: Path, fleet_tree: Path) -> None:
    """Libraries and units of the fleet are in it alone, and it depends on the very version."""
    agent = files_of(tree)
    fleet = files_of(fleet_tree)
    assert not agent & fleet
    assert {f"/usr/lib/systemd/system/{name}" for name in FLEET_UNITS} <= fleet
    top = {name.removeprefix(LIBRARIES).partition("/")[0] for name in fleet if LIBRARIES in name}
    assert {name for name in top if ".dist-info" not in name} == {"numpy", "numpy.libs", "orjson"}
    depends = control_of(fleet_tree)["Depends"]
    assert f"rightsizer (= {control_of(tree)['Version']})" in depends


def control_of(tree: Path) -> dict[str, str]:
    """The fields of an unpacked package."""
    lines = (tree / "DEBIAN/control").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line and line[0] != " ")


def test_packages_depend_on_the_python_that_they_were_built_for(
    tree: Path, fleet_tree: Path
) -> None:
    """Compiled libraries are for it, and the command starts no other."""
    python = "{}.{}".format(*sys.version_info)
    tag = "cpython-{}{}".format(*sys.version_info)
    for each in (tree, fleet_tree):
        assert f"python{python}" in control_of(each)["Depends"].split(", ")
        compiled = [path.name for path in each.rglob("*.so") if "cpython" in path.name]
        assert compiled
        assert all(tag in name for name in compiled)
    assert re.findall(r"python[\d.]+", (tree / "usr/bin/rightsizer").read_text())[0] == (
        f"python{python}"
    )


def test_every_library_is_of_the_tested_version(tree: Path) -> None:
    """`constraints.txt` pins the installed versions."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    pinned = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}
    infos = (tree / LIBRARIES.strip("/")).glob("*.dist-info")
    found = dict(path.name.removesuffix(".dist-info").split("-") for path in infos)
    assert found.pop("gpu_rightsizer") == __version__
    for name, version in found.items():
        assert pinned[re.sub(r"[-_.]+", "-", name).lower()] == version


def test_scripts_are_sound(tree: Path, fleet_tree: Path) -> None:
    """A shell parses the maintainer scripts and the command without warnings."""
    names = ("postinst", "prerm", "postrm")
    scripts = [each / "DEBIAN" / name for each in (tree, fleet_tree) for name in names]
    for script in (*scripts, tree / "usr/bin/rightsizer"):
        assert os.access(script, os.X_OK)
        assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def test_install_upgrade_remove_and_purge(root: Path, deb: Path, tmp_path: Path) -> None:
    """An edited configuration and the history stay until they are purged."""
    newer = other_version(deb, "99.0", tmp_path)
    for package in (deb, newer):
        shutil.copy(package, root / "root" / package.name)

    def dpkg(*arguments: str) -> None:
        Machine.inside(root, "dpkg", *arguments)

    dpkg("--install", f"/root/{deb.name}")
    assert Machine.inside(root, "rightsizer", "version").startswith(f"rightsizer {__version__} ")
    assert "rightsizer:x:" in (root / "etc/passwd").read_text()
    compiled = root / LIBRARIES.strip("/") / "rightsizer" / "__pycache__"
    assert compiled.is_dir()
    installed = (path for path in (root / "usr/lib/rightsizer").rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in installed) < MOST_BYTES
    assert (root / "etc/systemd/system/multi-user.target.wants/rightsizer.service").is_symlink()

    configuration = root / "etc/rightsizer/rightsizer.yaml"
    configuration.write_text("sampling: {interval: 2s}\n")
    Machine.inside(root, "rightsizer", "check-config")
    history = root / "var/lib/rightsizer/history.db"
    history.parent.mkdir()
    history.write_bytes(b"kept")
    dpkg("--install", f"/root/{newer.name}")
    assert configuration.read_text() == "sampling: {interval: 2s}\n"
    dpkg("--remove", "rightsizer")
    assert not (root / "usr/lib/rightsizer").exists()
    assert configuration.exists()
    assert history.read_bytes() == b"kept"
    dpkg("--install", f"/root/{deb.name}")
    assert history.read_bytes() == b"kept"
    dpkg("--purge", "rightsizer")
    assert not history.parent.exists()
    assert not configuration.parent.exists()
    left = Machine.inside(root, "find", "/etc/systemd", "/var/lib/systemd", "-name", "rightsizer*")
    assert left == ""


def test_fleet_is_installed_and_removed_beside_the_agent(root: Path, deb: Path) -> None:
    """Without its package the command names it; with it, it asks its store; the agent stays."""
    fleet = built("deb", FLEET)
    for package in (deb, fleet):
        shutil.copy(package, root / "root" / package.name)
    look = ("rightsizer", "fleet", "--dry-run", "--store.url", "http://127.0.0.1:1")
    Machine.inside(root, "dpkg", "--install", f"/root/{deb.name}")
    assert "install the package rightsizer-fleet" in refused(root, *look)
    Machine.inside(root, "dpkg", "--install", f"/root/{fleet.name}")
    assert "cannot be reached" in refused(root, *look)
    Machine.inside(root, "dpkg", "--remove", FLEET)
    assert "install the package rightsizer-fleet" in refused(root, *look)
    assert not list((root / LIBRARIES.strip("/")).glob("numpy*"))
    assert Machine.inside(root, "rightsizer", "version").startswith(f"rightsizer {__version__} ")


def refused(root: Path, *command: str) -> str:
    """The error of a command that fails in a root."""
    done = subprocess.run(
        ["chroot", str(root), *command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


@pytest.mark.soak
def test_packages_for_another_python_install_where_that_is(tmp_path: Path) -> None:
    """Debian 13 has Python 3.13: built here for it, agent and fleet run there."""
    debs = [built("deb", name, "3.13") for name in ("rightsizer", FLEET)]
    with layered(pristine_root("trixie", suite="trixie"), tmp_path / "clean") as root:
        for package in debs:
            shutil.copy(package, root / "root" / package.name)
            Machine.inside(root, "dpkg", "--install", f"/root/{package.name}")
        assert "(Python 3.13" in Machine.inside(root, "rightsizer", "version")
        look = ("rightsizer", "fleet", "--dry-run", "--store.url", "http://127.0.0.1:1")
        assert "cannot be reached" in refused(root, *look)


def test_the_environment_of_others_is_kept_out(root: Path, deb: Path) -> None:
    """Neither PYTHONPATH nor other installed Python packages reach the command."""
    shutil.copy(deb, root / "root" / "package.deb")
    Machine.inside(root, "dpkg", "--install", "/root/package.deb")
    for folder in (root / "usr/local/lib/python3.11/dist-packages", root / "root/mine"):
        (folder / "yaml").mkdir(parents=True)
        (folder / "yaml/__init__.py").write_text("raise SystemExit('not ours')\n")
    said = Machine.inside(root, "env", "PYTHONPATH=/root/mine", "rightsizer", "check-config")
    assert said.endswith("ok\n")


def test_the_rpm_holds_the_same_files(tree: Path, fleet_tree: Path) -> None:
    """Both are made from one tree; the configuration is marked as such."""
    python = "python(abi) = {}.{}".format(*sys.version_info)

    def listed(*options: str, name: str = "rightsizer") -> set[str]:
        package = str(built("rpm", name))
        command = [tool("rpm", "rpm"), "--query", "--package", *options, package]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines())

    brought = listed("--list")
    assert brought >= RPM_ALONE
    inside = {name for name in brought if (tree / name.strip("/")).is_file()}
    assert inside == files_of(tree) - DEB_ALONE
    assert listed("--configfiles") == {"/etc/rightsizer/rightsizer.yaml"}
    assert python in listed("--requires")
    inside = {
        name for name in listed("--list", name=FLEET) if (fleet_tree / name.strip("/")).is_file()
    }
    assert inside == {name for name in files_of(fleet_tree) if not name.startswith("/usr/share/")}
    assert {python, f"rightsizer = {rpm_version()}"} <= listed("--requires", name=FLEET)
    owners = {line.split()[0] for line in listed("--queryformat", "[%{FILEUSERNAME}\\n]")}
    assert owners == {"root"}


def rpm_version() -> str:
    """Version and release of the .rpm."""
    return "-".join(built("rpm").name.split("-")[1:3]).removesuffix(f".{platform.machine()}.rpm")


@pytest.mark.parametrize("kind", ["deb", "rpm"])
@pytest.mark.parametrize("name", ["rightsizer", FLEET])
def test_the_distribution_finds_no_fault(kind: str, name: str) -> None:
    """Its package checks find no error that is not overridden with a reason."""
    package = built(kind, name)
    command = {
        "deb": [tool("lintian", "lintian"), "--fail-on", "error", "--tag-display-limit", "0"],
        "rpm": [tool("rpmlint", "rpmlint"), "--rpmlintrc", str(RPMLINT)],
    }[kind]
    done = subprocess.run([*command, str(package)], capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if re.search(r"(^|: )E: ", line)]
    assert errors == []
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manual_is_what_the_command_says(golden: Callable[[str | Path, str], None]) -> None:
    """Every command with its summary."""
    command = [sys.executable, str(PACKAGES / "manual.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    golden(PACKAGES / "rightsizer.8", done.stdout)


def test_the_rpm_installs_and_goes(root: Path) -> None:
    """Its scripts create the user and compile; removal keeps the history."""
    rpm = [tool("rpm", "rpm"), "--root", str(root), "--dbpath", "/var/lib/rpm", "--nodeps"]

    def run(*arguments: str) -> None:
        done = subprocess.run([*rpm, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    run("--install", str(built("rpm")))
    assert Machine.inside(root, "rightsizer", "version").startswith(f"rightsizer {__version__} ")
    assert "rightsizer:x:" in (root / "etc/passwd").read_text()
    history = root / "var/lib/rightsizer/history.db"
    history.parent.mkdir()
    history.write_bytes(b"kept")
    run("--erase", "rightsizer")
    assert not (root / "usr/lib/rightsizer").exists()
    assert history.exists()


def test_files_have_the_time_of_the_commit(tree: Path) -> None:
    """None has that of the build, so that one commit gives one package."""
    times = {path.lstat().st_mtime for path in tree.rglob("*") if path.is_file()}
    assert times == {float(COMMIT_SECONDS)}


@pytest.mark.soak
def test_one_commit_gives_one_package(deb: Path, tmp_path: Path) -> None:
    """A rebuild, from the same wheel or another, is identical byte for byte."""
    assert run_build("deb", tmp_path).returncode == 0
    assert (tmp_path / deb.name).read_bytes() == deb.read_bytes()


def test_package_of_an_unknown_architecture_is_rejected(tmp_path: Path) -> None:
    """Before anything is fetched for it."""
    assert run_build("deb", tmp_path, "riscv64").returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_packages_of_another_architecture(kind: str, tmp_path: Path) -> None:
    """Every compiled library is of it, and there are as many as in the package of this one."""
    other, machine = ("amd64", 62) if platform.machine() == "aarch64" else ("arm64", 183)
    extract = {"deb": ["dpkg-deb", "-x"], "rpm": ["rpm2archive", "-n"]}[kind]
    tool(extract[0], {"deb": "dpkg", "rpm": "rpm"}[kind])
    own = built(kind, FLEET)
    done = run_build(kind, tmp_path, other)
    if done.returncode and any(sign in done.stdout + done.stderr for sign in OFFLINE):
        pytest.skip("the libraries for the package cannot be fetched from here")
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = tmp_path.glob(f"{FLEET}*.{kind}")
    assert {"arm64": ("arm64", "aarch64"), "amd64": ("amd64", "x86_64")}[other][kind == "rpm"] in (
        package.name
    )
    libraries = []
    for each in (package, own):
        tree = tmp_path / each.stem
        tree.mkdir()
        if kind == "deb":
            subprocess.run([*extract, each, tree], check=True)
        else:
            content = each.read_bytes()
            packed = subprocess.run(
                [*extract, "-"], input=content, stdout=subprocess.PIPE, check=True
            )
            subprocess.run(["tar", "-x", "-C", tree], input=packed.stdout, check=True)
        libraries.append([*tree.rglob("*.so"), *tree.rglob("*.so.[0-9]*")])
    foreign, native = libraries
    # The machine in an ELF header.
    assert {path.read_bytes()[18] for path in foreign} == {machine}
    assert machine not in {path.read_bytes()[18] for path in native}
    modules = [{path.name.partition(".")[0] for path in library} for library in libraries]
    assert len(modules[0] & modules[1]) > 20


@pytest.mark.soak
def test_wheel_and_source_archive_install_and_run(tmp_path: Path) -> None:
    """The output of `make dist` works in an empty environment."""
    command = [sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution" in done.stdout + done.stderr:
        pytest.skip("hatchling cannot be fetched from here")
    assert done.returncode == 0, done.stdout + done.stderr
    archive, wheel = sorted((tmp_path / "dist").iterdir(), key=lambda path: path.suffix)
    assert archive.name == f"gpu_rightsizer-{__version__}.tar.gz"
    with tarfile.open(archive) as packed:
        names = {Path(name).parts[1] for name in packed.getnames() if "/" in name}
    assert names >= {"CONTRIBUTING.md", "Dockerfile", "SECURITY.md", "mkdocs.yml", ".github"}
    clean = [sys.executable, "-m", "venv", "--without-pip", tmp_path / "clean"]
    subprocess.run(clean, check=True)
    pip = [sys.executable, "-m", "pip", "--python", tmp_path / "clean/bin/python", "install"]
    options = ["--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, *options, wheel], check=True, capture_output=True)
    run = [tmp_path / "clean/bin/rightsizer", "version"]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"rightsizer {__version__} ")

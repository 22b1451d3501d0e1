"""A pod with access to the host's control groups, whose paths are relative to its own."""

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.host.cgroups import ControlGroupHierarchies, namespace_root, seen_from

AGENT: Final = "kubepods.slice/kubepods-burstable.slice/kubepods-podA.slice/cri-a.scope"
BESIDE: Final = "kubepods.slice/kubepods-burstable.slice/kubepods-podB.slice/cri-b.scope"
ELSEWHERE: Final = "system.slice/slurmstepd.scope/job_7"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """The host's control groups of version 2."""
    for path in (AGENT, BESIDE, ELSEWHERE):
        (tmp_path / "cgroup" / path).mkdir(parents=True)
    return tmp_path / "cgroup"


def quota_folder(hierarchies: ControlGroupHierarchies, line: str) -> str | None:
    """Folder of a process's quota, for a given content of its `cgroup`."""
    group = hierarchies.membership(line).cpu_quota
    return None if group is None else group.path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0::/../../kubepods-podB.slice/cri-b.scope", BESIDE),
        ("0::/../../../../system.slice/slurmstepd.scope/job_7", ELSEWHERE),
        ("0::/", AGENT),
        ("0::/inside", f"{AGENT}/inside"),
    ],
)
def test_paths_are_reported_from_the_agents_own_group(top: Path, line: str, expected: str) -> None:
    """The kernel does so for a container with a namespace of its own."""
    assert (
        quota_folder(ControlGroupHierarchies(str(top), own_mount=str(top / AGENT)), line)
        == expected
    )


def test_on_the_host_paths_are_what_they_are(top: Path) -> None:
    """Paths outside a namespace with unknown root do not resolve."""
    for own in (str(top), "/proc/self", "/nowhere"):
        hierarchies = ControlGroupHierarchies(str(top), own_mount=own)
        assert quota_folder(hierarchies, f"0::/{BESIDE}") == BESIDE
        assert quota_folder(hierarchies, "0::/../../x") is None


def test_a_group_that_ends_while_it_is_looked_for_hides_no_other(top: Path) -> None:
    """Neither does an unreadable one."""
    (top / "gone").symlink_to(top / "nowhere")
    (top / "closed").mkdir(mode=0)
    try:
        assert namespace_root(str(top), str(top / AGENT)) == AGENT
    finally:
        (top / "closed").chmod(0o700)


steps = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4)


@given(steps, steps)
def test_relative_path_is_resolved_from_its_folder(own: list[str], other: list[str]) -> None:
    """This holds for any common prefix."""
    relative = os.path.relpath("/".join(other), "/".join(own))
    assert seen_from("/".join(own), f"/{relative}") == "/".join(other)

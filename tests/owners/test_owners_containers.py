"""Containers without Kubernetes: by ID, or by name where the engine may be queried."""

import threading
from pathlib import Path
from typing import Any

import pytest

from container_engine import ContainerEngine
from owner_trees import of_root, write_process
from rightsizer.owners.containers import EngineError, container_names, name_of
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.owners.settings import OwnerSettings

ID = "ab12" * 16
OTHER = "cd34" * 16


@pytest.fixture
def engine(tmp_path: Path) -> ContainerEngine:
    """A stopped engine with one container."""
    found = ContainerEngine(tmp_path / "docker.sock")
    found.containers = [{"Id": ID, "Names": ["/trainer"], "Labels": {}}]
    return found


def names(engine: ContainerEngine, maximum_bytes: int = 2**20) -> dict[str, str]:
    """Names from the engine."""
    found = container_names(engine.path, timeout_seconds=5, maximum_bytes=maximum_bytes)
    return {id_: name.text for id_, name in found.items()}


def test_names_of_containers(engine: ContainerEngine) -> None:
    """Docker's interface is queried by its path without a version."""
    with engine.running():
        assert names(engine) == {ID: "trainer"}
    assert engine.paths == ["/containers/json"]


@pytest.mark.parametrize(
    ("container", "name"),
    [
        ({"Names": ["/trainer"]}, "trainer"),
        (
            {
                "Names": ["/shop-llm-2"],
                "Labels": {
                    "com.docker.compose.project": "shop",
                    "com.docker.compose.service": "llm",
                },
            },
            "shop/llm",
        ),
        (
            {
                "Names": ["/llm.2.x7"],
                "Labels": {"com.docker.swarm.service.name": "shop_llm"},
            },
            "shop_llm",
        ),
        ({"Names": [], "Labels": None}, ""),
        ({"Names": ["/bad\nname"], "Labels": {"com.docker.swarm.service.name": 7}}, ""),
        ({"Names": "x" * 300}, ""),
        ({}, ""),
    ],
)
def test_service_goes_before_name(container: dict[str, Any], name: str) -> None:
    """A service's next container has the service's name; an invalid name is ignored."""
    assert name_of(container).text == name


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (403, b"no", "HTTP status 403"),
        (200, b"<html>", "no list of containers"),
        (200, b'{"message": 1}', "no list of containers"),
        (200, b"[" * 100_000, "no list of containers"),
        (200, b"[" + b" " * 2**20 + b"]", "more than 1048576 bytes"),
        (200, b"[" + b"{}," * 300_000 + b"{}]", "more than 500000 values"),
    ],
)
def test_hostile_answers(engine: ContainerEngine, status: int, body: bytes, said: str) -> None:
    """For any response, the result is names or one kind of error."""
    engine.status = status
    engine.containers = body
    with engine.running(), pytest.raises(EngineError, match=said):
        names(engine)


def test_entries_that_are_none_are_passed_over(engine: ContainerEngine) -> None:
    """One bad entry does not affect the others."""
    engine.containers = [7, {"Id": "short", "Names": ["/x"]}, {"Id": OTHER}, *engine.containers]
    with engine.running():
        assert names(engine) == {ID: "trainer"}


def test_an_engine_that_is_away(engine: ContainerEngine) -> None:
    """The message names the socket."""
    with pytest.raises(EngineError, match=r"docker\.sock cannot be reached: No such file"):
        names(engine)


def on_node(root: Path, socket: str, now: list[float]) -> OwnerResolver:
    """A node with one process in each of two containers."""
    write_process(root / "proc", 11, cgroup=f"0::/system.slice/docker-{ID}.scope\n")
    write_process(root / "proc", 12, cgroup=f"0::/user.slice/libpod-{OTHER}.scope/container\n")
    settings = OwnerSettings(container_socket=socket, kubelet_socket="", first_wait_seconds=5)
    return OwnerResolver.on_host(
        root / "proc",
        sysfs=root / "sys",
        settings=settings,
        now=lambda: now[0],
        writer_of=of_root,
    )


def test_nobody_is_asked_unless_told_to(tmp_path: Path) -> None:
    """dcgm-exporter#238: the control group suffices to distinguish containers."""
    owners = on_node(tmp_path, "", [0.0])
    keys = [found.key for pid in (11, 12) if (found := owners.workload_of(pid))]
    assert keys == ["container:ab12ab12ab12", "container:cd34cd34cd34"]
    assert owners.collectors() == {}


def test_names_where_the_engine_may_be_asked(tmp_path: Path, engine: ContainerEngine) -> None:
    """A container that the engine does not list keeps its short ID."""
    with engine.running():
        owners = on_node(tmp_path, str(engine.path), [0.0])
        found = [owners.workload_of(pid) for pid in (11, 12)]
        assert [each.key for each in found if each] == [
            "container:trainer",
            "container:cd34cd34cd34",
        ]
        assert [each.container for each in found if each] == ["ab12ab12ab12", "cd34cd34cd34"]
        assert owners.collectors()["container_engine"].success
    owners.close()


def test_a_new_container_is_named_soon(tmp_path: Path, engine: ContainerEngine) -> None:
    """After a minimum interval the engine is queried again, and the container is renamed."""
    now = [0.0]
    wait = threading.Event()
    with engine.running():
        owners = on_node(tmp_path, str(engine.path), now)
        owners.workload_of(12)
        engine.containers = [{"Id": OTHER, "Names": ["/new"]}]
        now[0] = 5.0
        write_process(tmp_path / "proc", 12, cgroup=f"0::/docker/{OTHER}\n", start=2)
        for _ in range(500):
            found = owners.workload_of(12)
            if found is not None and found.key == "container:new":
                break
            wait.wait(0.01)
            now[0] += 0.01
        else:
            pytest.fail("the container was never named")
    assert now[0] < 30
    owners.close()

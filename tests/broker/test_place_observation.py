"""Placement without an agent: the real stack over a simulated node."""

from pathlib import Path
from typing import Any

import pytest

from api_schema import faults, json_schema_of
from nvml_driver import FakeDriver, installed
from placed_node import placed_node, scenario_file
from rightsizer.agent.settings import Settings
from rightsizer.broker.lease import GpuRequest
from rightsizer.cli.place import placement_of_node
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import RightsizerError
from simulated_driver import hour


def labels(document: Any) -> list[str]:
    """The labels of the chosen GPUs."""
    return [slot["label"] for slot in document["seats"]]


def test_unavailable_gpus_are_excluded_with_reasons(tmp_path: Path) -> None:
    """The rest is free, and the best of it is chosen."""
    document = placed_node(scenario_file(tmp_path), gpus="2")
    assert labels(document) == ["GPU 1", "GPU 2"]
    assert document["numa_nodes"] == [0]
    assert document["cpus"] == "0-55"
    obstacles = {each["label"]: each["obstacle"] for each in document["occupied"]}
    assert obstacles == {
        "GPU 0": "held",
        "GPU 5": "held_idle",
        "GPU 6": "down",
        "GPU 7": "divided",
        "MIG 7:1 (3g.40gb)": "profile",
        "MIG 7:2 (1g.10gb)": "profile",
        "MIG 7:3 (1g.10gb)": "profile",
    }
    assert document["source"] == "look"
    assert document["watched_seconds"] == 2.0


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ({}, ["GPU 4"]),
        ({"gpus": "3"}, ["GPU 1", "GPU 2", "GPU 3"]),
        ({"gpus": "4", "interconnect": "nvlink"}, ["GPU 1", "GPU 2", "GPU 3", "GPU 4"]),
        ({"gpus": "5"}, []),
        ({"mig": "1g.10gb"}, ["MIG 7:3 (1g.10gb)"]),
        ({"mig": "2g.20gb"}, []),
        ({"memory": "100GiB"}, []),
    ],
)
def test_requests_are_met_or_refused_as_the_interface_says(
    tmp_path: Path, words: dict[str, str], chosen: list[str]
) -> None:
    """In the form of the agent's own response."""
    document = placed_node(scenario_file(tmp_path), **words)
    assert labels(document) == chosen
    assert document["is_met"] == bool(chosen)
    assert list(faults(document, json_schema_of("GET", "/api/v1/place"))) == []


def test_a_node_without_a_driver_is_an_error_with_its_remedy() -> None:
    """After the time that opening the driver may take."""
    driver = FakeDriver()
    driver.is_loaded = False
    with installed(driver), pytest.raises(RightsizerError, match="modprobe nvidia"):
        placement_of_node(Settings(), GpuRequest(), FastClock(hour(12)))

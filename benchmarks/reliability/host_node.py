"""Preparation of a node whose agent reads a folder that stands for procfs."""

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.reliability.node import Node

_PROGRAM: Final = Path(__file__).parent / "host_agent.py"


def beside_library(node: Node) -> None:
    """Start the agent by a program that holds the driver's library, on a host without processes."""
    node.command = (sys.executable, str(_PROGRAM), "agent")
    node.environment["RELIABILITY_FOLDER"] = str(node.folder)
    settings: dict[str, Any] = yaml.safe_load(node.config.read_text("utf-8"))
    settings["sources"]["simulated"]["scenario"] = ""
    settings["path"] |= {"procfs": "proc", "sysfs": "/sys"}
    node.config.write_text(yaml.safe_dump(settings), "utf-8")
    (node.folder / "proc").mkdir()


def on_host(node: Node) -> None:
    """The same, on this machine's own processes."""
    beside_library(node)
    for entry in Path("/proc").iterdir():
        (node.folder / "proc" / entry.name).symlink_to(entry)

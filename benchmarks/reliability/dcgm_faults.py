"""Pages of dcgm-exporter that are too large, foreign, or nonsense."""

import gzip
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.reliability.fault import Fault, Group
from benchmarks.reliability.listener import Talk, drip, status
from benchmarks.reliability.node import Node
from benchmarks.reliability.server_faults import beside, speaking
from rightsizer.catalogue.catalogue import built_in
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario

_SECONDS: Final = 14.0
_FOREIGN: Final = "GPU-00000000-0000-0000-0000-{number:012d}"


def dcgm_faults() -> Iterator[Fault]:
    """Each page from the agent's start to its end."""
    for name, page in _PAGES.items():
        yield _fault(name, lambda node, page=page: _page_of(page, node))
    for name, talk in _TALKS.items():
        yield _fault(name, lambda _, talk=talk: talk)


def _fault(name: str, talk_on: Callable[[Node], Talk]) -> Fault:
    return Fault(
        Group.DCGM,
        f"dcgm-exporter {name}",
        config=speaking()["dcgm-exporter"],
        prepare=lambda node: beside(talk_on(node))(node),
        is_at_start=True,
        lasts=True,
        seconds=_SECONDS,
    )


def _page_of(page: Callable[[str], bytes], node: Node) -> Talk:
    """Answer with a page, which is built once, when it is asked for."""
    built = cache(page)
    uuid = _first_uuid(node.folder / "scenario.yaml")

    def answer(connection: socket.socket) -> None:
        status(200, built(uuid))(connection)

    return answer


def _first_uuid(scenario: Path) -> str:
    catalogue = built_in()
    return SimulatedNode(load_scenario(str(scenario), catalogue, 0.0), catalogue).devices[0].uuid


def _line(uuid: str, gpu: int, value: str = "5", more: str = "") -> bytes:
    return f'DCGM_FI_DEV_GPU_UTIL{{UUID="{uuid}",gpu="{gpu}"{more}}} {value}\n'.encode()


def _devices(count: int) -> bytes:
    return b"".join(_line(_FOREIGN.format(number=number), number) for number in range(count))


def _holders(uuid: str, count: int) -> bytes:
    holder = ',namespace="n",pod="pod-{}",container="c"'
    return b"".join(_line(uuid, 0, "5", holder.format(number)) for number in range(count))


_PAGES: Final[Mapping[str, Callable[[str], bytes]]] = {
    "lists 5,000 foreign devices": lambda _: _devices(5000),
    "lists 200 foreign devices": lambda _: _devices(200),
    "names 5,000 holders of a GPU": lambda uuid: _holders(uuid, 5000),
    "repeats one series 100,000 times": lambda uuid: _line(uuid, 0) * 100_000,
    "has a label of a megabyte": lambda uuid: _line(uuid + "a" * 2**20, 0),
    "has a line of eight megabytes": lambda _: b"# " + b"a" * (2**23 - 10),
    "gives NaN": lambda uuid: _line(uuid, 0, "NaN"),
    "gives an infinite number": lambda uuid: _line(uuid, 0, "+Inf"),
    "gives 1e308": lambda uuid: _line(uuid, 0, "1e308"),
    "gives a number of 100,000 digits": lambda uuid: _line(uuid, 0, "9" * 100_000),
    "gives an empty page": lambda _: b"",
    "gives HTML": lambda _: b"<!DOCTYPE html><html><body>login</body></html>",
    "answers 50 MB": lambda _: _devices(700_000),
}  # fmt: skip
"""Each from the uuid of the node's first GPU."""
_TALKS: Final[Mapping[str, Talk]] = {
    "answers a byte at a time": drip(b"Content-Length: 100000\r\n\r\n"),
    "redirects to another address": status(301, b"", b"Location: http://127.0.0.2:9/metrics\r\n"),
    "answers what was compressed unasked": status(
        200, gzip.compress(b"DCGM_FI_DEV_GPU_UTIL 5\n"), b"Content-Encoding: gzip\r\n"
    ),
}

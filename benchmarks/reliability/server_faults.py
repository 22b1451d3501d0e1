# ruff: noqa: E501 - a table, one fault a line.
"""Servers that the agent speaks to, each spoiled from its start to its end."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from benchmarks.reliability.fault import Fault, Group
from benchmarks.reliability.listener import (
    GARBAGE,
    Talk,
    drip,
    hang_up,
    listen,
    reset,
    say_nothing,
    status,
    talk_without_end,
)
from benchmarks.reliability.node import Node

_NEXT: Final = "http://127.0.0.1:NEXT"
_IMPATIENT: Final = {"timeout": "2s", "tries": 1}
_DELIVERY_SECONDS: Final = 75.0
"""Recommendations are delivered each minute."""
BROKEN_MEMORY: Final = (
    "{kind: ecc, gpus: [3], after: 0s, uncorrected: 1, rows_uncorrectable: 1, pending: true}",
)
"""What opens a recommendation at once, for there to be something to say."""
_TALKS: Final[Mapping[str, Talk | None]] = {
    "refuses connections": None,
    "takes them and says nothing": say_nothing,
    "closes them": hang_up,
    "resets them in the middle of an answer": reset,
    "answers 500": status(500),
    "answers after 1.5 s": status(200, b"{}", after_seconds=1.5),
    "answers what cannot be read": status(200, GARBAGE),
    "answers without an end": talk_without_end,
    "sends its head a byte at a time": drip(b"X: "),
    "redirects without an end": status(302, b"", b"Location: /again\r\n"),
    "asks for a pause of a week": status(429, b"", b"Retry-After: 604800\r\n"),
}
_OF_ENGINES: Final = (
    "refuses connections",
    "takes them and says nothing",
    "answers 500",
    "answers what cannot be read",
    "answers without an end",
)
"""Ways of a serving engine; it is read by the same client as dcgm-exporter."""


def speaking(http: Mapping[str, Any] = _IMPATIENT) -> dict[str, dict[str, Any]]:
    """Configurations that speak to each server, to the first two each minute."""
    return {
        "Grafana": {"grafana": {"url": _NEXT, "http": http}},
        "a webhook": {"webhooks": [{"url": _NEXT, "http": http}]},
        "dcgm-exporter": {"sources": {**_SIMULATED, "dcgm": {"url": f"{_NEXT}/metrics", "interval": "1s", "timeout": "900ms"}}},
        "a serving engine": {"sources": {**_SIMULATED, "serving": {"endpoints": [{"url": f"{_NEXT}/metrics"}], "interval": "1s", "timeout": "900ms"}}},
    }  # fmt: skip


_SIMULATED: Final = {
    "simulated": {"scenario": "scenario.yaml"},
    "nvml": {"enumeration_interval": "5s"},
}


def server_faults() -> Iterator[Fault]:
    """Each server in each way."""
    for server, config in speaking().items():
        for way, talk in _TALKS.items():
            if server == "a serving engine" and way not in _OF_ENGINES:
                continue
            yield Fault(
                Group.SERVERS,
                f"{server} {way}",
                scenario=BROKEN_MEMORY,
                config=config,
                prepare=beside(talk),
                is_at_start=True,
                lasts=True,
                seconds=seconds_until_spoken(server),
            )


def seconds_until_spoken(server: str) -> float:
    """Time after which the agent has spoken to a server."""
    return _DELIVERY_SECONDS if server in ("Grafana", "a webhook") else 12.0


def meeting(node: Node) -> Callable[[], None]:
    """Expect a connection to the fault's server; returns what notes it."""
    node.is_unmet = True

    def met() -> None:
        node.is_unmet = False

    return met


def beside(talk: Talk | None) -> Callable[[Node], None]:
    """Start a server; its port replaces NEXT in the configuration."""

    def prepare(node: Node) -> None:
        server = listen(say_nothing) if talk is None else listen(talk, met=meeting(node))
        port = server.getsockname()[1]
        if talk is None:
            server.close()
        else:
            node.held.append(server)
        node.config.write_text(node.config.read_text("utf-8").replace("NEXT", str(port)), "utf-8")

    return prepare


def beside_silent(node: Node) -> None:
    """A server that takes connections and says nothing."""
    beside(say_nothing)(node)

"""`rightsizer place`: best GPUs of this node now, from the agent or from own readings."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from rightsizer.broker.lease import GpuRequest
from rightsizer.broker.request import PLACE_PATH, add_request_flags, request_of, words_of
from rightsizer.cli.scenario_flag import add_scenario_flag, scenario_settings
from rightsizer.console.agent_client import add_agent_flags, socket_of
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import settings_of
from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import AgentAbsentError, RightsizerError
from rightsizer.model.units import format_duration, seconds
from rightsizer.report.block_text import text_of
from rightsizer.report.blocks import Block, CellKind, Items, section, table

_HELP: Final = help_of(__file__)

if TYPE_CHECKING:
    from rightsizer.agent.settings import Settings
    from rightsizer.io.codec import JsonObject

_INEXACT: Final = "There are too many sets to look at all: a better one may exist."
_NO_OTHER: Final = "There is no other that is different."
_LOOK: Final = (
    "No agent was asked: this knows the states of this moment alone, not for how long a GPU has "
    "been idle, what was measured before, nor what is lent."
)
_WITHOUT_A_GPU: Final = "or try it on a simulated node: --scenario shared-node"


def place_blocks(document: Any, *, is_explained: bool) -> Iterator[Block]:
    """Yield the choice and its reasons, or why there is none, from the JSON answer.

    An explanation includes other sets and other GPUs.
    """
    if document["is_met"]:
        yield from _chosen(document)
    else:
        yield "Nothing fits."
    inexact = () if document["is_exact"] else (_INEXACT,)
    yield section("Why", Items((*document["reasons"], *inexact)))
    if is_explained and document["is_met"]:
        rejected = (
            f"{', '.join(slot['label'] for slot in rejected_set['seats'])}: {rejected_set['why']}"
            for rejected_set in document["rejected"]
        )
        yield section("Other sets", Items(tuple(rejected) or (_NO_OTHER,)))
    if is_explained or not document["is_met"]:
        occupied = (f"{slot['label']}: {slot['why']}" for slot in document["occupied"])
        yield section("Cannot be given", Items(tuple(occupied) or ("Nothing: all can.",)))
    if document["source"] == "agent":
        watched = format_duration(document["watched_seconds"])
        yield f"By the agent of this node, which has watched for {watched}."
    else:
        yield _LOOK


def export_text(document: Any) -> str:
    """Format the choice for a shell: `CUDA_VISIBLE_DEVICES`, and the binding to CPUs and memory."""
    nodes = _nodes(document)
    bind = f"numactl --cpunodebind={nodes} --membind={nodes}" if nodes else ""
    values = {
        "CUDA_VISIBLE_DEVICES": document["cuda_visible_devices"],
        "RIGHTSIZER_CPUS": document["cpus"] or "",
        "RIGHTSIZER_MEMORY_NODES": nodes,
        "RIGHTSIZER_BIND": bind,
    }
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def refused_export_text() -> str:
    """Return commands that hide all GPUs from the shell, and fail."""
    return "export CUDA_VISIBLE_DEVICES=''\nfalse"


def _chosen(document: Any) -> Iterator[Block]:
    yield f"CUDA_VISIBLE_DEVICES={document['cuda_visible_devices']}"
    yield f"CPUs: {document['cpus'] or 'which are near is unknown'}"
    yield f"Memory node: {_nodes(document) or 'which is near is unknown'}"
    rows = (
        (
            slot["label"],
            slot["name"] or None,
            slot["numa_node"],
            slot["memory_left_bytes"],
            "yes" if slot["is_shared"] else "no",
            slot["uuid"],
        )
        for slot in document["seats"]
    )
    columns = ("", "model", "NUMA", ("memory left", CellKind.GIB), "shared", "uuid")
    yield table(columns, rows)


def _nodes(document: Any) -> str:
    """Return the NUMA nodes if all are known; a partial binding would keep the others remote."""
    if any(slot["numa_node"] is None for slot in document["seats"]):
        return ""
    return ",".join(map(str, document["numa_nodes"]))


def placement_of_node(settings: Settings, request: GpuRequest, clock: Clock) -> JsonObject:
    """Return the placement from a few readings of the driver, a second apart.

    It knows the states of this moment alone: no idle time, earlier measurements or leases.

    Raises:
        RightsizerError: there is no GPU, or the driver does not answer.
    """
    # Imported on use: not needed with an agent.
    from rightsizer.agent.scheduler_documents import first_reports, slots_over  # noqa: PLC0415
    from rightsizer.broker.choice import choose  # noqa: PLC0415
    from rightsizer.broker.placement import placement_document  # noqa: PLC0415
    from rightsizer.io.codec import plain  # noqa: PLC0415
    from rightsizer.model.topology import Topology  # noqa: PLC0415

    reports = first_reports(settings, clock)
    last = reports[-1]
    topology = last.node.topology or Topology()
    answer = choose(slots_over(reports, settings), topology, request, settings.placement)
    watched = seconds(last.wall_time - reports[0].wall_time)
    return plain(
        placement_document(answer, time=last.wall_time, watched_seconds=watched, source="look")
    )


def _configure(parser: argparse.ArgumentParser) -> None:
    add_request_flags(parser)
    add = add_format_flag(parser, "the keys of docs/broker.md", "export")
    exports = "print exports for a shell; the same as --format export"
    add("--export", dest="format", action="store_const", const="export", help=exports)
    add_flags(parser.add_argument, _HELP["forms"])
    add_scenario_flag(parser, "agent and driver")
    add_agent_flags(parser)


def _run(arguments: argparse.Namespace) -> int:
    document = _ask(words_of(arguments), arguments)
    if arguments.format == "export" and document["is_met"]:
        say(export_text(document))
    elif arguments.format == "export":
        print(text_of(place_blocks(document, is_explained=True)), file=sys.stderr)
        say(refused_export_text())
    else:
        blocks = place_blocks(document, is_explained=arguments.explain)
        show(arguments, "Best GPUs", document, blocks, may_color=False)
    return 0 if document["is_met"] else 1


def _ask(words: dict[str, str], arguments: argparse.Namespace) -> Any:
    """Ask the agent, or read the driver if none runs or this user has no access."""
    request = request_of(words)
    socket = socket_of(arguments)
    if socket and not arguments.scenario:
        try:
            return LocalClient(Path(socket)).get(f"{PLACE_PATH}?{urlencode(words)}")
        except RightsizerError as error:
            may_ask = os.access(socket, os.R_OK | os.W_OK)
            if arguments.path_api_socket or (may_ask and not isinstance(error, AgentAbsentError)):
                raise
            if not isinstance(error, AgentAbsentError):
                print(f"rightsizer: warning: {error}", file=sys.stderr)
    from rightsizer.agent.settings import Settings  # noqa: PLC0415 - as said above.

    with scenario_settings(settings_of(arguments, Settings), arguments.scenario) as chosen:
        try:
            return placement_of_node(chosen, request, SystemClock())
        except RightsizerError as error:
            if chosen.sources.simulated.scenario:
                raise
            raise RightsizerError(f"{error}; {_WITHOUT_A_GPU}") from None


COMMAND = Command("place", _configure, _run, _HELP["description"])

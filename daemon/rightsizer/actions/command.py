"""`rightsizer actions`: executed, simulated and refused actions."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from rightsizer.accounting.settings import HistorySettings
from rightsizer.actions.approve import approve
from rightsizer.actions.encoder import ActionState, encode_state
from rightsizer.actions.feature import ACTIONS_PATH, actions_here
from rightsizer.actions.repository import ActionRepository
from rightsizer.actions.settings import ActionSettings
from rightsizer.advice.policy import NodeSettings
from rightsizer.advice.storage import Storage
from rightsizer.console.agent_client import add_agent_flags, asked_at, user_name
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import add_history_flag, history_path, settings_of
from rightsizer.host.settings import PathSettings
from rightsizer.io.codec import JsonObject
from rightsizer.io.terminal import counted
from rightsizer.model.values import UsageError
from rightsizer.report.blocks import Block, Items, table

_HELP: Final = help_of(__file__)
_HEADER: Final = ("WHEN", "ACTION", "ADVICE", "OUTCOME", "BY", "RESULT", "WHY")


class _ActionCommandSettings(Struct, frozen=True):
    actions: tuple[ActionSettings, ...] = ()
    history: HistorySettings = HistorySettings()
    node: NodeSettings = NodeSettings()
    path: PathSettings = PathSettings()


def _configure(parser: argparse.ArgumentParser) -> None:
    step = "approve those that wait for it"
    parser.add_argument("step", nargs="?", choices=("approve",), help=step)
    add_flags(parser.add_argument, _HELP["approve"], actor={"default": user_name()})
    add_format_flag(parser, "times in seconds")
    add_agent_flags(parser)
    add_history_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, _ActionCommandSettings)
    # Read a history other than the agent's directly.
    path = "" if arguments.history_path else arguments.path_api_socket or settings.path.api_socket
    if arguments.step == "approve":
        return approve(arguments, path)
    for flag in ("workload", "reason", "yes"):
        if getattr(arguments, flag):
            raise UsageError(f"--{flag}: is for `rightsizer actions approve`; leave it out")
    asked = asked_at(path, lambda agent: agent.get(ACTIONS_PATH))
    document = asked or _offline(arguments, settings)
    show(arguments, "Actions", document, _blocks(document, is_live=asked is not None))
    return 0


def _offline(arguments: argparse.Namespace, settings: _ActionCommandSettings) -> JsonObject:
    path = str(history_path(arguments, settings.history))
    with closing(Storage(path, read_only=True)) as storage:
        records = ActionRepository(storage.database).records()
    actions = actions_here(settings.actions, settings.node.pool)
    return encode_state(ActionState(actions=actions, records=records))


def _blocks(document: JsonObject, *, is_live: bool) -> Iterator[Block]:
    if not document["actions"]:
        yield "No action is configured: nothing is done on advice."
    for action in document["actions"]:
        suspended = ", suspended: its results failed too often" if action["is_suspended"] else ""
        reasons = ", ".join(action["reasons"])
        yield f"{action['name']} ({action['way']}, {action['mode']}{suspended}): {reasons}"
    waits = (
        proposal for proposal in document["proposals"] if proposal["action"] and proposal["why"]
    )
    lines = [
        f"not now on {proposal['advice']} by {proposal['action']}: {proposal['why']}"
        for proposal in waits
    ]
    if document["actions"]:
        lines.append(_nothing_text(document["proposals"], is_live=is_live))
    yield Items(tuple(filter(None, lines)))
    yield table(_HEADER, _rows(document))


def _nothing_text(proposals: Sequence[JsonObject], *, is_live: bool) -> str:
    """Explain why no action is due; empty if one is."""
    if not is_live:
        return "no agent was asked, so that only what was done is known, not what waits"
    if not proposals:
        return "nothing to do: no advice was open when the agent last looked"
    if any(proposal["action"] for proposal in proposals):
        return ""
    advice = counted(len(proposals), "recommendation is open", "recommendations are open")
    return f"nothing to do: {advice}, none of a reason and workload named here"


def _rows(document: JsonObject) -> Iterator[tuple[str, ...]]:
    for entry in document["entries"]:
        when = datetime.fromtimestamp(entry["at"], UTC)
        status = "" if entry["status"] is None else f" {entry['status']}"
        yield (
            f"{when:%Y-%m-%d %H:%M}",
            entry["action"],
            entry["advice"],
            f"{entry['outcome']}{status}",
            entry["actor"],
            entry["result"] or "-",
            entry["why"] or "-",
        )


COMMAND: Final = Command("actions", _configure, _run, _HELP["description"])

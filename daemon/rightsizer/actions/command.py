"""`rightsizer actions`: executed, simulated and refused actions; approval of those that wait."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from rightsizer.accounting.settings import HistorySettings
from rightsizer.actions.encoder import ActionState, state_document
from rightsizer.actions.feature import ACTIONS_PATH, actions_here
from rightsizer.actions.repository import ActionRepository, ActionVerdict
from rightsizer.actions.settings import ActionSettings
from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_of
from rightsizer.advice.policy import NodeSettings
from rightsizer.advice.storage import Storage
from rightsizer.console.agent_client import add_agent_flags, asked_at, user_name
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import add_history_flag, history_path, settings_of
from rightsizer.console.remote_agent import ADVICE_PATH
from rightsizer.host.settings import PathSettings
from rightsizer.io.codec import JsonObject, indented, plain
from rightsizer.io.local import LocalClient
from rightsizer.io.near import near_words
from rightsizer.io.terminal import aligned, counted
from rightsizer.model.values import Reason, RightsizerError, Savings, UsageError, dollars_text
from rightsizer.report.blocks import Block, Items, table
from rightsizer.report.labels import HOURS_A_DAY

_WAITING: Final = ("ACTION", "ADVICE", "WORKLOAD", "$/DAY", "SUMMARY")


def approve(arguments: argparse.Namespace, path: str | Path) -> int:
    """Approve all actions of a group by claims, after one confirmation."""
    if not arguments.actor.strip():
        raise UsageError("--actor: is empty; say who approves")
    if arguments.reason is not None and arguments.reason not in set(Reason):
        near = near_words(arguments.reason, list(Reason))
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(Reason)}"
        raise UsageError(f"--reason: there is no '{arguments.reason}'; {hint}")
    document = asked_at(path, lambda agent: agent.get(ACTIONS_PATH))
    if document is None:
        raise RightsizerError(f"no agent answers at {path or 'path.api_socket'}; start it first")
    waiting = [proposal for proposal in document["proposals"] if _waits(proposal, arguments)]
    if arguments.format != "json":
        say("\n".join(_waiting_lines(waiting)))
    is_approved = arguments.yes or (arguments.format != "json" and _is_confirmed(len(waiting)))
    faults = dict(_claimed(arguments, path, waiting)) if is_approved else {}
    approved = [
        proposal["advice"]
        for proposal in waiting
        if is_approved and proposal["advice"] not in faults
    ]
    if arguments.format == "json":
        answered = {"waiting": waiting, "approved": approved, "faults": faults}
        say(indented(answered))
    elif approved:
        count = counted(len(approved), "action")
        say(f"Approved by {arguments.actor}: {count}. One at a time is done, within the limits.")
    if faults:
        raise RightsizerError("\n".join(f"{advice}: {why}" for advice, why in faults.items()))
    return 0


def _claimed(
    arguments: argparse.Namespace, path: str | Path, waiting: Sequence[JsonObject]
) -> Iterator[tuple[str, str]]:
    """Claim the advice of each action; yield those that were refused, with why."""
    body = {"actor": arguments.actor, "why": "approved with others of its kind", "for": None}
    agent = LocalClient(Path(path))
    for proposal in waiting:
        try:
            agent.post(f"{ADVICE_PATH}/{quote(proposal['advice'], safe='')}/claim", body)
        except RightsizerError as error:
            yield proposal["advice"], str(error)


def _waits(proposal: JsonObject, arguments: argparse.Namespace) -> bool:
    """Whether a claim approves it, and the flags name it."""
    return (
        proposal["verdict"] == ActionVerdict.NOT_APPROVED
        and fnmatchcase(proposal["workload"] or "", arguments.workload or "*")
        and arguments.reason in {None, *proposal["reasons"]}
    )


def _waiting_lines(waiting: Sequence[JsonObject]) -> Iterator[str]:
    if not waiting:
        yield "No action of these waits for an approval: 'rightsizer actions' says why."
        return
    together = compatible(
        waiting,
        lambda proposal: ExclusiveKey.of_form({**proposal, "id": proposal["advice"]}),
    )
    saved = sum(savings_of(proposal).dollars_per_hour for proposal in together)
    worth = f", which save {dollars_text(saved * HOURS_A_DAY)} a day together" if saved else ""
    yield f"Waiting for approval: {counted(len(waiting), 'action')}{worth}"
    rows = [
        (
            proposal["action"],
            proposal["advice"],
            proposal["workload"] or "-",
            _worth(savings_of(proposal)),
            " ".join(proposal["summary"].split()),
        )
        for proposal in waiting
    ]
    yield from aligned(_WAITING, rows, _WAITING)


def _worth(savings: Savings) -> str:
    """Dollars a day, negative where it costs more; `-` without a price."""
    if savings.dollars_per_hour_low is None:
        return "-"
    return dollars_text(savings.dollars_per_hour * HOURS_A_DAY)


def _is_confirmed(count: int) -> bool:
    """Ask on a terminal; elsewhere nothing is approved."""
    if not count:
        return False
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        say("Nothing is approved: add --yes to approve them.")
        return False
    try:
        said = input(f"Approve {counted(count, 'action')}? [y/N] ")
    except EOFError:
        return False
    return said.strip().lower() in {"y", "yes"}


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
    return plain(state_document(ActionState(actions=actions, records=records)))


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

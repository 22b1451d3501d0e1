"""`rightsizer actions`: executed, simulated and refused actions; approval of those that wait."""

import argparse
import json
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
from rightsizer.actions.encoder import ActionState, encode_state
from rightsizer.actions.feature import ACTIONS_PATH, actions_here
from rightsizer.actions.repository import ActionRepository, ActionVerdict
from rightsizer.actions.settings import ActionSettings
from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_of
from rightsizer.advice.policy import NodeSettings
from rightsizer.advice.storage import Storage
from rightsizer.console.agent_client import add_agent_flags, asked_at, user_name
from rightsizer.console.command import Command, add_flags, answer, help_of, say
from rightsizer.console.flags import add_history_flag, history_path, settings_of
from rightsizer.console.remote_agent import ADVICE_PATH
from rightsizer.host.settings import PathSettings
from rightsizer.io.codec import JsonObject
from rightsizer.io.local import LocalClient
from rightsizer.io.near import near_words
from rightsizer.io.terminal import aligned, counted, wrapped
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.model.finding import Reason, Savings
from rightsizer.model.units import dollars_text

_HELP: Final = help_of(__file__)
_HOURS_A_DAY: Final = 24.0
_WAITING: Final = ("ACTION", "ADVICE", "WORKLOAD", "$/DAY", "SUMMARY")
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
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    add_agent_flags(parser)
    add_history_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, _ActionCommandSettings)
    # Read a history other than the agent's directly.
    path = "" if arguments.history_path else arguments.path_api_socket or settings.path.api_socket
    if arguments.step == "approve":
        return _approve(arguments, path)
    for flag in ("workload", "reason", "yes"):
        if getattr(arguments, flag):
            raise UsageError(f"--{flag}: is for `rightsizer actions approve`; leave it out")
    asked = asked_at(path, lambda agent: agent.get(ACTIONS_PATH))
    document = asked or _offline(arguments, settings)
    answer(arguments, document, "\n".join(_lines(document, is_live=asked is not None)))
    return 0


def _approve(arguments: argparse.Namespace, path: str | Path) -> int:
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
    waiting = [each for each in document["proposals"] if _waits(each, arguments)]
    if not arguments.json:
        say("\n".join(_waiting_lines(waiting)))
    is_approved = arguments.yes or (not arguments.json and _is_confirmed(len(waiting)))
    faults = dict(_claimed(arguments, path, waiting)) if is_approved else {}
    approved = [each["advice"] for each in waiting if is_approved and each["advice"] not in faults]
    if arguments.json:
        answered = {"waiting": waiting, "approved": approved, "faults": faults}
        say(json.dumps(answered, indent=1))
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
    for each in waiting:
        try:
            _claim(arguments, path, each["advice"])
        except RightsizerError as error:
            yield each["advice"], str(error)


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
    together = compatible(waiting, _exclusive_key)
    saved = sum(savings_of(each).dollars_per_hour for each in together)
    worth = f", which save {dollars_text(saved * _HOURS_A_DAY)} a day together" if saved else ""
    yield f"Waiting for approval: {counted(len(waiting), 'action')}{worth}"
    rows = [
        (
            each["action"],
            each["advice"],
            each["workload"] or "-",
            _worth(savings_of(each)),
            " ".join(each["summary"].split()),
        )
        for each in waiting
    ]
    yield from aligned(_WAITING, rows, _WAITING)


def _exclusive_key(proposal: JsonObject) -> ExclusiveKey:
    return ExclusiveKey.of_form({**proposal, "id": proposal["advice"]})


def _worth(savings: Savings) -> str:
    """Dollars a day, negative where it costs more; `-` without a price."""
    if savings.dollars_per_hour_low is None:
        return "-"
    return dollars_text(savings.dollars_per_hour * _HOURS_A_DAY)


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


def _claim(arguments: argparse.Namespace, path: str | Path, advice: str) -> None:
    body = {"actor": arguments.actor, "why": "approved with others of its kind", "for": None}
    LocalClient(Path(path)).post(f"{ADVICE_PATH}/{quote(advice, safe='')}/claim", body)


def _offline(arguments: argparse.Namespace, settings: _ActionCommandSettings) -> JsonObject:
    path = str(history_path(arguments, settings.history))
    with closing(Storage(path, read_only=True)) as storage:
        records = ActionRepository(storage.database).records()
    actions = actions_here(settings.actions, settings.node.pool)
    return encode_state(ActionState(actions=actions, records=records))


def _lines(document: JsonObject, *, is_live: bool) -> Iterator[str]:
    if not document["actions"]:
        yield "No action is configured: nothing is done on advice."
    for each in document["actions"]:
        suspended = ", suspended: its results failed too often" if each["is_suspended"] else ""
        reasons = ", ".join(each["reasons"])
        yield f"{each['name']} ({each['way']}, {each['mode']}{suspended}): {reasons}"
    for each in document["proposals"]:
        if each["action"] and each["why"]:
            yield f"  not now on {each['advice']} by {each['action']}: {each['why']}"
    if document["actions"]:
        yield from wrapped(_nothing_text(document["proposals"], is_live=is_live), indent=2)
    if document["entries"]:
        yield ""
        yield from aligned(_HEADER, list(_rows(document)), _HEADER)


def _nothing_text(proposals: Sequence[JsonObject], *, is_live: bool) -> str:
    """Explain why no action is due; empty if one is."""
    if not is_live:
        return "no agent was asked, so that only what was done is known, not what waits"
    if not proposals:
        return "nothing to do: no advice was open when the agent last looked"
    if any(each["action"] for each in proposals):
        return ""
    advice = counted(len(proposals), "recommendation is open", "recommendations are open")
    return f"nothing to do: {advice}, none of a reason and workload named here"


def _rows(document: JsonObject) -> Iterator[tuple[str, ...]]:
    for each in document["entries"]:
        when = datetime.fromtimestamp(each["at"], UTC)
        status = "" if each["status"] is None else f" {each['status']}"
        yield (
            f"{when:%Y-%m-%d %H:%M}",
            each["action"],
            each["advice"],
            f"{each['outcome']}{status}",
            each["actor"],
            each["result"] or "-",
            each["why"] or "-",
        )


COMMAND: Final = Command("actions", _configure, _run, _HELP["description"])

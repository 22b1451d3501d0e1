"""Approval of a group of actions that wait: listed with their savings, confirmed once."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rightsizer.actions.feature import ACTIONS_PATH
from rightsizer.actions.repository import ActionVerdict
from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_of
from rightsizer.console.agent_client import asked_at
from rightsizer.console.command import say
from rightsizer.console.remote_agent import ADVICE_PATH
from rightsizer.io.codec import JsonObject
from rightsizer.io.local import LocalClient
from rightsizer.io.near import near_words
from rightsizer.io.terminal import aligned, counted
from rightsizer.model.values import Reason, RightsizerError, Savings, UsageError, dollars_text
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
    for proposal in waiting:
        try:
            _claim(arguments, path, proposal["advice"])
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
    together = compatible(waiting, _exclusive_key)
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


def _exclusive_key(proposal: JsonObject) -> ExclusiveKey:
    return ExclusiveKey.of_form({**proposal, "id": proposal["advice"]})


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


def _claim(arguments: argparse.Namespace, path: str | Path, advice: str) -> None:
    body = {"actor": arguments.actor, "why": "approved with others of its kind", "for": None}
    LocalClient(Path(path)).post(f"{ADVICE_PATH}/{quote(advice, safe='')}/claim", body)

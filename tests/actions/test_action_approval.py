"""Approval by claim: the user known to the kernel or server counts, not the stated name."""

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from action_node import ROOT, action, action_node, noting
from rightsizer.actions.approvals import Approvals
from rightsizer.actions.repository import ActionOutcome, ActionVerdict
from rightsizer.actions.settings import ActionLimits, ActionMode
from rightsizer.model.advice import AdviceState
from rightsizer.web.message import SocketPeer

NAMELESS: Final = 3_999_999_999
"""A uid without a name on any machine."""
STRANGER: Final = SocketPeer(4711, NAMELESS, NAMELESS)


@pytest.mark.parametrize(
    ("peer", "identity"),
    [(STRANGER, None), (None, "user:ben"), (None, None)],
    ids=["local", "over-tcp", "unknown"],
)
def test_unlisted_user_cannot_approve_or_claim(
    tmp_path: Path, peer: SocketPeer | None, identity: str | None
) -> None:
    """Whatever name is given; the reason says so, and an approver's claim is awaited."""
    file = tmp_path / "notes"
    with action_node() as node:
        controller = node.controller(action(mode=ActionMode.APPROVE, command=noting(file, "{id}")))
        node.advise()
        node.run(controller)
        node.become("advice-0", AdviceState.CLAIMED, "root (uid 0)", peer=peer, identity=identity)
        node.run(controller)
        (waits,) = controller.proposals
        assert not file.exists()
        node.become("advice-0", AdviceState.CLAIMED, "ana")
        node.run(controller)
    known_as = identity or "unknown" if peer is None else f"uid {NAMELESS}"
    assert waits.verdict is ActionVerdict.NOT_APPROVED
    assert f"root (uid 0) ({known_as}) claimed it, who may not approve" in waits.why
    assert "acting.approvers" in waits.why
    assert node.records[-1].actor == "ana (uid 0)"
    assert file.read_text() == "['advice-0']\n"


@pytest.mark.parametrize(
    ("peer", "identity", "actor"),
    [(STRANGER, None, f"ana (uid {NAMELESS})"), (None, "user:ana", "ana (user:ana)")],
    ids=["local", "over-tcp"],
)
def test_listed_user_approves(
    tmp_path: Path, peer: SocketPeer | None, identity: str | None, actor: str
) -> None:
    """The audit log has the identity known to the kernel or the server."""
    file = tmp_path / "notes"
    with action_node() as node:
        settings = action(mode=ActionMode.APPROVE, command=noting(file, "{id}"))
        controller = node.controller(settings, approvers=(str(NAMELESS), "user:ana"))
        node.advise()
        node.run(controller)
        node.become("advice-0", AdviceState.CLAIMED, "ana", peer=peer, identity=identity)
        node.run(controller)
    assert (node.records[-1].outcome, node.records[-1].actor) == (ActionOutcome.DONE, actor)


def test_a_system_user_is_no_web_user() -> None:
    """A plain name is a system user; a web user is listed with `user:`."""
    with action_node() as node:
        advice = node.advise()
        claimed = replace(advice, state=AdviceState.CLAIMED, trial_since=advice.updated)
        approvals = Approvals(("ana",), own_uid=990, user_of=lambda uid: {1000: "ana"}[uid])
        approvals.note(advice, "x", None, "user:ana")
        (refused,) = approvals.standing(lambda: [claimed], ()).values()
        approvals.note(advice, "x", SocketPeer(1, 1000, 100), None)
        (taken,) = approvals.standing(lambda: [claimed], ()).values()
        approvals.note(advice, "x", SocketPeer(1, 990, 990), None)
        (own,) = approvals.standing(lambda: [claimed], ()).values()
    assert refused.why_not
    assert (taken.why_not, taken.actor) == ("", "x (uid 1000)")
    assert not own.why_not


@pytest.mark.parametrize("peer", [ROOT, STRANGER], ids=["approver", "stranger"])
def test_an_approval_survives_a_restart_and_nothing_else_does(
    tmp_path: Path, peer: SocketPeer
) -> None:
    """The action waits for another bound meanwhile."""
    file = tmp_path / "notes"
    one = action(mode=ActionMode.APPROVE, command=noting(file, "{id}"), at_most_per_day=2)
    limits = ActionLimits(pause_seconds=3600.0)
    with action_node(holders=2) as node:
        controller = node.controller(one, limits=limits)
        node.advise(0)
        node.advise(1)
        node.run(controller)
        node.become("advice-0", AdviceState.CLAIMED)
        node.become("advice-1", AdviceState.CLAIMED, peer=peer)
        node.run(controller)
        node.run(node.controller(one, limits=limits), 7200.0)
    done = [record.advice for record in node.records if record.outcome is ActionOutcome.DONE]
    assert done == (["advice-0", "advice-1"] if peer is ROOT else ["advice-0"])

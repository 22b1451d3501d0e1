"""A kill between intent and outcome: the action counts as unknown, and is never repeated."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from action_node import DurableRepository, action, action_node, noting
from agent_process import eventually
from rightsizer.actions.repository import ActionOutcome, ActionRecord, ActionRepository
from rightsizer.advice.storage import Storage
from rightsizer.model.errors import HistoryError

NODE: Final = Path(__file__).parents[1] / "support" / "acted_node.py"


def under_way(path: Path) -> list[ActionRecord]:
    """The begun action in the history, with its process."""
    if not path.exists():
        return []
    storage = Storage(str(path), read_only=True)
    try:
        return [
            record
            for record in ActionRepository(storage.database).records()
            if record.process is not None
        ]
    finally:
        storage.close()


def test_a_kill_leaves_an_unknown_outcome_and_no_second_try(tmp_path: Path) -> None:
    """The next agent ends the remaining program, and keeps the used limits."""
    path = tmp_path / "history.db"
    file = tmp_path / "notes"
    with subprocess.Popen([sys.executable, NODE, path]) as victim:
        try:
            (begun,) = eventually(lambda: under_way(path), 60)
        finally:
            victim.kill()
    assert begun.process is not None
    os.kill(begun.process, 0)  # It outlived the agent that started it.
    storage = Storage(str(path))
    with action_node(ActionRepository(storage.database)) as node:
        (advice,) = [node.advise()]
        assert advice.opened == begun.opened
        controller = node.controller(action(command=noting(file)))
        for _ in range(3):
            node.run(controller)
        (left,) = node.records
        counts = node.audit.counts
    storage.close()
    assert begun.outcome is ActionOutcome.STARTED
    assert (left.id, left.outcome) == (begun.id, ActionOutcome.UNKNOWN)
    assert left.why.endswith("its program still ran, and was ended")
    assert counts == {("release", "unknown"): 1}
    assert not file.exists()


def test_a_program_whose_process_cannot_be_written_down_is_not_run(tmp_path: Path) -> None:
    """A later agent could not end it; the full disk is reported."""
    file = tmp_path / "notes"
    with action_node(FullRepository()) as node:
        node.advise()
        node.run(node.controller(action(command=noting(file))))
        (left,) = node.records
    assert (left.outcome, left.why) == (ActionOutcome.FAILED, "was not run: there is no room")
    assert not file.exists()


class FullRepository(DurableRepository):
    """A repository without room for the pid."""

    def put(self, record: ActionRecord) -> None:
        """Save a begun or ended action."""
        if record.process is not None and record.outcome is ActionOutcome.STARTED:
            raise HistoryError("there is no room")
        super().put(record)

"""A controller with real programs and a real receiver: actions run once and are logged."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from action_node import action, action_node, noting
from agent_process import eventually
from rightsizer.actions.repository import ActionOutcome, ActionRepository, ActionVerdict
from rightsizer.actions.settings import ActionLimits, ActionMode, ActionWebhookSettings
from rightsizer.advice.storage import Storage
from rightsizer.model.advice import AdviceState
from rightsizer.model.errors import RightsizerError
from rightsizer.model.workload import Workload, WorkloadKind
from webhook_server import webhook_server


@contextmanager
def opened_repository(folder: Path) -> Iterator[ActionRepository]:
    """A repository in a history, for the life of an agent."""
    storage = Storage(str(folder / "history.db"))
    try:
        yield ActionRepository(storage.database)
    finally:
        storage.close()


def test_a_dry_run_does_nothing_and_says_what_it_would_do(tmp_path: Path) -> None:
    """It starts no program and sends no request; it is logged once, with the evidence."""
    file = tmp_path / "notes"
    with webhook_server() as inbox, action_node() as node:
        hook = ActionWebhookSettings(f"{inbox.url}/act")
        controller = node.controller(
            action(mode=ActionMode.DRY_RUN, command=noting(file)),
            action(name="tell", mode=ActionMode.DRY_RUN, command=(), webhook=hook),
        )
        node.advise()
        for _ in range(3):
            node.run(controller)
        assert inbox.paths == []
    assert not file.exists()
    assert node.outcomes == [ActionOutcome.DRY_RUN] * 2
    assert {record.action for record in node.records} == {"release", "tell"}
    assert node.records[0].evidence == {"idle_ratio": {"GPU-0": 1.0}}
    assert node.audit.counts == {("release", "dry_run"): 1, ("tell", "dry_run"): 1}


def test_a_program_is_given_its_words_once(tmp_path: Path) -> None:
    """An argument stays one; the advice is claimed, so that before and after are compared."""
    file = tmp_path / "notes"
    audit = tmp_path / "audit.jsonl"
    words = ("{id}", "{reason}={workload}", "{devices}", "{action}", "a b; $(c)")
    with action_node() as node:
        controller = node.controller(action(command=noting(file, *words)), journal=audit)
        node.advise()
        for _ in range(3):
            node.run(controller)
        (done,) = node.records
        verdicts = {proposal.advice.id: proposal.verdict for proposal in controller.proposals}
    given = "['advice-0', 'IdleHeld=llama', 'GPU-0', 'release', 'a b; $(c)']\n"
    assert file.read_text() == given
    assert (done.outcome, done.status, done.actor) == (ActionOutcome.DONE, 0, "action:release")
    assert (node.advice[0].state, node.advice[0].actor) == (AdviceState.CLAIMED, "action:release")
    assert verdicts == {"advice-0": ActionVerdict.DONE_BEFORE}
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["started", "done"]
    assert lines[1]["id"] == done.id
    assert lines[1]["evidence"] == {"idle_ratio": {"GPU-0": 1.0}}


def test_a_claim_approves_and_is_the_actor(tmp_path: Path) -> None:
    """The waiting action is reported; it runs only after the claim, and once."""
    file = tmp_path / "notes"
    with action_node() as node:
        controller = node.controller(action(mode=ActionMode.APPROVE, command=noting(file, "{id}")))
        node.advise()
        node.run(controller)
        assert not file.exists()
        node.become("advice-0", AdviceState.CLAIMED, "ben")
        node.run(controller)
        node.run(controller)
        waited, done = node.records
    assert (waited.outcome, waited.verdict) == (ActionOutcome.REFUSED, ActionVerdict.NOT_APPROVED)
    assert (done.outcome, done.actor) == (ActionOutcome.DONE, "ben (uid 0)")
    assert file.read_text() == "['advice-0']\n"


def test_an_approval_that_is_taken_back_in_time_is_withdrawn(tmp_path: Path) -> None:
    """While another bound blocks the action; the withdrawal is logged."""
    file = tmp_path / "notes"
    with action_node(holders=2) as node:
        controller = node.controller(
            action(mode=ActionMode.APPROVE, command=noting(file, "{id}"), at_most_per_day=2),
            limits=ActionLimits(pause_seconds=3600.0),
        )
        node.advise(0)
        node.advise(1)
        node.run(controller)
        node.become("advice-0", AdviceState.CLAIMED)
        node.become("advice-1", AdviceState.CLAIMED)
        node.run(controller)
        node.run(controller)
        node.become("advice-1", AdviceState.SNOOZED)
        node.run(controller, 7200.0)
    assert file.read_text() == "['advice-0']\n"
    last = [(record.advice, record.outcome) for record in node.records][-2:]
    assert ("advice-1", ActionOutcome.WITHDRAWN) in last
    assert node.outcomes.count(ActionOutcome.DONE) == 1


@pytest.mark.parametrize(
    ("words", "outcome", "status"),
    [
        (("false",), ActionOutcome.FAILED, 1),
        (("no-such-program",), ActionOutcome.FAILED, None),
        (("sleep", "60"), ActionOutcome.TIMED_OUT, None),
    ],
    ids=["fails", "absent", "hangs"],
)
def test_failed_action_is_reported_and_not_repeated(
    words: tuple[str, ...], outcome: ActionOutcome, status: int | None
) -> None:
    """It counts toward the limits like a success, and claims nothing."""
    with action_node() as node:
        controller = node.controller(action(command=words, timeout=1.0))
        node.advise()
        node.run(controller)
        node.run(controller)
        (done,) = node.records
    assert (done.outcome, done.status) == (outcome, status)
    assert done.why
    assert node.advice[0].state is AdviceState.ACTIVE


def test_a_receiver_is_sent_the_facts_once(tmp_path: Path) -> None:
    """With its token, the advice, and an id to recognize duplicates."""
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with webhook_server() as inbox, action_node() as node:
        hook = ActionWebhookSettings(f"{inbox.url}/act", str(token))
        controller = node.controller(action(command=(), webhook=hook))
        node.advise()
        node.run(controller)
        node.run(controller)
        (done,) = node.records
        (body,) = inbox.bodies
    assert (done.outcome, done.status) == (ActionOutcome.DONE, 200)
    assert (body["delivery"], body["action"]) == (done.id, "release")
    assert (body["advice"]["id"], body["workload"]["name"]) == ("advice-0", "llama")
    assert inbox.headers[0]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    ("fault", "outcome", "status"),
    [("503", ActionOutcome.FAILED, 503), ("cut", ActionOutcome.UNKNOWN, None)],
)
def test_a_receiver_that_may_have_had_it_is_not_sent_it_again(
    fault: str, outcome: ActionOutcome, status: int | None
) -> None:
    """After a lost response, the outcome is unknown."""
    with webhook_server() as inbox, action_node() as node:
        inbox.faults = [fault]
        controller = node.controller(
            action(command=(), webhook=ActionWebhookSettings(f"{inbox.url}/act"))
        )
        node.advise()
        node.run(controller)
        node.run(controller)
        (done,) = node.records
        assert len(inbox.paths) == 1
    assert (done.outcome, done.status) == (outcome, status)
    assert "/act" not in done.why


HOSTILE: Final = [
    "--delete-all",
    "-rf",
    "a\nb",
    "a\x00b",
    "\x1b[2J",
    "\u202egpj.exe",
    "",
    "../../etc/passwd",
    "x" * 2000,
    "$(touch x)",
    "`id`",
    "a;b",
    "a b",
    "a|b",
    "{id}",
    "*",
    "é",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_is_refused_before_anything_is_begun(tmp_path: Path, name: str) -> None:
    """The owner of a workload chooses its name; the refusal uses up no limit, and is logged."""
    file = tmp_path / "notes"
    job = Workload("slurm/x", WorkloadKind.SLURM, name, unproven="")
    with action_node() as node:
        node.holders = [job]
        controller = node.controller(action(command=noting(file, "{workload}")))
        node.advise()
        node.run(controller)
        (record,) = node.records
    assert not file.exists()
    assert (record.outcome, record.verdict) == (ActionOutcome.REFUSED, ActionVerdict.UNFIT)
    assert record.why


def test_a_tame_name_is_one_word(tmp_path: Path) -> None:
    """An argument that starts with the operator's `-` may continue with anything."""
    file = tmp_path / "notes"
    name = "-team/llama-2@x:1,2+3._"
    with action_node() as node:
        node.holders = [Workload("slurm/x", WorkloadKind.SLURM, name, unproven="")]
        controller = node.controller(action(command=noting(file, "--job={workload}")))
        node.advise()
        node.run(controller)
    assert file.read_text() == f"{[f'--job={name}']!r}\n"


def test_read_only_query_writes_nothing() -> None:
    """Data lost by the history is still reported, and saved again by the next run."""
    with action_node() as node:
        controller = node.controller(action())
        node.advise()
        node.run(controller)
        (done,) = node.records
        node.repository.forget([done.id])
        assert list(node.audit.records()) == [done]
        assert list(node.records) == []
        node.run(controller)
        assert list(node.records) == [done]


@pytest.mark.parametrize(
    ("state", "why"), [(AdviceState.SUCCEEDED, "0.9 GPUs"), (AdviceState.FAILED, "saved nothing")]
)
def test_verification_result_is_linked_to_the_action(state: AdviceState, why: str) -> None:
    """Until then no other action runs on the workload."""
    with action_node() as node:
        controller = node.controller(action(cool_down_seconds=60.0, at_most_per_day=9))
        node.advise()
        node.run(controller)
        node.advice.append(node.advise(0, id="another"))
        node.run(controller, 2 * 86400.0)
        waiting = {proposal.advice.id: proposal.verdict for proposal in controller.proposals}
        node.become("advice-0", state, why=why)
        node.advice = [each for each in node.advice if each.id == "advice-0"]
        node.become("advice-0", state, why=why)
        node.run(controller)
        done = next(record for record in node.records if record.advice == "advice-0")
    assert waiting["another"] is ActionVerdict.UNVERIFIED
    assert (done.result, done.result_why) == (state, why)


def test_advice_reopened_after_success_marks_the_action_failed(tmp_path: Path) -> None:
    """The entry says so, also after a restart."""
    with opened_repository(tmp_path) as repository, action_node(repository) as node:
        controller = node.controller(action())
        node.advise()
        node.run(controller)
        node.become("advice-0", AdviceState.SUCCEEDED)
        node.run(controller)
        node.clock.pass_seconds(86400.0)
        node.advise()
        node.become("advice-0", AdviceState.REGRESSED)
        node.run(node.controller(action()))
        done = node.records[0]
    assert done.result is AdviceState.REGRESSED


def test_an_action_that_fails_too_often_is_suspended_and_reported() -> None:
    """The third does not run."""
    with action_node(holders=3) as node:
        controller = node.controller(action(command=("false",), at_most_per_day=9))
        for index in range(3):
            node.advise(index)
            node.run(controller)
        (last,) = (
            proposal for proposal in controller.proposals if proposal.advice.id == "advice-2"
        )
    assert node.outcomes.count(ActionOutcome.FAILED) == 2
    assert last.verdict is ActionVerdict.SUSPENDED
    assert controller.suspended == {"release"}


def test_without_a_history_nothing_is_done(tmp_path: Path) -> None:
    """A kill would make it run twice."""
    file = tmp_path / "notes"
    with action_node(ActionRepository(Storage("").database)) as node:
        controller = node.controller(action(command=noting(file)))
        node.advise()
        node.run(controller)
        (record,) = node.records
    assert not file.exists()
    assert record.verdict is ActionVerdict.NOT_KEPT


def test_action_without_a_writable_audit_log_is_not_run(tmp_path: Path) -> None:
    """The unwritable file is reported; once it is fixed, the action runs."""
    file = tmp_path / "notes"
    audit = tmp_path / "missing" / "audit.jsonl"
    with action_node() as node:
        controller = node.controller(action(command=noting(file, "once")), journal=audit)
        node.advise()
        with pytest.raises(RightsizerError, match=r"acting\.audit_file .* cannot be written"):
            node.run(controller)
        assert not file.exists()
        assert node.records == []
        audit.parent.mkdir()
        node.run(controller)
    assert file.read_text() == "['once']\n"


def test_an_agent_that_ends_ends_what_it_does(tmp_path: Path) -> None:
    """It logs that the end was not awaited."""
    with opened_repository(tmp_path) as repository, action_node(repository) as node:
        controller = node.controller(action(command=("sleep", "60")))
        node.advise()
        node.clock.pass_seconds(60.0)
        controller.run()
        eventually(lambda: node.records[0].process)
        controller.stop()
        (ended,) = node.records
    assert ended.outcome is ActionOutcome.INTERRUPTED


def test_entries_survive_a_restart_as_they_were(tmp_path: Path) -> None:
    """In the history's database; a row of a newer program is skipped."""
    with opened_repository(tmp_path) as repository, action_node(repository) as node:
        node.advise()
        node.run(node.controller(action()))
        before = list(repository.records())
        storage = Storage(str(tmp_path / "history.db"), read_only=True)
        after = list(ActionRepository(storage.database).records())
        storage.close()
    assert [each.outcome for each in before] == [ActionOutcome.DONE]
    assert after == before


def test_a_history_that_breaks_forgets_nothing_that_was_begun() -> None:
    """Actions of earlier agents too are copied to the new file, and count."""
    with action_node() as node:
        node.advise()
        node.run(node.controller(action()))
        controller = node.controller(action())
        node.run(controller)
        before = list(node.records)
        node.repository.forget([each.id for each in before])
        node.run(controller)
        assert list(node.records) == before
        assert [proposal.verdict for proposal in controller.proposals] == [
            ActionVerdict.DONE_BEFORE
        ]

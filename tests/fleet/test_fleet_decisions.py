"""Decisions on a fleet's recommendations while no service runs."""

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from advice_history import keep_advice
from cases import NOW
from rightsizer.advice.storage import Storage
from rightsizer.fleet.ledger import act_on_ledger, explain_from_ledger
from rightsizer.fleet.settings import FleetConfig, FleetSettings, ledger_path
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.model.errors import HistoryError, UsageError

LATER: Final = NOW + 10**12


@pytest.fixture
def settings(tmp_path: Path) -> FleetConfig:
    """Settings with a directory of their own."""
    return replace(FleetConfig(), fleet=FleetSettings(path=str(tmp_path / "fleet.db")))


def decide(settings: FleetConfig, advice_id: str, state: AdviceState) -> None:
    """Result of the command."""
    act_on_ledger(
        settings, advice_id, state=state, actor="ana", why="mine", for_seconds=None, now=LATER
    )


def test_a_claim_is_kept(settings: FleetConfig) -> None:
    """It has the user and the reason."""
    saved_id = keep_advice(ledger_path(settings))
    decide(settings, saved_id, AdviceState.CLAIMED)
    lifecycle = explain_from_ledger(settings, saved_id).lifecycle
    assert lifecycle is not None
    assert (lifecycle.state, lifecycle.actor, lifecycle.why) == ("claimed", "ana", "mine")


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (AdviceState.CLAIMED, AdviceEventKind.DECIDED),
        (AdviceState.DISMISSED, AdviceEventKind.CLOSED),
    ],
)
def test_a_decision_is_reported_by_the_next_look(
    settings: FleetConfig, state: AdviceState, kind: AdviceEventKind
) -> None:
    """Its event waits in the ledger: nothing else would change or end the annotation."""
    saved_id = keep_advice(ledger_path(settings))
    decide(settings, saved_id, state)
    storage = Storage(str(ledger_path(settings)))
    try:
        storage.ledger(settings.recommender.ledger)
        assert [event.kind for event in storage.pending_events] == [kind]
    finally:
        storage.close()


def test_thresholds_of_both_kinds_of_rules_are_reported_by_their_keys(
    settings: FleetConfig,
) -> None:
    """Thresholds have the configured values."""
    saved_id = keep_advice(ledger_path(settings), rule="idle_pool", key="pool/spare", workload=None)
    thresholds = explain_from_ledger(settings, saved_id).thresholds
    assert {threshold.setting.rpartition(".idle_pool.")[0] for threshold in thresholds} == {
        "fleet.rules"
    }


def test_advice_that_is_not_there_is_refused(settings: FleetConfig) -> None:
    """The error lists the open IDs; closed recommendations are rejected too."""
    saved_id = keep_advice(ledger_path(settings))
    with pytest.raises(UsageError, match=f"did you mean {saved_id}"):
        decide(settings, f"{saved_id[:-1]}b", AdviceState.CLAIMED)
    decide(settings, saved_id, AdviceState.DISMISSED)
    with pytest.raises(UsageError, match="closed already"):
        decide(settings, saved_id, AdviceState.CLAIMED)


def test_missing_ledger_is_an_error_with_a_remedy(settings: FleetConfig) -> None:
    """No file is created."""
    with pytest.raises(HistoryError, match="rightsizer fleet --save"):
        decide(settings, "aaaaaaaaaaaa", AdviceState.CLAIMED)
    with pytest.raises(HistoryError, match="there is no ledger"):
        explain_from_ledger(settings, "aaaaaaaaaaaa")
    assert not ledger_path(settings).exists()


def test_a_ledger_that_a_look_holds_is_left_alone(settings: FleetConfig) -> None:
    """Reading it is allowed."""
    saved_id = keep_advice(ledger_path(settings))
    holder = Storage(str(ledger_path(settings)))
    try:
        with pytest.raises(HistoryError, match="written by process"):
            decide(settings, saved_id, AdviceState.CLAIMED)
        assert explain_from_ledger(settings, saved_id).advice.id == saved_id
    finally:
        holder.close()

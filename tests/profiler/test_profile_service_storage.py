"""Storage of the profile service: bounded, over restarts and faults, without secrets."""

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from api_schema import faults, json_schema_of
from profile_beside import waiting_profile
from profile_examples import launch_bound_trace
from profile_node import JOB, Node, advice_node, node, waits, works
from profile_traces import SECRETS
from readings import EPOCH, MINUTE
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.model.profile import ProfiledDevice
from rightsizer.profiler.service import ProfileService, profiles_route
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.profiles.registry import open_profile
from rightsizer.web.message import WebRequest

__all__ = ["advice_node", "node"]


def test_verdicts_survive_a_restart(node: Node) -> None:
    """So does the recommendation, without a new notification."""
    node.profiles.take([waits(node)])
    before = node.open()
    node.base.storage.close()
    node.base.storage = Storage(str(node.base.path))
    node.restart()

    assert [profile.key for profile in node.profiles.profiles()] == [JOB.key]
    assert node.open() == before
    assert len(node.advice_service.advice) == len({each.id for each in node.advice_service.advice})


def test_the_same_file_is_kept_once(node: Node) -> None:
    """It is counted once, however often it arrives."""
    for _ in range(3):
        node.profiles.take([waits(node)])

    assert len(node.profiles.profiles()) == 1
    assert node.profiles.counts == {("pytorch", "complaint"): 1}


def test_an_unmatched_profile_is_kept_and_says_why(node: Node) -> None:
    """It opens no recommendation."""
    foreign = replace(waits(node).devices[0], device=ProfiledDevice("0", uuid="GPU-9"))
    (taken,) = node.profiles.take([replace(waits(node), devices=(foreign,))])

    assert taken.unmatched == "no GPU of this node has the uuid GPU-9"
    assert node.profiles.counts == {("pytorch", "unmatched"): 1}
    assert node.open() == []


@pytest.mark.parametrize("start", [0, 2**62, 2**63 - 1, 2**80])
def test_times_that_no_clock_has_are_no_times(node: Node, start: int) -> None:
    """The profile is stored and listed, but matches no holder."""
    (taken,) = node.profiles.take([replace(waits(node), start=start)])

    assert taken.key is None
    assert "time" in taken.unmatched
    assert node.open() == []


def test_only_so_many_are_kept(node: Node) -> None:
    """The oldest are deleted, on disk too."""
    settings = ProfileSettings(kept_maximum=3)
    for number in range(5):
        node.work(1)
        node.restart(settings)
        node.profiles.take([waits(node, source=f"{number}.json")])
    node.restart(settings)

    assert [profile.sources for profile in node.profiles.profiles()] == [
        ("4.json",),
        ("3.json",),
        ("2.json",),
    ]


def test_a_disk_that_fails_loses_nothing(node: Node) -> None:
    """The next run of the recommender that can write does so."""
    connection = sqlite3.connect(node.base.path)
    connection.execute("ALTER TABLE profile RENAME TO away")
    with capture_logs() as logs:
        node.profiles.take([waits(node)])
    assert "profiles_not_saved" in [log["event"] for log in logs]
    connection.execute("ALTER TABLE away RENAME TO profile")
    connection.close()
    assert node.open()
    node.restart()

    assert len(node.profiles.profiles()) == 1


def test_profile_of_a_newer_program_is_skipped_and_kept(node: Node) -> None:
    """It is readable after an upgrade."""
    node.profiles.take([waits(node)])
    kept = node.base.storage.profiles()
    node.base.storage.save_profiles({**kept, "later": json.dumps({"taken": 1, "form": 2})})
    node.restart()
    assert len(node.profiles.profiles()) == 1
    node.profiles.take([works(node)])

    assert set(node.base.storage.profiles()) > {"later"}


def test_many_threads_may_bring_profiles(node: Node) -> None:
    """None is lost."""
    threads = [
        threading.Thread(target=node.profiles.take, args=([waits(node, source=f"{each}")],))
        for each in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(node.profiles.profiles()) == len(threads)
    assert node.profiles.counts.total() == len(threads)


def test_without_a_database_profiles_count_until_the_end() -> None:
    """An agent without storage gives recommendations too."""
    accounting = AccountingService(AccountingSettings())
    storage = Storage("")
    found = ProfileService(accounting, storage, FastClock(EPOCH))
    (taken,) = found.take([waiting_profile()])

    assert taken.unmatched == "this node has no GPU 0"
    assert len(found.profiles()) == 1


def test_nothing_of_who_recorded_it_is_kept(node: Node, tmp_path: Path) -> None:
    """This covers the database and the API."""
    base = node.now - 10 * MINUTE
    trace = launch_bound_trace(tmp_path, baseTimeNanoseconds=base)
    node.profiles.take([open_profile(trace, ProfileSettings().read_limits)])
    (kept,) = node.base.storage.profiles().values()

    assert [secret for secret in SECRETS.values() if secret in kept] == []
    assert str(tmp_path) not in kept


def test_the_api_lists_what_was_taken_as_it_is_described(node: Node) -> None:
    """Covers matched and unmatched profiles, with and without telemetry."""
    node.profiles.take([waits(node), replace(waits(node), start=None, source="timeless.json")])
    route = profiles_route(node.profiles.profiles)
    answer = json.loads(route.handle(WebRequest("GET", route.path, {})).body)

    assert list(faults(answer, json_schema_of("GET", route.path))) == []
    assert {each["outcome"] for each in answer["profiles"]} == {"complaint", "unmatched"}
    (matched,) = (each for each in answer["profiles"] if each["workload"])
    assert matched["devices"][0]["telemetry"]["workload"] == JOB.key
    assert matched["contradictions"]

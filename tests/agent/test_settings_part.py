"""Effects of a reload on the complete agent: from the next run on, all or nothing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from readings import EPOCH, HELD, gpu, snapshot, workload
from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.reloader import SettingsPart
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import ConfigurationError, HistoryError
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.workload import WorkloadClass

MINUTES: Final = 300


class Notebook:
    """A GPU that a notebook holds idle for five hours, read each minute."""

    name = "notebook"

    def __init__(self) -> None:
        self._minutes = iter(range(MINUTES))

    def read(self) -> Snapshot | None:
        """Read the next minute."""
        minute = next(self._minutes, None)
        device = gpu()
        if minute is None:
            return None
        return snapshot(
            minute * 60.0,
            [device],
            {device: HELD},
            interval_seconds=60.0,
            holders={device: workload("ana", WorkloadClass.NOTEBOOK)},
        )

    def close(self) -> None:
        """Nothing is held."""


class File:
    """An operator's file, which may be invalid."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def read(self) -> Settings:
        """Read the current settings."""
        settings = load(Settings, self.text, "rightsizer.yaml")
        web = replace(settings.web, listen_addresses=("127.0.0.1:0",))
        sampling = replace(settings.sampling, interval=60.0)
        return replace(settings, web=web, sampling=sampling)


@contextmanager
def agent_of(file: File) -> Iterator[Agent]:
    """An agent after the notebook's five hours, before any judgement."""
    storage = Storage("")
    settings = file.read()
    source = Notebook()
    agent = Agent(
        settings,
        source,
        source_name=source.name,
        clock=FastClock(EPOCH),
        storage=storage,
        reread=file.read,
    )
    agent.coordinator.run(threading.Event())
    try:
        yield agent
    finally:
        storage.close()


def open_advice(agent: Agent) -> list[str]:
    """The reasons of open advice after another run."""
    agent.advice_service.recommend()
    return [str(each.finding.reasons[0]) for each in agent.advice_service.advice if each.is_open]


def test_a_threshold_holds_from_the_next_run_on() -> None:
    """Five idle hours are no finding under the operator's higher threshold."""
    file = File("recommender: {rules: {idle: {notebook: 1d}}}")
    with agent_of(file) as agent:
        before = open_advice(agent)
        file.text = "recommender: {rules: {idle: {notebook: 1h}}}"
        agent.reloader.reload()
        after = open_advice(agent)

    assert before == []
    assert after == ["IdleHeld"]


def test_a_policy_holds_from_the_next_run_on() -> None:
    """Excluded findings do not open, and holders have the class of the policy."""
    file = File("recommender: {rules: {idle: {notebook: 1h}}}")
    with agent_of(file) as agent:
        file.text += "\npolicies: [{match: {owner: ana}, ignore: [{why: he knows}]}]"
        agent.reloader.reload()
        ignored = open_advice(agent)
        file.text = file.text.replace("owner: ana", "owner: bob")
        agent.reloader.reload()
        advised = open_advice(agent)

    assert ignored == []
    assert advised == ["IdleHeld"]


def test_open_advice_survives_new_ledger_settings() -> None:
    """From then on they apply to it."""
    file = File("recommender: {rules: {idle: {notebook: 1h}}}")
    with agent_of(file) as agent:
        (opened,) = open_advice(agent) and agent.advice_service.advice
        file.text = file.text.replace("{rules", "{ledger: {snoozed: 3d}, rules")
        agent.reloader.reload()
        (kept,) = agent.advice_service.advice

    assert kept == opened


def test_nothing_is_in_force_of_a_reload_that_one_part_refuses() -> None:
    """The file is valid, but a thing that it names is missing."""
    file = File("recommender: {rules: {idle: {notebook: 1d}}}")
    with agent_of(file) as agent:
        before = agent.settings
        file.text = (
            "recommender: {rules: {idle: {notebook: 1h}}}\n"
            "catalogue: {prices_file: /nowhere/prices.yaml}\n"
        )
        with pytest.raises(ConfigurationError, match=r"/nowhere/prices\.yaml: there is no such"):
            agent.reloader.reload()
        advised = open_advice(agent)
        refused = dict(agent.reloader.metrics())
        file.text = ""
        agent.reloader.reload()

    assert agent.settings != before
    assert advised == []
    assert refused["rightsizer_config_last_reload_successful"] == 0.0
    assert agent.reloader.metrics()["rightsizer_config_last_reload_successful"] == 1.0


def test_setting_that_needs_a_restart_is_named_and_unchanged() -> None:
    """The rest of the file takes effect."""
    file = File()
    with agent_of(file) as agent, capture_logs() as logs:
        file.text = (
            "{history: {path: /elsewhere, retention: 9d}, log: {level: error, format: json}}"
        )
        agent.reloader.reload()
        settings = agent.settings

    (entry,) = [log for log in logs if log["event"] == "restart_needed"]
    assert entry["keys"] == "history.path,log.format"
    assert settings.history.retention == 9 * 86400.0
    assert settings.history.path == Settings().history.path


def test_settings_that_cannot_be_put_in_force_leave_the_others() -> None:
    """An unreadable outbox of a new webhook is an example."""

    def refuse(*_: object) -> None:
        raise HistoryError("history '/x' cannot be read")

    wanted = replace(Settings(), node=replace(Settings().node, pool="blue"))
    part = SettingsPart(Settings(), lambda: wanted, refuse, wall_time=lambda: EPOCH)

    with pytest.raises(ConfigurationError, match="cannot be read"):
        part.prepare()()
    assert part.trouble == "history '/x' cannot be read"

"""Public interface for Python: the answers of the commands, typed, for notebooks and programs.

Each function loads what it needs when it is called. Faults are raised as
`rightsizer.model.errors.RightsizerError`, with the texts of the commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

# Loaded before the functions of their names, whose place in the package they would take later.
import rightsizer.catalogue
import rightsizer.fleet  # noqa: F401 - the same.

if TYPE_CHECKING:
    from rightsizer.agent.replay import Replay
    from rightsizer.catalogue.catalogue import Catalogue
    from rightsizer.fleet.encoder import FleetAnswer
    from rightsizer.planner.planner import PlanAnswer
    from rightsizer.profiler.workload import ProfileAnswer

_Settings = TypeVar("_Settings")
_Paths = str | Path | Iterable[str | Path]


def plan(
    model: str | Path, *, configuration: str | Path | None = None, **question: Any
) -> PlanAnswer:
    """Find the GPUs that fit a model and its load, as `rightsizer plan` does.

    Args:
        model: A model's name, or the path of its configuration or folder.
        configuration: A configuration file; the usual one if `None`.
        question: Keys of a plan file: `rps=3`, `ttft="500ms"`, `gpus=["h100", "l40s"]`.

    Returns:
        The plan with its curve, candidates in rank order, and what was assumed, in `notes`.

    Raises:
        RequirementError: the model is unknown, or the question has faults, of which it names all.
        ConfigurationError: the configuration has faults.
    """
    from rightsizer.catalogue.catalogue import read_catalogue
    from rightsizer.catalogue.prices_file import read_prices
    from rightsizer.planner.learned import closed_note, read_learned
    from rightsizer.planner.plan_file import plan_of_keys
    from rightsizer.planner.planner import Planner, plan_answers
    from rightsizer.planner.settings import PlannerSettings

    settings = _settings(PlannerSettings, configuration)
    boards = read_catalogue(settings.catalogue.boards_path)
    prices = read_prices(settings.catalogue.prices_path, boards, settings.prices)
    asked = {
        key: list(value) if isinstance(value, tuple) else value for key, value in question.items()
    }
    file = plan_of_keys({"model": str(model), **asked})
    learned_file = settings.sizing.learned_file
    site = read_learned(learned_file)
    planner = Planner(boards, prices, settings.sizing, site, closed_note(learned_file))
    (answer,) = plan_answers(file, planner, has_curve=True)
    return answer


def replay(  # noqa: PLR0913 - the flags of the command.
    files: _Paths,
    *,
    board: str | None = None,
    device: str | None = None,
    devices: int | None = None,
    columns: str | Path | None = None,
    fields: str | None = None,
    jobs: Sequence[str] = (),
    configuration: str | Path | None = None,
) -> Replay:
    """Account for a whole recording and judge it, as `rightsizer replay` does.

    Args:
        files: One file, or several of one recording.
        board: Board of devices whose name was not recorded.
        device: Name of the only device of a log that names none; a number is its index.
        devices: Number of devices of a log that names none.
        columns: A column map, for CSV of an unknown format.
        fields: Names of the columns of a log without a heading, separated by commas.
        jobs: GPUs of jobs, as in `0-3`, or `none`; inferred if empty.
        configuration: A configuration file; the usual one if `None`.

    Returns:
        Accounts by device, findings, advice, and the evidence that they rest on.

    Raises:
        RecordingError: a file cannot be read, or lacks what a recording needs.
        UsageError: there is no such board, or two arguments contradict each other.
        ConfigurationError: column map or configuration have faults.
    """
    from rightsizer.agent.replay import replay as replay_source
    from rightsizer.agent.settings import Settings
    from rightsizer.catalogue.catalogue import built_in
    from rightsizer.recordings.source import open_recording
    from rightsizer.recordings.unnamed_devices import StatedDevices

    settings = _settings(Settings, configuration)
    source = open_recording(
        _paths(files),
        catalogue=built_in(),
        board=board,
        columns=_path(columns),
        stated=StatedDevices(devices, device),
        fields=fields,
        jobs=jobs,
    )
    with closing(source):
        return replay_source(source, settings, evidence=source.evidence)


def profile(
    files: _Paths,
    *,
    against: _Paths = (),
    history: str | Path | None = None,
    configuration: str | Path | None = None,
) -> ProfileAnswer:
    """Judge profilers' files, as `rightsizer profile` does.

    Args:
        files: Files or their folders, in any order.
        against: Earlier profiles, one for each workload, in the same order.
        history: An agent's history, whose telemetry the findings are weighed with.
        configuration: A configuration file; the usual one if `None`.

    Returns:
        Workloads with their profiles and findings, complaints first.

    Raises:
        ProfileError: a named file cannot be read, or no file of a folder can.
        HistoryError: the history cannot be read.
        UsageError: the numbers of earlier and later workloads differ.
        ConfigurationError: the configuration has faults.
    """
    from rightsizer.console.flags import write_up_to_now
    from rightsizer.profiler.profiled_files import ProfileAnswerSettings, profile_files

    settings = _settings(ProfileAnswerSettings, configuration)
    return profile_files(
        _paths(files), _paths(against), _path(history), settings=settings, flush=write_up_to_now
    )


def catalogue(boards: str | Path | None = None) -> Catalogue:
    """Return the known GPUs, extended by a file of boards if one is given.

    `catalogue().get("h100")` is a board, whose memory is in bytes, and whose rates are in bytes or
    operations a second; `catalogue().search("ada 48")` finds boards by words.

    Raises:
        ConfigurationError: the file has faults.
    """
    from rightsizer.catalogue.catalogue import read_catalogue

    return read_catalogue(_path(boards))


def fleet(
    store_url: str | None = None,
    *,
    lookback_seconds: float | None = None,
    at: datetime | None = None,
    keeps_all: bool = False,
    configuration: str | Path | None = None,
) -> FleetAnswer:
    """Judge a fleet from its store once, as `rightsizer fleet` does; nothing is saved or sent.

    Args:
        store_url: Address of Prometheus, Thanos, Mimir or VictoriaMetrics; else the configured one.
        lookback_seconds: Length of the span; else the configured one.
        at: End of the span, with a time zone; now if `None`.
        keeps_all: Whether verdicts without a complaint are kept too.
        configuration: A configuration file of the fleet; the usual one if `None`.

    Returns:
        Use by owner, pools, holders, findings and ranked advice.

    Raises:
        StoreError: the store does not answer, or not wholly.
        UsageError: the span is too short or too long, or `at` has no time zone.
        ConfigurationError: the configuration has faults, or no store is known.
    """
    from rightsizer.console.flags import CONFIGURATION, FLEET_FILE, with_values
    from rightsizer.fleet.judge import FleetJudge
    from rightsizer.fleet.run import run_once
    from rightsizer.fleet.settings import FleetConfig, with_lookback
    from rightsizer.io.clock import FastClock, SystemClock
    from rightsizer.model.errors import UsageError
    from rightsizer.model.units import nanoseconds

    usual = CONFIGURATION.with_name(FLEET_FILE)
    stated = {"fleet.store.url": store_url}
    settings = with_values(_settings(FleetConfig, configuration, usual), stated)
    if lookback_seconds is not None:
        settings = with_lookback(settings, lookback_seconds, "lookback_seconds")
    if at is not None and at.tzinfo is None:
        raise UsageError(f"at: {at} has no time zone; give one, such as datetime.now(UTC)")
    clock = SystemClock() if at is None else FastClock(nanoseconds(at.timestamp()))
    with FleetJudge(settings, clock, keeps_all=keeps_all) as judge:
        return run_once(judge, settings, clock)


def _settings(
    root: type[_Settings], file: str | Path | None, usual: Path | None = None
) -> _Settings:
    """Load the sections of a configuration file; from now on only warnings are logged."""
    from rightsizer.config.loader import load_sections
    from rightsizer.console.flags import CONFIGURATION, readable
    from rightsizer.io.log import configure_for_importers

    configure_for_importers()
    return load_sections(root, _path(file) or readable(usual or CONFIGURATION), os.environ)


def _path(file: str | Path | None) -> Path | None:
    return None if file is None else Path(file)


def _paths(files: _Paths) -> tuple[Path, ...]:
    return (Path(files),) if isinstance(files, str | Path) else tuple(map(Path, files))

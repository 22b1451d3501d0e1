"""One agent under one fault, from its start to its end, as a row of the table."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Final

from agent_process import run_rightsizer
from benchmarks.reliability.faults import BEGIN_SECONDS, Fault
from benchmarks.reliability.node import GPUS, Node, Scrape, Scraper

_PATIENCE_SECONDS: Final = 60.0
_AFTERWARDS_SECONDS: Final = 4.0
"""How long a recovered agent is still watched: some recover and fall again."""
_STATES: Final = "rightsizer_state_seconds_total"
_LAST: Final = "rightsizer_device_last_sample_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a trial."""

    fault: Fault
    scrapes: int
    unanswered: int
    longest_seconds: float
    """Of a scrape."""
    recovered_seconds: float | None
    """From the end of the fault until all GPUs were read again; `None` where they never were."""
    lost_seconds: tuple[float, float]
    """Without a known state: of the GPU with the fault, and of the others, at most."""
    opens: bool
    """Whether the history can be read afterwards."""
    warnings_logged: tuple[str, ...]
    """What it logged at warning and above, by event."""


def attempt(fault: Fault) -> Outcome:
    """Run an agent, plant the fault, and watch it recover."""
    with tempfile.TemporaryDirectory(prefix="reliability-") as name:
        node = Node.in_folder(Path(name), fault.scenario, fault.config)
        if fault.prepare:
            fault.prepare(node)
        scraper = Scraper(node.port)
        started = time.monotonic()
        try:
            node.start()
            scraper.start()
            mended = _suffer(fault, node, started)
            recovered = _recovery(scraper, mended, fault)
            time.sleep(_AFTERWARDS_SECONDS)
            scraper.stop()
            node.end()
        finally:
            node.close()
        return _outcome(fault, node, scraper.scrapes, recovered)


def _suffer(fault: Fault, node: Node, started: float) -> float:
    """When the fault ended."""
    if fault.plant is not None:
        time.sleep(max(0.0, started + BEGIN_SECONDS - time.monotonic()))
        fault.plant(node)
        time.sleep(fault.seconds)
        if fault.mend is not None:
            fault.mend(node)
        return time.monotonic()
    begin = 0.0 if fault.is_at_start else BEGIN_SECONDS
    end = started + begin + fault.seconds
    time.sleep(max(0.0, end - time.monotonic()))
    return end


def _recovery(scraper: Scraper, mended: float, fault: Fault) -> float | None:
    """Time at which every GPU was read again; `None` if no scrape in time shows it."""
    untouched = GPUS - len(fault.gpus) if fault.lasts else GPUS
    while time.monotonic() < mended + _PATIENCE_SECONDS:
        for scrape in list(scraper.scrapes):
            if scrape.time_seconds >= mended and _devices_up(scrape) >= untouched:
                return scrape.time_seconds + scrape.took_seconds - mended
        time.sleep(0.1)
    return None


def _devices_up(scrape: Scrape) -> int:
    if scrape.status != HTTPStatus.OK:
        return 0
    return sum(value == 1.0 for _, value in scrape.samples.get("rightsizer_device_up", ()))


def _outcome(
    fault: Fault,
    node: Node,
    scrapes: Sequence[Scrape],
    recovered: float | None,
) -> Outcome:
    warnings = {"warning", "error", "critical"}
    warnings_logged = {str(line["event"]) for line in node.log() if line.get("level") in warnings}
    read = run_rightsizer("report", "--history.path", str(node.history))
    if read.returncode:
        print(read.stderr)
    return Outcome(
        fault=fault,
        scrapes=len(scrapes),
        unanswered=sum(scrape.status != HTTPStatus.OK for scrape in scrapes),
        longest_seconds=max((scrape.took_seconds for scrape in scrapes), default=0.0),
        recovered_seconds=recovered,
        lost_seconds=_lost(fault, [s for s in scrapes if s.status == HTTPStatus.OK]),
        opens=read.returncode == 0,
        warnings_logged=tuple(sorted(warnings_logged)),
    )


def _lost(fault: Fault, scrapes: Sequence[Scrape]) -> tuple[float, float]:
    """Seconds of no known state: of the GPUs with the fault, and of the others."""
    known = [_known(scrape) for scrape in scrapes]
    begin = min((time for each in known for time, _ in each.values()), default=0.0)
    has_fault = _with_fault(fault, scrapes[-1]) if scrapes else {}
    lost = {True: 0.0, False: 0.0}
    for uuid in known[-1] if known else ():
        seen = [each[uuid] for each in known if uuid in each]
        # A counter that begins again has counted what it shows, as in Prometheus' increase.
        counted = sum(
            after - before if after >= before else after
            for (_, before), (_, after) in pairwise(seen)
        )
        spoiled = seen[-1][0] - begin - counted - seen[0][1]
        is_with_fault = has_fault.get(uuid, False)
        lost[is_with_fault] = max(lost[is_with_fault], spoiled)
    return lost[True], lost[False]


def _with_fault(fault: Fault, scrape: Scrape) -> dict[str, bool]:
    """Whether the fault is of a GPU, or of the GPU of a MIG instance, by UUID."""
    return {
        labels["uuid"]: any(labels["gpu"].split("/")[0] == str(gpu) for gpu in fault.gpus)
        for labels, _ in scrape.samples["rightsizer_device_info"]
    }


def _known(scrape: Scrape) -> dict[str, tuple[float, float]]:
    """When each GPU was last read, and its seconds in a known state up to then, by UUID."""
    known: dict[str, float] = {}
    for labels, value in scrape.samples.get(_STATES, ()):
        if labels["state"] != "unknown":
            known[labels["uuid"]] = known.get(labels["uuid"], 0.0) + value
    return {
        labels["uuid"]: (value, known.get(labels["uuid"], 0.0))
        for labels, value in scrape.samples.get(_LAST, ())
    }

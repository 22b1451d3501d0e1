"""`rightsizer report`: a document from a real history, for any span."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import run_rightsizer
from cases import judgement
from plan_answers import SHAPE
from readings import EPOCH, HOUR, gpu, workload
from recordings import BOARD, SIGNALS_OF, write_states
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.storage import Storage
from rightsizer.agent.local_api import report_route
from rightsizer.agent.settings import Settings
from rightsizer.cli.main import main
from rightsizer.console.flags import with_values
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.state import Cause, State
from rightsizer.model.window import Window, workload_subject
from rightsizer.web.server import WebServer

Captured = pytest.CaptureFixture[str]
HOURS: Final = 50


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Fifty hours of GPU 0, held by a job; the second day was not recorded."""
    path = tmp_path / "history.db"
    job = workload("llama")
    hours = [hour for hour in range(HOURS) if not 24 <= hour < 48]
    windows = [_window(subject, hour) for hour in hours for subject in ("GPU-0", job.key)]
    storage = Storage(str(path), is_durable=False)
    storage.save_windows(windows, (), [DeviceRecord(gpu(0), job, EPOCH)])
    ledger = Ledger()
    ledger.update([judgement()], EPOCH + HOUR)
    storage.save_ledger(ledger)
    storage.close()
    return path


def _window(subject: str, hour: int) -> Window:
    start = EPOCH + hour * HOUR
    state = State.IDLE_HELD if hour % 2 else State.PRODUCTIVE
    return Window(
        subject if subject == "GPU-0" else workload_subject(subject),
        start,
        start + HOUR,
        {state: HOUR},
        waste_seconds={Cause.IDLE: 3600.0 * (hour % 2)},
        used_seconds=3600.0 * (1 - hour % 2),
    )


def reported(capsys: Captured, history: Path, *flags: str) -> dict[str, Any]:
    """The JSON output."""
    status = main(["report", "--history.path", str(history), "--format", "json", *flags])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def refused(capsys: Captured, *flags: str) -> tuple[int, str]:
    """The exit status and error of a command without output."""
    status = main(["report", *flags])
    out, err = capsys.readouterr()
    assert out == ""
    return status, err


def test_bill_is_written_as_its_file_is_named(
    history: Path, capsys: Captured, tmp_path: Path
) -> None:
    """CSV, or Parquet; no other format is Parquet."""
    flags = ("report", "--history.path", str(history))
    assert main([*flags, "--format", "focus"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("BillingAccountId,")
    assert main([*flags, "--format", "focus", "--output", str(tmp_path / "bill.csv")]) == 0
    assert (tmp_path / "bill.csv").read_bytes().decode().rstrip() == text.rstrip()
    output = ("--output", str(tmp_path / "bill.parquet"))
    status, error = refused(capsys, *flags[1:], *output)
    assert status == 2
    assert "Parquet is for --format focus" in error


def test_next_command_asks_the_same_history(history: Path, capsys: Captured) -> None:
    """It can be copied as it is."""
    flags = ("--history.path", str(history))
    assert main(["report", *flags, "--format", "text"]) == 0
    assert f"rightsizer explain aaaaaaaaaaaa {' '.join(flags)}\n" in capsys.readouterr().out


def _without_commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if "rightsizer" not in line]


def test_an_agent_elsewhere_gives_the_same_document(
    history: Path, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte; a wrong flag has the same message as with a local history."""
    document = reported(capsys, history, "--last", "30h")
    file = tmp_path / "report.html"
    settings = with_values(Settings(), {"history.path": str(history)})
    server = WebServer(
        ["127.0.0.1:0"],
        latest=lambda: None,
        exposition=MetricsExposition(lambda: None),
        local_routes=(report_route(lambda: settings),),
    )
    server.start()
    try:
        url = ("--url", f"http://{server.addresses[0]}")
        assert main(["report", *url, "--last", "30h", "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == document
        assert main(["report", *url, "--output", str(file)]) == 0
        assert file.read_text().startswith("<!doctype html>")
        monkeypatch.setenv("COLUMNS", "60")
        assert main(["report", *url, "--last", "30h", "--format", "text"]) == 0
        text = capsys.readouterr().out
        # Lines are as wide as the reader's terminal.
        assert max(map(len, _without_commands(text))) <= 60
        flags = ("--history.path", str(history), "--last", "30h", "--format", "text")
        assert main(["report", *flags]) == 0
        assert _without_commands(capsys.readouterr().out) == _without_commands(text)
        assert "give one of them" in refused(capsys, *url, "--last", "30h", "--from", "5")[1]
        settings = with_values(settings, {"history.path": ""})
        assert "keeps no history" in refused(capsys, *url)[1]
    finally:
        server.stop()


def test_all_that_there_is_by_default(history: Path, capsys: Captured) -> None:
    """Up to seven days, from the start of the history; unrecorded time is a gap."""
    document = reported(capsys, history)

    assert document["span"]["end"] - document["span"]["start"] == HOURS * 3600
    assert document["summary"]["known_hours"] == 26
    assert document["summary"]["groups"]["no_data"] == 24
    assert document["health"]["unrecorded_hours"] == 24
    (gap,) = document["health"]["gaps"]
    assert gap["end"] - gap["start"] == 86400
    assert [row["workload"] for row in document["workloads"]] == ["slurm/llama"]
    assert document["workloads"][0]["devices"] == ["GPU 0"]
    assert document["devices"][0]["workloads"] == ["slurm/llama"]
    assert [row["id"] for row in document["advice"]] == ["aaaaaaaaaaaa"]
    assert document["prices"][0]["dollars_per_hour_low"] > 0


@pytest.mark.parametrize(
    ("flags", "first", "hours"),
    [
        (("--last", "2h"), 48, 2),
        (("--last", "7d"), HOURS - 168, 168),
        (("--from", "2026-01-01T06:30", "--to", "2026-01-01T08:10"), 6, 3),
        (("--from", "2026-01-01", "--to", "2026-01-02", "--timezone", "Etc/GMT-3"), -3, 24),
        (("--from", str(EPOCH // 10**9), "--to", "2026-01-01T01:00:00Z"), 0, 1),
    ],
)
def test_a_span_is_of_whole_hours(
    history: Path, capsys: Captured, flags: tuple[str, ...], first: int, hours: int
) -> None:
    """It is widened if needed, by the calendar of the time zone."""
    span = reported(capsys, history, *flags)["span"]

    assert span["start"] == EPOCH / 10**9 + first * 3600
    assert span["end"] - span["start"] == hours * 3600


def test_a_span_without_data_says_so(history: Path, capsys: Captured) -> None:
    """It is no error."""
    document = reported(capsys, history, "--from", "2026-03-01", "--to", "2026-03-08")

    assert document["story"][0].startswith("Nothing is known of this span")
    assert document["summary"]["known_hours"] == 0


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--from", "2100-01-01"), "--from: lies after the end of the history"),
        (("--from", "2026-01-02", "--to", "2026-01-01"), "--to: is not after --from"),
        (("--from", "1999-01-01"), "--from: lies more than 366 days before"),
        (("--from", "2026-01-01", "--last", "7d"), "--last: --from already says"),
        (("--from", "soon"), "--from: 'soon' is not a time; write it like"),
        (("--timezone", "Mars/Olympus"), "--timezone: 'Mars/Olympus' is not known"),
        (("--timezone", "../etc"), "--timezone: '../etc' is not known"),
    ],
)
def test_a_span_that_cannot_be_is_refused(
    history: Path, capsys: Captured, flags: tuple[str, ...], expected: str
) -> None:
    """The error names the flag and the valid form."""
    status, err = refused(capsys, "--history.path", str(history), *flags)

    assert status == 2
    assert expected in err


def test_a_history_that_is_none_is_refused(tmp_path: Path, capsys: Captured) -> None:
    """A missing or empty one, with the remedy."""
    status, err = refused(capsys, "--history.path", str(tmp_path / "none.db"))
    assert (status, "none.db" in err) == (1, True)
    empty = tmp_path / "empty.db"
    storage = Storage(str(empty))
    storage.save_windows([], (), [DeviceRecord(gpu(0))])
    storage.close()
    status, err = refused(capsys, "--history.path", str(empty))
    assert (status, "is empty; let the agent run" in err) == (1, True)


def test_the_report_is_not_written_over_the_history(history: Path, capsys: Captured) -> None:
    """Naming it twice is a mistake."""
    before = history.read_bytes()
    flags = ("--history.path", str(history), "--output", str(history))

    assert refused(capsys, *flags)[0] == 2
    assert history.read_bytes() == before


def test_the_same_history_gives_the_same_bytes(history: Path, tmp_path: Path) -> None:
    """In a process with other hashes, into a file that appears when it is complete."""
    one = tmp_path / "one.html"
    two = tmp_path / "two.html"
    flags = ("report", "--history.path", str(history), "--output")
    assert main([*flags, str(one)]) == 0
    assert run_rightsizer(*flags, two).returncode == 0

    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if "partial" in path.name) == []


def test_a_writer_beside_is_no_hindrance(history: Path, capsys: Captured) -> None:
    """The agent keeps its lock, and the next report has what it added."""
    storage = Storage(str(history))
    before = reported(capsys, history)["summary"]["known_hours"]
    storage.save_windows([_window("GPU-0", HOURS)], (), [DeviceRecord(gpu(0))])
    after = reported(capsys, history)["summary"]["known_hours"]
    storage.close()

    assert after == before + 1


def test_a_replayed_history_is_judged_for_the_report(tmp_path: Path, capsys: Captured) -> None:
    """It has no ledger; the rules judge it, and the states are those of the replay."""
    chapters = [(state, 600) for state in SIGNALS_OF]
    recording = write_states(tmp_path / "one.csv", *chapters, device="GPU-0")
    path = tmp_path / "replayed.db"
    assert main(["replay", str(recording), "--board", BOARD, "--into", str(path), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)["devices"][0]
    document = reported(capsys, path)

    assert document["advice_is_judged_now"]
    states = {state: hours * 3600 for state, hours in document["devices"][0]["states"].items()}
    assert states == pytest.approx(
        {state: time for state, time in replayed["states"].items() if time}
    )


def test_a_plan_is_a_page_too(tmp_path: Path, capsys: Captured) -> None:
    """With the same components: candidates, memory as bars, costs and checks."""
    file = tmp_path / "plan.yaml"
    page = tmp_path / "plan.html"
    model = {**SHAPE, "name": "<script>"}
    file.write_text(json.dumps({"model": model, "gpus": ["L4", "H100-SXM5-80GB"]}))

    assert main(["plan", str(file), "--details", "--html", str(page)]) == 0
    assert "rightsizer record" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "why not first" in text
    assert "before it is trusted" in text
    assert re.search(r"<svg[^>]*>.*?weights, [0-9.]+ GiB</td>", text)


def test_a_list_of_plans_is_one_page(tmp_path: Path) -> None:
    """An unanswerable item is reported in its place."""
    file = tmp_path / "plan.yaml"
    page = tmp_path / "plan.html"
    broken = {"model": {"parameters": -1}}
    file.write_text(json.dumps([{"model": SHAPE, "gpus": ["L4"]}, broken]))

    assert main(["plan", str(file), "--html", str(page)]) == 1
    assert page.read_text(encoding="utf-8").count('<p class="warning">error: ') == 1
    assert main(["plan", str(file), "--html", str(file)]) == 2


def test_a_terminal_gets_a_screenful_of_text(
    history: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets the page; a flag overrides both."""
    ask = ["report", "--history.path", str(history)]
    assert main(ask) == 0
    piped = capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(ask) == 0
    shown = capsys.readouterr().out
    assert main([*ask, "--format", "markdown"]) == 0

    assert piped.startswith("<!doctype html>")
    assert shown.startswith("GPU report, ")
    assert len(shown.splitlines()) < 30
    assert capsys.readouterr().out.startswith("# GPU report, ")

"""`rightsizer fleet`: text for people, JSON for programs, and refusals."""

import argparse
import json
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from advice_history import keep_advice
from benchmarks.fleet_dcgm import value_of
from cases import NOW
from fleet_answers import END, fleet_answer, sources
from fleet_command import asked_in_process, configured
from fleet_loopback import LoopbackStore, loopback_store
from rightsizer.cli.main import main
from rightsizer.cli.recommendation import EXPLAIN
from rightsizer.console.progress import ProgressLine
from rightsizer.fleet.answer_blocks import fleet_blocks, plan_blocks
from rightsizer.fleet.encoder import encode_answer, fetch_document
from rightsizer.fleet.fetch import FetchPlan
from rightsizer.fleet.model import FleetView
from rightsizer.io.codec import plain
from rightsizer.report.block_text import text_of

GoldenFile = Callable[[str | Path, str], None]
WIDTH: Final = 100


@pytest.fixture(scope="module")
def store() -> Iterator[LoopbackStore]:
    """Eight GPUs."""
    with loopback_store(8) as found:
        yield found


@pytest.fixture
def config(store: LoopbackStore, tmp_path: Path) -> Path:
    """One day back."""
    return configured(tmp_path, store.url, lookback="1d")


def fleet_text(**facts: Any) -> str:
    """The text of an answer."""
    return text_of(fleet_blocks(encode_answer(fleet_answer(**facts))))


def test_the_text_is_as_it_was(golden: GoldenFile) -> None:
    """Inventory, findings, costs by owner, and next steps."""
    golden("fleet.txt", fleet_text() + "\n")


def test_the_json_is_as_it_was(golden: GoldenFile) -> None:
    """Key by key."""
    golden("fleet.json", json.dumps(encode_answer(fleet_answer()), indent=1) + "\n")


def test_dry_run_describes_the_queries(golden: GoldenFile) -> None:
    """Days, shards, queries and samples."""
    plan = FetchPlan((), (14, 13, 12), (11,), 100, 400, 5_678_900)
    document = plain(fetch_document(sources(), plan, 1_234, END))
    golden("fleet-plan.txt", text_of(plan_blocks(document)) + "\n")


def test_no_line_is_longer_than_a_terminal() -> None:
    """Long names are cut in tables, and sentences are wrapped."""
    answer = fleet_answer()
    long = "a-name-that-nobody-would-want-to-type-" * 2
    pools = tuple(replace(pool, name=long) for pool in answer.view.pools)
    usage = tuple(replace(each, team=long) for each in answer.usage)
    notes = (long + " " + long,)
    text = fleet_text(view=replace(answer.view, pools=pools), usage=usage, notes=notes)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_empty_source_is_not_listed_as_found() -> None:
    """Empty sources share one line; a fleet without advice says so."""
    text = fleet_text(advice=(), node_advice=(), judgements=(), tallies={})
    assert "  slurm" not in text
    assert "  not in the store: slurm" in text
    assert "0 open recommendations." in text
    assert "No rule found anything that holds over both of its spans" in text
    assert "Rules that would not say anything" not in text


def test_an_empty_estate_has_no_tables() -> None:
    """There is no division by zero either."""
    nothing = {"judgements": (), "waiting": (), "served": ()}
    text = fleet_text(view=FleetView(0, END, (), ()), usage=(), **nothing)
    assert text.startswith("0 GPUs in 0 pools, 0 workloads, over 14 d")
    assert "GPU-hours" not in text


def test_long_lists_are_cut_and_say_so() -> None:
    """JSON has all of them."""
    answer = fleet_answer()
    pools = tuple(replace(answer.view.pools[0], name=f"p{at}") for at in range(25))
    advice = tuple(
        replace(each, finding=replace(each.finding, id=f"{each.id[:-2]}{at:02d}"))
        for at in range(30)
        for each in answer.advice[:1]
    )
    text = fleet_text(view=replace(answer.view, pools=pools), advice=advice)
    assert "and 5 more pools; --json has all" in text
    assert "and 20 more; --top shows more, --json has all" in text


def test_a_look_answers_in_every_form(config: Path, tmp_path: Path) -> None:
    """Text, JSON and a page; the second run fetches only today again."""
    page = tmp_path / "estate.html"
    first = asked_in_process(config, "--at", str(NOW / 1e9), "--html", str(page))
    assert first.status == 0, first.err
    assert first.out.startswith("8 GPUs in 1 pool, 2 workloads, over 1 d")
    assert "8 GPUs in 1 pool" in page.read_text("utf-8")
    second = asked_in_process(config, "--at", str(NOW / 1e9), "--json", "--all").document
    assert second["gpus"] == 8
    assert any(each["abstained"] for each in second["findings"])
    assert not any(each["id"] == "" for each in second["findings"])


def test_bill_is_answered_or_written_alone(config: Path, tmp_path: Path) -> None:
    """The same bytes; with --top the sums stay whole."""
    at = ("--at", str(NOW / 1e9), "--format", "focus")
    said = asked_in_process(config, *at)
    assert said.out.startswith("BillingAccountId,")
    file = tmp_path / "bills" / "bill.csv"
    assert asked_in_process(config, *at, "--top", "1", "--output", str(file)).out == ""
    assert file.read_bytes().decode().rstrip() == said.out.rstrip()


def test_a_dry_run_reads_nothing(config: Path, store: LoopbackStore) -> None:
    """Only the probe's queries are made; in JSON too."""
    said = asked_in_process(config, "--at", str(NOW / 1e9), "--dry-run")
    assert "Nothing was asked but the probe." in said.out.replace("\n", " ")
    document = asked_in_process(config, "--at", str(NOW / 1e9), "--dry-run", "--json").document
    assert document["device_days"] >= 8
    assert document["kept_device_days"] == 0
    assert document["queries"] > 0


def needed(name: str, moment: int, variant: int) -> float:
    """Values of GPUs that need every figure: all work, and some have dead counters."""
    return 0.0 if "_PROF_" in name and variant == 2 else value_of(name, moment, variant) or 10.0


@pytest.mark.parametrize("lookback", ["1d", "14d"])
@pytest.mark.parametrize(
    "kind", [{}, {"is_dcgm": True}, {"is_dcgm": True, "is_recorded": True}], ids=str
)
def test_a_dry_run_counts_what_a_look_asks(
    kind: dict[str, bool], lookback: str, tmp_path: Path
) -> None:
    """The count is that of the store; the ledger's question is no look's."""
    with loopback_store(12, metric_value=needed, **kind) as store:
        config = configured(tmp_path, store.url, lookback=lookback, samples_maximum=100_000)
        flags = ("--at", str(NOW / 1e9), "--json")
        plan = asked_in_process(config, *flags, "--dry-run").document
        store.asked.clear()
        used = asked_in_process(config, *flags).document["use"]["queries"]
        asked = [query for query in store.asked if "rightsizer_fleet_" not in query]
        assert plan["queries"] == used == len(asked)


def test_a_verdict_is_explained(config: Path) -> None:
    """A verdict without an action too, by an id of --json --all."""
    at = ("--at", str(NOW / 1e9))
    findings = asked_in_process(config, *at, "--json", "--all").document["findings"]
    one = next(finding["id"] for finding in findings if finding["rule"] == "idle_pool")
    explained = asked_in_process(config, *at, "--explain", one)
    assert "fleet.rules.idle_pool.on_ratio" in explained.out
    document = asked_in_process(config, *at, "--explain", one, "--json").document
    assert document["advice"]["id"] == one


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--serve", "--save"), "--save does not apply to --serve"),
        (("--serve", "--json"), "--format does not apply to --serve"),
        (("--serve", "--at", "0"), "--at does not apply to --serve"),
        (("--dry-run", "--html", "x.html"), "--html does not apply to --dry-run"),
        (("--explain", "abc", "--save"), "--save does not apply to --explain"),
        (("--web.listen-address", ":1"), "--web.listen-address is for --serve"),
        (("--all",), "--all is for --json"),
        (("--output", "x.csv"), "--output is for --format focus"),
        (("--serve", "--format", "focus"), "--format does not apply to --serve"),
        (("--explain", "abc", "--format", "focus"), "--format focus does not apply to --explain"),
        (("--lookback", "1h"), "--lookback: 1 h is less than 1 d"),
        (("--lookback", "1000d"), "--lookback: 1000 d is more than 90 d"),
    ],
)
def test_flags_that_do_not_fit_are_refused(config: Path, flags: tuple[str, ...], said: str) -> None:
    """Before any query: a flag without effect is a misunderstanding."""
    refused = asked_in_process(config, *flags)
    assert refused.status == 2
    assert said in refused.refusal


def test_no_store_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    """With the remedy."""
    said = asked_in_process(configured(tmp_path, ""))
    assert said.status == 78
    assert "--store.url" in said.refusal


def test_decisions_without_a_service_change_the_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explain` reads it without the store; a snooze takes a time of its own."""
    config = configured(tmp_path, "http://127.0.0.1:9", api_socket=str(tmp_path / "none.sock"))
    advice_id = keep_advice(tmp_path / "fleet-advice.db", NOW)
    fleet = ("--fleet", "--config.file", str(config))
    assert main(["snooze", advice_id, "--for", "7d", "--actor", "ana", *fleet]) == 0
    assert capsys.readouterr().out.startswith("Snoozed by ana: GPU 0: held but idle.\nIt stays so")
    assert main(["explain", advice_id, *fleet]) == 0
    assert "snoozed by ana" in capsys.readouterr().out
    assert main(["claim", "nosuchid", *fleet]) == 2
    assert "there is no advice 'nosuchid'" in capsys.readouterr().err


def test_decisions_read_the_installed_configuration_of_the_fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a flag, as `rightsizer fleet` does, and not the agent's beside it."""
    configured(tmp_path, "http://127.0.0.1:9").rename(tmp_path / "fleet.yaml")
    advice_id = keep_advice(tmp_path / "fleet-advice.db", NOW)
    parser = argparse.ArgumentParser()
    EXPLAIN.configure(parser)
    arguments = parser.parse_args([advice_id, "--fleet"])
    arguments.usual_config_file = tmp_path / "rightsizer.yaml"
    assert EXPLAIN.run(arguments) == 0
    assert "GPU 0: held but idle" in capsys.readouterr().out


def test_progress_is_one_line_that_is_gone_in_the_end() -> None:
    """Stages in order, drawn at most five times a second, and always when done."""
    now = 0.0
    screen = StringIO()
    with ProgressLine(screen, lambda: now) as progress:
        progress("reading", 0, 4)
        progress("reading", 1, 4)
        now = 0.5
        progress("reading", 2, 4)
        progress("reading", 4, 4)
    shown = screen.getvalue().split("\r\x1b[K")[1:]
    assert [each.rpartition("] ")[2] for each in shown] == ["0/4", "2/4", "4/4", ""]
    assert "\n" not in screen.getvalue()


def test_progress_of_nothing_is_no_fault() -> None:
    """If all days are cached, there are no shards to fetch."""
    screen = StringIO()
    with ProgressLine(screen, lambda: 0.0) as progress:
        progress("reading", 0, 0)
    assert "0/0" in screen.getvalue()

"""`rightsizer catalogue`: data of GPUs, for people and for programs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]
Golden = Callable[[str, str], None]


def said(captured: Captured, *arguments: str) -> str:
    """The printed output."""
    assert main(["catalogue", *arguments]) == 0
    out, err = captured.readouterr()
    assert err == ""
    return out


def entries_of(captured: Captured, *arguments: str) -> list[dict[str, Any]]:
    """The JSON answer."""
    answer = json.loads(said(captured, "--json", *arguments))
    assert isinstance(answer, list)
    return answer


def test_the_table_has_a_line_for_each_board(capsys: Captured, golden: Golden) -> None:
    """Verified values are distinguished, and each price has a date."""
    text = said(capsys)

    assert [line.split()[0] for line in text.split("\n\n")[0].splitlines()[1:]] == list(
        built_in().boards
    )
    golden("catalogue.txt", text)


@pytest.mark.parametrize("key", ["H100-SXM5-80GB", "MI300X", "RTX4090", "H100-SXM5-96GB"])
def test_a_card_tells_everything_and_who_says_so(
    key: str, capsys: Captured, golden: Golden
) -> None:
    """Each value has its origin, each price its date; the sources follow."""
    golden(f"catalogue-{key}.txt", said(capsys, key))


def test_boards_are_named_as_drivers_do(capsys: Captured) -> None:
    """Several names print several cards, in their order."""
    text = said(capsys, "Tesla T4", "nvidia h100 80gb hbm3 mig 1g.10gb")

    assert text.startswith("T4\n")
    assert "\n\nH100-SXM5-80GB\n" in text


def test_search_lists_what_has_every_word(capsys: Captured) -> None:
    """As a table with the same columns."""
    table = said(capsys, "--search", "h100 sxm5").split("\n\n", maxsplit=1)[0].splitlines()

    assert [line.split()[0] for line in table] == ["board", "H100-SXM5-80GB", "H100-SXM5-96GB"]


def test_json_has_every_figure_in_base_units_with_its_origin(capsys: Captured) -> None:
    """Every value has an origin, and every origin a value."""
    boards = entries_of(capsys)

    assert [board["key"] for board in boards] == list(built_in().boards)
    for board in boards:
        for name, origin in board["origins"].items():
            value: Any = board
            for step in name.split("."):
                value = value[step]
            assert value
            assert origin["kind"] in {"measured", "verified", "recalled", "assumed"}
            assert origin["source"]
        assert {f"peak_per_second.{each}" for each in board["peak_per_second"]} < (
            board["origins"].keys()
        )


def test_json_of_one_board(capsys: Captured) -> None:
    """Bytes, hertz, watts, seconds, dollars; unknown values are null."""
    (board,) = entries_of(capsys, "H100-SXM5-80GB")

    assert board["memory_bytes"] == 81559 * 2**20
    assert board["compute_capability"] == "9.0"
    assert board["peak_per_second"]["bf16"] == 989.4e12
    assert board["origins"]["peak_per_second.bf16"]["kind"] == "verified"
    assert board["efficiency"]["gemm"]["bf16"] == 0.764
    assert board["all_reduce"]["8"]["bytes_per_second"] == 445e9
    assert board["mig_profiles"][0]["memory_bytes"] == 9984 * 2**20
    assert board["price"]["on_demand"]["median_dollars_per_hour"] == 3.9
    assert "2025-03-07" in board["price"]["dates"]
    assert board["price"]["reserved"]["1"]["is_assumed"] is True
    (unpriced,) = entries_of(capsys, "H200-NVL-141GB")
    assert unpriced["price"] is None


def test_files_of_the_operator_change_what_is_said(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are named as its origin."""
    # A folder's name may be longer than a line.
    monkeypatch.chdir(tmp_path)
    boards = Path("boards.yaml")
    prices = Path("prices.yaml")
    boards.write_text("boards: {T4: {power_limit_watts: 60}}")
    prices.write_text("boards: {T4: {on_demand: 0.4, reserved: {1: 0.3}, dates: [2026-09-01]}}")
    text = said(capsys, "T4", "--catalogue", str(boards), "--prices", str(prices))

    lines = [" ".join(line.split()) for line in text.splitlines()]
    (limit,) = (line for line in lines if line.startswith("power limit 60 W stated ["))
    assert f"{limit[limit.index('[') :]} {boards}" in lines
    assert any(line.startswith("on demand $0.40 an hour 2026-09 [") for line in lines)
    assert any(line.startswith("reserved for 1 year $0.30 an hour 2026-09 [") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["H10"], 2, "board 'H10' is not in the catalogue; did you mean H100-PCIE-80GB or"),
        (["T4", "Voodoo 2"], 2, "board 'Voodoo 2' is not in the catalogue; "),
        (["T4", "--search", "x"], 2, "--search lists boards; leave it out"),
        (["--search", "voodoo"], 1, "no board has all of 'voodoo' in its key, names"),
        (["--catalogue", "no.yaml"], 78, "no.yaml: there is no such file; check the path"),
        (["--prices", "no.yaml"], 78, "no.yaml: there is no such file; check the path"),
    ],
)
def test_unknown_entry_is_an_error_with_the_nearest_name(
    arguments: list[str], status: int, message: str, capsys: Captured
) -> None:
    """With the matching exit status, and nothing on standard output."""
    assert main(["catalogue", *arguments]) == status
    out, err = capsys.readouterr()

    assert out == ""
    assert err.startswith("rightsizer: ")
    assert message in err


def test_a_family_is_each_of_its_boards(capsys: Captured) -> None:
    """By a short name, as plans accept it."""
    assert main(["catalogue", "a100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert len(found) == 4

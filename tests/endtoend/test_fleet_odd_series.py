"""Irregular series in stores: the same advice where possible, else none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_command import Said, asked_in_process, configured
from odd_estate import DAYS, END, gpu, odd_estate

pytestmark = pytest.mark.prometheus


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A real Prometheus with all variants of the fleet."""
    with odd_estate() as url:
        yield url


@pytest.fixture(scope="module")
def plain(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer for regular series."""
    return looked(tmp_path_factory.mktemp("plain"), url, "plain").document


def looked(folder: Path, url: str, estate: str, at: float = END) -> Said:
    """The answer for one of the variants."""
    config = configured(folder, url, matchers=f'estate="{estate}"')
    return asked_in_process(config, "--json", "--at", str(at))


def concluded(document: dict[str, Any]) -> set[tuple[Any, ...]]:
    """Findings and actions, without confidence."""
    return {
        (each["id"], each["rule"], each["finding"], *each["reasons"], each["action"])
        for each in document["findings"]
    }


def advised(document: dict[str, Any]) -> dict[str, str]:
    """Actions by their devices."""
    return {each["devices"][0]: each["action"] for each in document["advice"] if each["devices"]}


def sentences(document: dict[str, Any], key: str) -> str:
    """The notes of the sources, as one text."""
    return " ".join(text for source in document["sources"] for text in source[key])


def test_the_estate_itself_is_understood(plain: dict[str, Any]) -> None:
    """Idle GPUs are reported; a small service gets no advice after four days."""
    assert advised(plain) == {gpu(0): "release", gpu(2): "release", gpu(3): "release"}
    assert (plain["devices"], plain["workloads"]) == (4, 2)
    assert plain["coverage_ratio"] == pytest.approx(DAYS / 14, abs=0.01)


def test_a_look_is_narrowed_by_flags(tmp_path: Path, url: str) -> None:
    """To the first item by money, and to a team's own; an unknown team is refused."""
    config = configured(tmp_path, url, matchers='estate="plain"')
    at = ("--json", "--at", str(END))
    first = asked_in_process(config, *at, "--top", "1").document
    (dearest,) = first["advice"]
    assert dearest["key"] in {"node/spare-1", "node/spare-2"}  # An A100 each, and not the L4.
    own = asked_in_process(config, *at, "--team", "notebooks").document
    assert [each["key"] for each in own["advice"]] == ["kubernetes:notebooks/ana"]
    assert {each["team"] for each in own["findings"]} == {"notebooks"}
    refused = asked_in_process(config, *at, "--team", "notebook")
    assert (
        "--team: there is no 'notebook' here; there are (free), media, notebooks" in refused.refusal
    )


def test_sizing_abstains_on_less_than_it_needs(plain: dict[str, Any]) -> None:
    """Four of fourteen days are kept: no size is named, and the report gives the reason."""
    assert f"samples reach back {DAYS} d: sizing advice needs 7 days" in sentences(plain, "cannot")
    (small,) = (each for each in plain["findings"] if each["rule"] == "overprovisioned")
    assert (small["action"], small["options"]) == ("none", [])
    assert small["savings"]["gpus_low"] is None


@pytest.mark.parametrize("estate", ["renamed", "twice", "reset", "ahead", "behind"])
def test_harmless_oddities_change_nothing(
    tmp_path: Path, url: str, plain: dict[str, Any], estate: str
) -> None:
    """Names that change daily, two scrapers, restarted agents, skewed clocks."""
    odd = looked(tmp_path, url, estate).document
    assert concluded(odd) == concluded(plain)
    assert advised(odd) == advised(plain)
    assert (odd["devices"], odd["workloads"]) == (4, 2)
    for mine, theirs in zip(odd["pools"], plain["pools"], strict=True):
        assert mine["gpus"] == theirs["gpus"]
        assert mine["held_mean"] == pytest.approx(theirs["held_mean"], abs=0.01)
        assert mine["free_now"] == theirs["free_now"]
    mine = hours_by_team(odd)
    theirs = hours_by_team(plain)
    # Counts between an agent's last scrape and its restart are lost.
    assert mine.pop("", 0.0) < 0.02 * sum(theirs.values())
    assert mine == pytest.approx(theirs, rel=0.02)


def hours_by_team(document: dict[str, Any]) -> dict[str, float]:
    """GPU-hours held by each."""
    return {each["team"]: each["held_gpu_hours"] for each in document["teams"]}


@pytest.mark.parametrize(
    ("estate", "message"),
    [
        ("twice", "4 devices are scraped more than once"),
        ("ahead", "the clocks of the nodes of 4 devices are ahead of the store's by up to 10 min"),
        ("behind", "up to 10 min older than their scrapes: .* the clocks of their nodes are beh"),
    ],
)
def test_oddities_are_reported_as_warnings(
    tmp_path: Path, url: str, estate: str, message: str
) -> None:
    """Also on the page."""
    config = configured(tmp_path, url, matchers=f'estate="{estate}"')
    text = asked_in_process(config, "--at", str(END)).out
    assert message.partition(":")[0] in " ".join(text.split())
    assert "! " in text


def test_a_store_with_a_gap_says_which_days(
    tmp_path: Path, url: str, plain: dict[str, Any]
) -> None:
    """Unknown time is neither idle nor used, and advice is unchanged."""
    gap = looked(tmp_path, url, "gap").document
    assert any("no samples of rightsizer on 2 days (" in note for note in gap["notes"])
    assert not any("no samples" in note for note in plain["notes"])
    assert concluded(gap) <= concluded(plain)
    assert gap["coverage_ratio"] == pytest.approx(2 / 14, abs=0.01)
    whole = hours_by_team(plain)
    half = hours_by_team(gap)
    assert half.pop("", 0.0) < 0.02 * sum(whole.values())
    assert half == pytest.approx({team: hours / 2 for team, hours in whole.items()}, rel=0.05)


def test_a_device_that_left_is_left_alone(tmp_path: Path, url: str) -> None:
    """After eight days without series it has no advice and is in no pool.

    Its silent node is a finding, although the GPU may have been returned.
    """
    left = looked(tmp_path, url, "left").document
    assert advised(left) == {gpu(2): "release", gpu(3): "release"}
    (silent,) = (each for each in left["findings"] if each["rule"] == "disappearance")
    assert silent["summary"].startswith("dev-1 of L4: silent for 8 d, unless it was given back")
    others = [each for each in left["findings"] if each is not silent]
    devices = {uuid for each in others for uuid in each["devices"]}
    assert not devices & {gpu(0), gpu(1)}
    assert sum(pool["gpus"] for pool in left["pools"] if pool["free_now"]) == 2


def test_old_agents_are_believed_as_far_as_they_go(tmp_path: Path, url: str) -> None:
    """The basis of their idle time is unknown: it is a finding, but no advice."""
    old = looked(tmp_path, url, "old").document
    assert old["advice"] == []
    assert {each["finding"] for each in old["findings"]} <= {"idle"}
    assert {each["confidence"] for each in old["findings"]} == {0.0}
    assert "no `rightsizer_device_telemetry_info`" in sentences(old, "cannot")
    assert "so that no verdict becomes advice; upgrade the agents" in sentences(old, "cannot")


def test_devices_without_states_are_nothing_to_judge(tmp_path: Path, url: str) -> None:
    """The missing metric is named, with how to enable it."""
    bare = looked(tmp_path, url, "bare").document
    assert (bare["findings"], bare["advice"]) == ([], [])
    assert "no `rightsizer_state_seconds_total` now" in sentences(bare, "cannot")


@pytest.mark.parametrize(("late", "age"), [(1200, "1 h"), (200_000, "2 d 8 h")])
def test_a_clock_that_is_ahead_is_reported(tmp_path: Path, url: str, late: int, age: str) -> None:
    """Of this machine, or of a store without new scrapes: there is no current time to advise on."""
    said = looked(tmp_path, url, "plain", END + late)
    assert said.status == 1
    assert f"has no series of GPUs now; the last are about {age} old" in said.refusal
    assert "this machine's clock is ahead of its own" in said.refusal


def test_matchers_that_match_nothing_are_reported(tmp_path: Path, url: str) -> None:
    """With the matchers used."""
    said = looked(tmp_path, url, "nobody")
    assert "neither rightsizer_device_info nor DCGM_FI_DEV_*" in said.refusal
    assert "check fleet.matchers" in said.refusal

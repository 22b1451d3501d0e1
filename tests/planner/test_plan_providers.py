"""`rightsizer plan --provider`: whole instances at the prices of one cloud or several."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.catalogue.prices import Instance
from rightsizer.cli.main import main
from rightsizer.planner.rental import cheapest_rental
from rightsizer.sizing.requirement import Parallelism

Captured = pytest.CaptureFixture[str]
_ANSWERS: Final[dict[tuple[str, ...], str]] = {}
"""By their questions, several of which more than one test asks."""


def plan(capsys: Captured, *arguments: str) -> Any:
    """The answer to a line."""
    model = ("--model", "llama-3.1-70b", "--rps", "20", "--in", "2000", "--out", "500")
    boards = () if "--gpus" in arguments else ("--gpus", "h100,h200,b200,a100,l40s")
    question = (*model, *boards, *arguments)
    if question not in _ANSWERS:
        assert main(["plan", *question, "--json"]) == 0
        _ANSWERS[question] = capsys.readouterr().out
    return json.loads(_ANSWERS[question])


def fitting(answer: Any) -> list[dict[str, Any]]:
    """The candidates that fit."""
    return [each for each in answer["candidates"] if each["fits"]]


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure", "oci", "lambda", "coreweave"])
def test_counts_are_whole_instances(cloud: str, capsys: Captured) -> None:
    """All GPUs of an instance are paid, and there are enough of them."""
    found = fitting(plan(capsys, "--provider", cloud))

    assert found
    for each in found:
        rental = each["rental"]
        assert rental["provider"] == cloud
        assert each["paid_count"] == rental["count"] * rental["gpus"] >= each["count"]
        assert rental["gpus"] >= each["layout"]["tensor"]
        if rental["cost_per_hour"] is not None:
            assert each["cost_per_hour"] == pytest.approx(rental["cost_per_hour"])
            assert rental["date"]
            assert rental["source"]


def test_clouds_are_read_by_the_names_of_their_makers(capsys: Captured) -> None:
    """`Google Cloud, Amazon` are gcp and aws."""
    named = plan(capsys, "--provider", "Google Cloud, Amazon")

    assert named == plan(capsys, "--provider", "gcp,aws")


def test_offer_without_a_sourced_price_has_no_price(capsys: Captured) -> None:
    """It is listed after offers with a price."""
    found = fitting(plan(capsys, "--provider", "gcp"))
    unpriced = [each for each in found if each["gpu"] == "B200"]

    assert unpriced
    assert all(each["cost_per_hour"] is None for each in unpriced)
    assert found[0]["cost_per_hour"] is not None


def test_any_takes_the_cheapest_of_the_clouds(capsys: Captured) -> None:
    """Offers of marketplaces alone are left out."""
    assert main(["plan", "--model", "8B", "--rps", "1", "--provider", "any", "--json"]) == 0
    listed = {each["gpu"] for each in json.loads(capsys.readouterr().out)["candidates"]}
    found = fitting(plan(capsys, "--provider", "any"))
    one = {
        each["gpu"]: each["cost_per_hour"]
        for each in fitting(plan(capsys, "--provider", "oci"))
        if each["cost_per_hour"] is not None
    }

    assert all(each["rental"] for each in found)
    assert not {"A30", "RTX5090"} & listed
    for each in found:
        assert each["gpu"] not in one or each["cost_per_hour"] <= one[each["gpu"]]


def test_clouds_between_commas_are_compared(capsys: Captured) -> None:
    """Each board at the cheapest of them."""
    found = fitting(plan(capsys, "--provider", "aws, oci"))

    assert {each["rental"]["provider"] for each in found} == {"aws", "oci"}


def test_one_more_for_failures(capsys: Captured) -> None:
    """An instance at a cloud; without one, a replica."""
    arguments = ("--gpus", "h100-sxm5-80gb")
    plain, spare = (
        fitting(plan(capsys, *arguments, "--provider", "aws", *more))[0]
        for more in ((), ("--spares", "1"))
    )
    assert spare["count"] == plain["count"]
    assert spare["rental"]["count"] == plain["rental"]["count"] + 1
    assert spare["cost_per_hour"] == pytest.approx(plain["cost_per_hour"] + 55.04)
    offers = [each for each in spare["costs"]["offers"] if each["billing"] == "on_demand"]
    assert [offer["cost_per_hour"] for offer in offers] == [pytest.approx(spare["cost_per_hour"])]

    plain, spare = (fitting(plan(capsys, *arguments, *more))[0] for more in ((), ("--spares", "1")))
    replica = plain["layout"]["tensor"] * plain["layout"]["pipeline"]
    assert spare["paid_count"] == plain["paid_count"] + replica
    assert spare["cost_per_hour"] > plain["cost_per_hour"]


def test_own_prices_go_before_those_of_instances(tmp_path: Any, capsys: Captured) -> None:
    """For all GPUs of the instances."""
    file = tmp_path / "plan.yaml"
    file.write_text(
        "model: llama-3.1-8b\nload: {requests_per_second: 5}\ngpus: [H100-SXM5-80GB]\n"
        "provider: oci\nspares: 1\nprices: {dollars_per_gpu_hour: {h100: 2}}\n"
    )
    assert main(["plan", str(file), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["candidates"]

    assert found["paid_count"] == 16
    assert found["cost_per_hour"] == pytest.approx(32)


def test_a_board_that_a_cloud_does_not_rent_is_rejected(capsys: Captured) -> None:
    """The reason says so, if the board was requested."""
    found = plan(capsys, "--provider", "lambda", "--gpus", "b200,h100-sxm5-80gb")["candidates"]
    by_gpu = {each["gpu"]: each for each in found}

    assert by_gpu["H100-SXM5-80GB"]["fits"]
    assert any("no instance of lambda has B200" in why for why in by_gpu["B200"]["reasons"])


def test_people_see_what_to_rent(capsys: Captured) -> None:
    """In place of the interval; the details have the source of the price."""
    line = ["plan", "--model", "llama-3.1-70b", "--rps", "20", "--provider", "oci"]
    assert main(line) == 0
    brief = capsys.readouterr().out
    assert main([*line, "--details"]) == 0
    long = capsys.readouterr().out

    assert "rented as" in brief
    assert " x BM.GPU." in brief
    assert "skypilot-catalog catalogs/v8/oci/vms.csv" in long


def test_communicating_workloads_share_large_servers() -> None:
    """Trainers, and replicas sharing one copy of experts: one of eight costs as eight of one."""
    one, eight = (
        Instance("aws", f"p5.{gpus}", "H100-SXM5-80GB", gpus, 7.0 * gpus, "2026", "a page")
        for gpus in (1, 8)
    )
    for layout, expected in ((Parallelism(data=8), 1), (Parallelism(data=12), 2)):
        rental = cheapest_rental((one, eight), layout, 0, trains=True)
        assert rental is not None
        assert (rental.instance, rental.count) == (eight, expected)
    sharing = cheapest_rental((one, eight), Parallelism(data=4, expert=4), 0, trains=False)
    assert sharing is not None
    assert (sharing.instance, sharing.count) == (eight, 1)
    served = cheapest_rental((one, eight), Parallelism(data=3), 0, trains=False)
    assert served is not None
    assert (served.instance, served.count) == (one, 3)


def test_rented_server_is_used_by_the_fastest_layout(capsys: Captured) -> None:
    """A larger GPU in the same server is not slower: B300 has all of B200, and more memory."""
    line = ("plan", "--model", "deepseek-v3", "--rps", "5", "--in", "4000", "--out", "1000")
    assert main([*line, "--gpus", "b200,b300", "--provider", "aws", "--json"]) == 0
    found = {each["gpu"]: each for each in fitting(json.loads(capsys.readouterr().out))}

    assert found["B300"]["rental"]["count"] == found["B200"]["rental"]["count"] == 1
    rates = {gpu: each["tokens_per_second"] for gpu, each in found.items()}
    assert rates["B300"] >= rates["B200"]


def test_spares_are_among_what_is_taken(tmp_path: Path, capsys: Captured) -> None:
    """As in the price beside them; in the answer, its details and its page."""
    line = ["plan", "--model", "llama-3.1-8b", "--rps", "10", "--gpus", "h100-pcie-80gb"]
    page = tmp_path / "plan.html"
    spelled = "2 x H100-PCIE-80GB (1 + 1 spare)"
    assert main([*line, "--spares", "1", "--html", str(page)]) == 0
    brief = capsys.readouterr().out
    assert main([*line, "--spares", "1", "--details"]) == 0
    long = capsys.readouterr().out
    assert main([*line, "--spares", "1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["candidates"]

    assert "2,560 output tokens/s, 1 spare\n" in brief
    assert f"Take {spelled}: $" in brief
    assert f"\n1  {spelled} " in brief
    assert f"what {spelled} cost:" in long
    assert "serve on 1 x H100-PCIE-80GB " in long
    assert (found["count"], found["paid_count"]) == (1, 2)
    assert spelled in page.read_text("utf-8")

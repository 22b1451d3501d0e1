"""The generator of the dashboards: writing, comparison, and refusals."""

import json
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from dashboard_files import GRAFANA


@pytest.fixture(scope="module", autouse=True)
def root_on_path() -> Iterator[None]:
    """Import path of the generator, which is a folder of the checkout and not packaged."""
    sys.path.insert(0, str(GRAFANA.parent))
    with warnings.catch_warnings():
        # The SDK would rather have Grafana's second schema, which Grafana 11 does not read.
        warnings.simplefilter("ignore", DeprecationWarning)
        import_module("grafana.generate")
    yield
    sys.path.remove(str(GRAFANA.parent))


@pytest.fixture
def generate() -> ModuleType:
    """The module behind `python -m grafana.generate`."""
    return import_module("grafana.generate")


@pytest.fixture
def queries() -> ModuleType:
    """The module that writes PromQL."""
    return import_module("grafana.queries")


def test_writes_what_is_missing_or_stale_and_nothing_else(
    generate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run writes all, the second none, a third what was changed by hand."""
    assert generate.main([], tmp_path) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(generate.BOARDS)
    assert generate.main([], tmp_path) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "rightsizer-node.json").write_text("{}")
    assert generate.main([], tmp_path) == 0
    assert capsys.readouterr().out == "grafana/dashboards/rightsizer-node.json written\n"


def test_check_writes_nothing(
    generate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It fails on a difference, and leaves the file unchanged."""
    generate.main([], tmp_path)
    (tmp_path / "rightsizer-gpu.json").write_text("{}")
    capsys.readouterr()
    assert generate.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == "grafana/dashboards/rightsizer-gpu.json is stale\n"
    assert (tmp_path / "rightsizer-gpu.json").read_text() == "{}"


def test_a_file_of_no_dashboard_is_named(
    generate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Grafana would still load a dashboard that is no longer generated."""
    generate.main([], tmp_path)
    (tmp_path / "old.json").write_text("{}")
    capsys.readouterr()
    assert generate.main(["--check"], tmp_path) == 1
    assert "old.json is of no dashboard" in capsys.readouterr().out


def test_two_runs_write_the_same(generate: ModuleType) -> None:
    """Files depend on neither time nor place."""
    assert generate.dashboards() == generate.dashboards()
    assert all(json.loads(text) for text in generate.dashboards().values())


@pytest.mark.parametrize(
    "name",
    [
        "rightsizer_no_such_ratio",
        "rightsizer_power_distribution_ratio",  # A histogram is queried by its buckets.
        "rightsizer_power_watts_bucket",  # Other metrics have none.
    ],
)
def test_metric_that_no_agent_exports_is_refused(queries: ModuleType, name: str) -> None:
    """A renamed metric breaks the generator, not the dashboard."""
    with pytest.raises(KeyError, match=name.removesuffix("_bucket")):
        queries.select(name)


def test_selectors_ask_for_what_the_metric_has(queries: ModuleType) -> None:
    """Agents always, devices and workloads if the metric has them."""
    agents = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
    assert queries.select("rightsizer_advice_open") == f"rightsizer_advice_open{{{agents}}}"
    assert queries.select("rightsizer_workload_share_ratio") == (
        f'rightsizer_workload_share_ratio{{{agents}, uuid=~"$uuid", workload=~"$workload"}}'
    )

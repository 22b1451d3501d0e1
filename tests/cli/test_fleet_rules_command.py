"""`rightsizer fleet rules`: recording rules of all usual fields, or of a store's own."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from fleet_loopback import loopback_store
from rightsizer.cli.main import main
from rightsizer.fleet.clusters import CLUSTER_LABELS
from rightsizer.fleet.sources.figures import USUAL_METRICS, rules_text

MATCHERS: Final = 'region="eu",env=~"a|b"'


def test_without_a_store_all_usual_fields_are_recorded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the labels that usually identify clusters."""
    assert main(["fleet", "rules"]) == 0
    assert capsys.readouterr().out == rules_text(USUAL_METRICS, CLUSTER_LABELS) + "\n"


def test_of_a_store_its_own_fields_are_recorded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Labels named in the configuration are kept."""
    config = tmp_path / "fleet.yaml"
    with loopback_store(8, is_dcgm=True) as store:
        fleet = {"matchers": MATCHERS, "cluster_label": "site", "store": {"url": store.url}}
        config.write_text(json.dumps({"fleet": fleet}))
        assert main(["fleet", "rules", "--config.file", str(config)]) == 0
    text = capsys.readouterr().out
    assert "uuid:DCGM_FI_PROF_DRAM_ACTIVE:avg5m" in text
    assert "DCGM_FI_PROF_SM_ACTIVE" not in text
    for labels in re.findall(r"by \(([^)]*)\)", text):
        assert {"region", "env", "site"} <= set(labels.split(", "))


def test_a_store_without_them_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Rules that record nothing are useless."""
    with loopback_store(8) as store:
        assert main(["fleet", "rules", "--store.url", store.url]) != 0
    captured = capsys.readouterr()
    assert "no metrics of dcgm-exporter" in captured.err
    assert not captured.out


@pytest.mark.parametrize("flag", ["--json", "--save", "--dry-run", "--serve"])
def test_flags_of_a_look_are_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They would have no effect; `--json` is a short form of another."""
    named = "--format" if flag == "--json" else flag
    assert main(["fleet", "rules", flag]) == 2
    assert f"{named} does not apply to rules" in capsys.readouterr().err

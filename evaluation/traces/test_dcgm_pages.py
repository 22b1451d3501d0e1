"""The evaluation of dcgm-exporter's pages finds wrong readings."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from dcgm_exporter import BUSY, page
from evaluation.traces.dcgm import MISSING, READ, UNUSED, WEAKER, WRONG, evaluate, verdict
from evaluation.traces.dcgm_lines import lines_of
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.signal import Signal
from rightsizer.telemetry.dcgm.series import DcgmExpositionParser

TEXT = (
    page(pod="p", namespace="n")
    + f'DCGM_FI_DEV_MEMORY_TEMP{{gpu="0",UUID="{BUSY}"}} 0\n'
    + f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="{BUSY}"}} 31\n'
    + f'DCGM_FI_DEV_VGPU_LICENSE_STATUS{{gpu="0",UUID="{BUSY}"}} 0\n'
)


def verdicts(**changes: object) -> dict[str, str]:
    """Verdicts by metric, for a page that was read with errors."""
    lines = lines_of(TEXT.splitlines())
    page = DcgmExpositionParser(built_in()).read(TEXT)
    of_page = {name: changes.pop(name) for name in ("devices",) if name in changes}
    readings = {BUSY: replace(page.readings[BUSY], **changes)}
    read = replace(page, readings=readings, **of_page)
    return {line.metric.removeprefix("DCGM_FI_"): verdict(line, lines, read) for line in lines}


def test_page_read_well_scores_as_such() -> None:
    """A weaker field, a missing sensor and a license are distinguished."""
    found = verdicts()

    assert (found.pop("DEV_GPU_UTIL"), found.pop("DEV_MEMORY_TEMP")) == (WEAKER, MISSING)
    assert found.pop("DEV_VGPU_LICENSE_STATUS") == UNUSED
    assert set(found.values()) == {READ}


@pytest.mark.parametrize(
    "changes",
    [
        {"values": {}},
        {"values": dict.fromkeys(Signal, 0.97)},
        {"devices": ()},
        {"holdings": ()},
    ],
)
def test_wrong_reading_is_found(changes: dict[str, object]) -> None:
    """Covers a lost line, a wrong value, no device and no holder."""
    found = verdicts(**changes)

    assert {found["DEV_POWER_USAGE"], found["PROF_DRAM_ACTIVE"], found["DEV_FB_USED"]} == {WRONG}


def test_a_folder_of_pages_is_reported(tmp_path: Path) -> None:
    """The report has a row for each page, and every reason why a line is unused."""
    (tmp_path / "a.prom").write_text(TEXT)
    report = "\n".join(evaluate(tmp_path))

    assert "| a.prom | 13    | 1       | 10   |" in report
    assert "- `DCGM_FI_DEV_VGPU_LICENSE_STATUS` (1): a license is neither load" in report


def test_excerpts_of_several_nodes_are_read_one_by_one(tmp_path: Path) -> None:
    """A reader refuses them together; a file of them is scored all the same."""
    text = page().replace("{gpu=", '{Hostname="one",gpu=')
    others = page().replace("{gpu=", '{Hostname="two",gpu=').replace("GPU-0000", "GPU-ffff")
    (tmp_path / "two.prom").write_text(text + others)
    (tmp_path / "one.prom").write_text(text)
    one, two = (
        [int(cell) for cell in row.split("|")[2:-1]]
        for row in "\n".join(evaluate(tmp_path)).splitlines()[2:4]
    )

    assert two == [2 * count for count in one]

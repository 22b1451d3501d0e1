"""Our page in dcgm-exporter's format against pages of real exporters.

The facts below are from such pages; with RIGHTSIZER_TRUTH=DIR the pages in its folder
`dcgm_samples` are compared too.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from publish_reports import full_report, node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.dcgm_fields import DCGM_COUNTERS
from rightsizer.report.freshness import FreshnessSettings
from sample_devices import NOW

FOLDER: Final = Path(os.environ.get("RIGHTSIZER_TRUTH", "")) / "dcgm_samples"
needs_truth: Final = pytest.mark.skipif(
    not (os.environ.get("RIGHTSIZER_TRUTH") and FOLDER.is_dir()),
    reason="RIGHTSIZER_TRUTH does not name a folder with `dcgm_samples`",
)

FACTS: Final = {
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", "210"),
    "DCGM_FI_DEV_MEM_CLOCK": ("gauge", "405"),
    "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", "0"),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "31"),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "16.365000"),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "4742776"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "0"),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "0"),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("gauge", "0"),
    "DCGM_FI_DEV_ENC_UTIL": ("gauge", "0"),
    "DCGM_FI_DEV_DEC_UTIL": ("gauge", "0"),
    "DCGM_FI_DEV_FB_FREE": ("gauge", "22563"),
    "DCGM_FI_DEV_FB_USED": ("gauge", "0"),
    "DCGM_FI_DEV_FB_RESERVED": ("gauge", "470"),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", "0"),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("counter", "0"),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "0"),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", "0.000000"),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "0.000000"),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "0.000000"),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("gauge", "112603"),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("gauge", "17544"),
}
"""Type, and a value from an L4 with driver 580."""
LABELS: Final = [
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "Hostname",
    "DCGM_FI_DRIVER_VERSION",
]
"""Their names and their order on that page."""
NOT_OURS: Final = {"DCGM_FI_DEV_VGPU_LICENSE_STATUS"}
OFF_BY_DEFAULT: Final = {"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY"}
ATTRIBUTION: Final = {"container", "namespace", "pod", "hpc_job", "err_code", "err_msg"}

_SAMPLE: Final = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_BLANK: Final = re.compile(r"9223372036854775\d{3}")


def ours(*, is_divided: bool = False) -> str:
    """Our page of two whole GPUs, or of a node with a MIG instance."""
    whole = full_report(2)
    report = replace(node_report(), node=whole.node) if is_divided else whole
    return (
        MetricsExposition(
            lambda: report,
            settings=MetricsSettings(dcgm=True),
            freshness=FreshnessSettings(),
            wall_time=lambda: NOW,
            hostname="node-7",
        )
        .render_dcgm()
        .body.decode()
    )


def described(page: str, word: str) -> dict[str, str]:
    """HELP or TYPE by metric."""
    return dict(re.findall(rf"^# {word} (\S+) (.*)$", page, re.MULTILINE))


def label_names(inside: str) -> list[str]:
    """The names of a sample's labels, in order."""
    return re.findall(r'(\w+)="', inside)


def digits(number: str) -> int:
    """Number of digits after the decimal point."""
    return len(number.partition(".")[2])


def real_pages() -> Iterator[str]:
    """Pages of real exporters."""
    for path in sorted(FOLDER.glob("*.prom")):
        yield path.read_text("utf-8")


def test_types_and_digits_are_those_of_a_real_page() -> None:
    """For each metric of an L4: the same type and number of digits."""
    types = described(ours(), "TYPE")
    counters = {counter.name: counter for counter in DCGM_COUNTERS}
    for name, (declared, number) in FACTS.items():
        assert types[name] == declared
        assert digits(counters[name].text(1.0)) == digits(number)


def test_labels_are_in_the_order_of_a_real_page() -> None:
    """Labels other than attribution come first, in the same order."""
    for _, inside, _ in _SAMPLE.findall(ours()):
        assert [name for name in label_names(inside) if name not in ATTRIBUTION] == LABELS


@needs_truth
def test_real_names_types_and_sentences_are_ours() -> None:
    """Every metric of a real page has the same name, type and help on ours."""
    types = described(ours(), "TYPE")
    helps = described(ours(), "HELP")
    compared = 0
    for page in real_pages():
        for name, declared in described(page, "TYPE").items():
            if name not in {*NOT_OURS, *OFF_BY_DEFAULT}:
                assert types[name] == declared
                compared += 1
        for name, sentence in described(page, "HELP").items():
            if name not in NOT_OURS:
                assert helps[name] == sentence
    assert compared > 25


@needs_truth
def test_real_values_are_written_as_ours() -> None:
    """With as many digits after the decimal point, ignoring blanks."""
    counters = {counter.name: counter for counter in DCGM_COUNTERS}
    compared = 0
    for page in real_pages():
        for name, _, number in _SAMPLE.findall(page):
            if name in counters and not _BLANK.fullmatch(number):
                assert digits(counters[name].text(1.0)) == digits(number)
                compared += 1
    assert compared > 60


@needs_truth
def test_real_labels_are_among_ours() -> None:
    """Every label of a real series is one of ours, in the same order."""
    pages = (ours(), ours(is_divided=True))
    known = [label_names(inside) for page in pages for _, inside, _ in _SAMPLE.findall(page)]
    whole = max(known, key=len)
    instance = next(each for each in known if "GPU_I_ID" in each)
    for page in real_pages():
        for _, inside, _ in _SAMPLE.findall(page):
            names = label_names(inside)
            order = instance if "GPU_I_ID" in names else whole
            assert [name for name in order if name in names] == names

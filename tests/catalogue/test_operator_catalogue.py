"""An operator's catalogue file: boards changed and added, and its errors."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.board import OriginKind, Precision
from rightsizer.catalogue.catalogue import (
    Catalogue,
    built_in,
    extend_boards,
    packaged,
    read_catalogue,
)
from rightsizer.io.yaml import Document, load_yaml
from rightsizer.model.errors import ConfigurationError

PACKAGED = packaged("boards.yaml")
LAB = """\
boards:
  LAB-1:
    architecture: Hopper
    compute_capability: "9.0"
    sm_count: 100
    memory_mib: 65536
    memory_bandwidth_gbs: 2000
    power_limit_watts: 300
    dense_peak_tera: {bf16: 500}
"""

Write = Callable[[str], Path]
Golden = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write an operator's file."""

    def to_file(text: str) -> Path:
        file = tmp_path / "mine.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return to_file


def faults_of(file: Path) -> list[str]:
    """The errors of a file, without its folder."""
    with pytest.raises(ConfigurationError) as refusal:
        read_catalogue(file)
    return [line.replace(f"{file.parent}/", "") for line in str(refusal.value).splitlines()]


def extended(text: str) -> Catalogue:
    """The catalogue extended by an operator's text."""
    return Catalogue(extend_boards(PACKAGED, load_yaml(text, "mine.yaml")))


def test_without_a_file_it_is_the_packaged_one() -> None:
    """It is not read again."""
    assert read_catalogue(None) is built_in()


@pytest.mark.parametrize("text", ["", "boards: {}", "boards: {T4: {}}"])
def test_a_file_that_says_nothing_changes_nothing(text: str) -> None:
    """Commented out, empty, or a board without values."""
    assert {**extended(text).boards} == {**built_in().boards}


def test_a_board_is_changed_figure_by_figure(write: Write) -> None:
    """Values that the file omits stay, with their origin."""
    file = write(
        "boards: {H100-SXM5-80GB: {power_limit_watts: 650, dense_peak_tera: {fp8: 1900},"
        " names: [H100 of ours], source: our bench, notes: cooled badly}}"
    )
    catalogue = read_catalogue(file)
    board = catalogue.boards["H100-SXM5-80GB"]
    packaged = built_in().boards["H100-SXM5-80GB"]

    assert board.power_limit_watts == 650
    assert board.peak_per_second == {**packaged.peak_per_second, Precision.FP8: 1900e12}
    assert board.memory_bytes == packaged.memory_bytes
    assert board.source == packaged.source
    assert board.notes == "cooled badly"
    assert catalogue.find("H100 of ours") is board
    for figure in ("power_limit_watts", "dense_peak_tera.fp8", "names"):
        origin = board.origin(figure)
        assert (origin.kind, origin.source) == (OriginKind.STATED, "our bench")
    assert board.origin("dense_peak_tera.bf16") == packaged.origin("dense_peak_tera.bf16")


def test_a_board_is_added_with_few_figures(write: Write) -> None:
    """The rest is assumed from its architecture, and marked so."""
    file = write(LAB)
    board = read_catalogue(file).get("lab 1")

    assert board.memory_bytes == 2**36
    assert board.efficiency.weight_read[Precision.BF16] == 0.82
    assert (board.pcie_generation, board.pcie_width) == (4, 16)
    assert board.origin("pcie_width").kind is OriginKind.ASSUMED
    assert board.origin("efficiency.gemm.bf16").kind is OriginKind.ASSUMED
    assert (board.origin("sm_count").kind, board.source) == (OriginKind.STATED, str(file))
    assert len(read_catalogue(file).boards) == len(built_in().boards) + 1


def test_an_unheard_of_architecture_gets_the_common_assumptions() -> None:
    """So that a future board can be planned with before it is measured."""
    board = extended(LAB.replace("Hopper", "Rubin")).boards["LAB-1"]

    assert board.achievable_compute_ratio == 0.75
    assert board.origin("efficiency").source == "a priori"


def test_measured_figures_of_an_operator_replace_assumed_ones() -> None:
    """Efficiency and collectives alike; a measured value includes the power limit."""
    board = extended(
        "boards: {T4: {efficiency: {gemm: {bf16: 0.41}}, all_reduce: {2: [9.5, 11]},"
        " mig_profiles: [[1g.8gb, 1/2, 0.5, 20, 2, 7500]], verified: {bench: [memory_mib]}},"
        " L4: {power_limit_watts: 40}}\nsources: {bench: our bench}"
    ).boards["T4"]

    assert board.achievable_compute_ratio == board.efficiency.gemm_ratio(Precision.BF16) == 0.41
    assert board.all_reduce[2].bytes_per_second == 9.5e9
    assert board.all_reduce[2].small_message_seconds == pytest.approx(11e-6)
    assert board.all_reduce[4] == built_in().boards["T4"].all_reduce[4]
    assert board.origin("all_reduce.2").kind is OriginKind.STATED
    assert board.origin("all_reduce.4").kind is OriginKind.ASSUMED
    (profile,) = board.mig_profiles
    assert (profile.memory_share, profile.memory_bytes) == (0.5, 7500 * 2**20)
    assert (board.origin("memory_mib").kind, board.origin("memory_mib").source) == (
        OriginKind.VERIFIED,
        "our bench",
    )


def test_everything_wrong_is_reported_at_once_with_its_place(write: Write, golden: Golden) -> None:
    """Line, column, key, the given value and the valid form."""
    file = write(
        """\
boards:
  H100-SXM5-80GB:
    power_limit_wats: 650
    dense_peak_tera: {fp9: 1900, fp8: many}
    mig_profiles: [[1g.10gb, 1/0, 1/8, 16, 7], [2g.20gb, 2, 1/4, 32, 3]]
    all_reduce: {2: 4, 4: [.nan, 1], 16: [1, 1]}
    names: H100
    nvlink_generation: 4.5
    release_year: true
  LAB-1:
    architecture: 5
    compute_capability: nine
    sm_count: 1.5
    infinity_fabric_total_gbs: 1
    nvlink_total_gbs: 1
  LAB-2: 7
extra: 1
"""
    )

    golden("faults-of-a-catalogue.txt", "\n".join(faults_of(file)) + "\n")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"boards: [\n", "mine.yaml:2:1: is not well-formed YAML (did not find"),
        (b"boards: {T4: {}, T4: {}}", "mine.yaml:1:18: 'T4' is given twice"),
        (b"boards: \xff", "mine.yaml:1:1: is not UTF-8; save it as UTF-8"),
        (b"- T4", "mine.yaml:1:1: must be a mapping (got a list)"),
    ],
)
def test_invalid_catalogue_is_refused_with_its_place(
    raw: bytes, message: str, tmp_path: Path
) -> None:
    """At the place where it becomes invalid."""
    file = tmp_path / "mine.yaml"
    file.write_bytes(raw)

    assert faults_of(file)[0].startswith(message)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the remedy."""
    with pytest.raises(ConfigurationError, match=r"no.yaml: there is no such file; check the path"):
        read_catalogue(tmp_path / "no.yaml")
    with pytest.raises(ConfigurationError, match=r"cannot be read: is a directory; check the path"):
        read_catalogue(tmp_path)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)
FIGURES = st.sampled_from(
    [
        "names",
        "memory_mib",
        "dense_peak_tera",
        "efficiency",
        "all_reduce",
        "mig_profiles",
        "verified",
        "compute_capability",
        "release_year",
        "source",
    ]
)


@given(entry=st.dictionaries(FIGURES, TREES, max_size=4))
def test_no_file_whatever_breaks_the_reader(entry: dict[str, object]) -> None:
    """Any file is accepted, or refused with a line for each error."""
    small = Document(
        PACKAGED.name, {**PACKAGED.data, "boards": {"T4": PACKAGED.data["boards"]["T4"]}}, {}
    )
    own = Document("mine.yaml", {"boards": {"T4": entry}}, {})
    with contextlib.suppress(ConfigurationError):
        assert extend_boards(small, own).keys() == {"T4"}

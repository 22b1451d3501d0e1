"""The board meant by a name, and names without a board."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import built_in

BOARDS = list(built_in().boards.values())


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100-SXM5-80GB"),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "H100-SXM5-80GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb+me", "A100-SXM4-40GB"),
        ("NVIDIA H100 80GB HBM2e", "H100-PCIE-80GB"),
        ("H100 SXM 80G", "H100-SXM5-80GB"),
        ("h100_sxm5_80gib", "H100-SXM5-80GB"),
        ("H100 PCIe", "H100-PCIE-80GB"),
        ("H100 NVL 94GB", "H100-NVL-94GB"),
        ("NVIDIA A100-SXM-80GB", "A100-SXM4-80GB"),
        ("A100 PCIe 40GB", "A100-PCIE-40GB"),
        ("GRID A100-PCIE-40GB", "A100-PCIE-40GB"),
        ("H200 141GB", "H200-SXM-141GB"),
        ("H200 SXM5", "H200-SXM-141GB"),
        ("GB200 NVL72", "GB200"),
        ("L40S 48GB", "L40S"),
        ("RTX 4090", "RTX4090"),
        ("RTX 6000 Ada", "RTX-6000-Ada"),
        ("Quadro RTX 6000", "QuadroRTX6000"),
        ("AMD Instinct MI300X OAM", "MI300X"),
    ],
)
def test_distinguishing_part_of_a_name_is_enough(name: str, key: str) -> None:
    """Suffixes, brands and MIG profiles neither hide a board nor change it."""
    board = built_in().find(name)

    assert board is not None
    assert board.key == key


@pytest.mark.parametrize(
    "name",
    [
        "H100",
        "H100 80GB",
        "H100 SXM5",
        "A100 PCIe",
        "A100 80GB",
        "V100 SXM2",
        "H100 PCIe 94GB",
        "L40S 40GB",
        "H100 PCIe HBM3",
        "H100 SXM4 80GB",
        "NVIDIA H20-3e",
        "NVIDIA H20 141GB",
        "NVIDIA A800-SXM4-40GB",
        "GRID A100-10C",
        "NVIDIA A40-48Q",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "Tesla P100-SXM2-16GB",
        "MIG 1g.10gb",
        "80GB HBM3",
    ],
)
def test_a_name_that_fits_none_or_several_finds_nothing(name: str) -> None:
    """A virtual GPU, a sister model and a truncated name are no known board."""
    assert built_in().find(name) is None


@given(
    board=st.sampled_from(BOARDS),
    brand=st.sampled_from(["", "NVIDIA ", "Tesla ", "GRID ", "nvidia_"]),
    suffix=st.sampled_from(["", " MIG 1g.5gb", "-MIG-7g.80gb", " mig 2c.4g.40gb"]),
    write=st.sampled_from([str.upper, str.lower, str.title]),
    space=st.sampled_from([" ", "-", "_", "  "]),
)
def test_writing_does_not_matter(
    board: Board, brand: str, suffix: str, write: Callable[[str], str], space: str
) -> None:
    """For any brand, case, punctuation and slice, the board is the same."""
    for name in (board.key, *board.names, *board.other_names):
        written = brand + name.replace(" ", space) + suffix
        assert built_in().find(write(written)) is board


@given(board=st.sampled_from(BOARDS), gigabytes=st.integers(1, 999))
def test_another_size_of_memory_is_another_board(board: Board, gigabytes: int) -> None:
    """A size in the name must be the board's own."""
    found = built_in().find(f"{board.usual_name} {gigabytes}GB")

    assert found is None or found.nominal_memory_bytes == gigabytes * 1e9


@given(st.text())
def test_any_text_is_a_name_or_none(text: str) -> None:
    """Any text can be looked up, and has similar names or none."""
    found = built_in().find(text)

    assert found is None or found.key in built_in().boards
    assert set(built_in().nearest(text)) <= built_in().boards.keys()

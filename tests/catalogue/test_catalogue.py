"""The packaged catalogue, and finding boards in it."""

import pytest

from rightsizer.catalogue.catalogue import Catalogue, built_in, read_boards
from rightsizer.io.yaml import load_yaml
from rightsizer.model.errors import ConfigurationError, UsageError

BOARDS = built_in().boards


def test_board_is_plausible() -> None:
    """Every value is in its base unit and of the right order of magnitude."""
    for board in BOARDS.values():
        assert 2**30 < board.memory_bytes < 2**39, board.key
        assert 1e11 < board.memory_bandwidth_bytes_per_second < 2e13, board.key
        assert 30 <= board.power_limit_watts <= 2000, board.key
        assert board.sm_clock_maximum_hertz is None or 1e9 < board.sm_clock_maximum_hertz < 4e9, (
            board.key
        )
        assert 0 < board.achievable_compute_ratio <= 1, board.key
        assert 0 < board.achievable_bandwidth_ratio <= 1, board.key
        assert (board.pcie_generation, board.pcie_width) >= (3, 8), board.key
        assert all(1e11 < peak < 1e17 for peak in board.peak_per_second.values()), board.key
        assert (board.nvlink_bytes_per_second > 0) == (board.nvlink_generation is not None), (
            board.key
        )
        assert (board.link_bytes_per_second > 0) == (board.linked_gpu_count is not None), board.key
        assert board.architecture, board.key
        assert board.source, board.key


def test_mig_profiles_are_parts_of_the_board() -> None:
    """Instances of one profile never exceed the board."""
    for board in BOARDS.values():
        for profile in board.mig_profiles:
            assert 0 < profile.compute_share <= 1, board.key
            assert 0 < profile.memory_share <= 1, board.key
            assert profile.compute_share * profile.maximum_count <= 1, board.key
            assert profile.memory_share * profile.maximum_count <= 1, board.key
            assert profile.sm_count is None or profile.sm_count <= board.sm_count, board.key


def test_board_is_found_by_all_its_names() -> None:
    """By its key and by its driver's names, in any notation."""
    for board in BOARDS.values():
        for name in (board.key, *board.names, *board.other_names):
            for spelling in (name, name.upper(), name.lower(), f"NVIDIA {name}", f"Tesla {name}"):
                assert built_in().find(spelling) is board, board.key
            assert built_in().get(name) is board, board.key


def test_no_two_boards_share_a_name() -> None:
    """Otherwise removing a board would change the meaning of another's name."""
    for board in BOARDS.values():
        others = Catalogue({key: other for key, other in BOARDS.items() if other is not board})
        for name in (board.key, *board.names, *board.other_names):
            assert others.find(name) is None, name


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("A100-PCIE-40GB", "A100-PCIE-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA T4", "T4"),
        ("nvidia h100 80gb hbm3", "H100-SXM5-80GB"),
    ],
)
def test_memory_and_form_are_part_of_the_name(name: str, key: str) -> None:
    """An A100 of 40 GB is never taken for one of 80 GB, nor a PCIe board for an SXM one."""
    board = built_in().find(name)
    assert board is not None
    assert board.key == key


@pytest.mark.parametrize("name", ["", "NVIDIA", "A100", "NVIDIA Graphics Device", "Tesla K80"])
def test_unknown_name_is_not_guessed(name: str) -> None:
    """No board is better than a wrong one."""
    assert built_in().find(name) is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("H100-SXM6-80GB", "H100-SXM5-80GB"), ("l40z", "L40S"), ("h900", "H800-SXM5-80GB or")],
)
def test_unknown_board_suggests_the_nearest(name: str, suggestion: str) -> None:
    """The error has the requested name and possible matches."""
    with pytest.raises(UsageError, match=f"board '{name}' is not in the catalogue") as refusal:
        built_in().get(name)
    assert "did you mean" in str(refusal.value)
    assert suggestion in str(refusal.value)


def test_name_of_several_boards_lists_them() -> None:
    """A plain H100 is known, but not which one: `project` and `replay --board` need to know."""
    with pytest.raises(UsageError) as refusal:
        built_in().get("H100")
    found = [board.key for board in built_in().family("H100")]
    assert str(refusal.value) == f"board 'H100' may be {' or '.join(found)}; name one of them"
    assert "H100-SXM5-80GB" in found


def test_board_unlike_any_other_gets_the_families() -> None:
    """Without similar names, families are named, and the command that lists their boards."""
    with pytest.raises(UsageError, match="'foo' is not in the catalogue; ") as refusal:
        built_in().get("foo")
    text = str(refusal.value)
    assert all(board.architecture in text for board in BOARDS.values())
    assert "listed by 'rightsizer catalogue'" in text
    assert not any(key in text for key in BOARDS)


def test_names_of_nvml_are_those_of_boards_that_it_knows() -> None:
    """AMD's names are kept separately; every board has a display name."""
    assert all(board.vendor == "NVIDIA" for board in BOARDS.values() if board.names)
    assert BOARDS["MI300X"].names == ()
    assert BOARDS["MI300X"].usual_name == "AMD Instinct MI300X"
    assert BOARDS["H100-SXM5-96GB"].usual_name == "H100-SXM5-96GB"
    assert BOARDS["T4"].usual_name == "Tesla T4"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("h100 sxm5", ["H100-SXM5-80GB", "H100-SXM5-96GB"]),
        ("amd hbm3e", ["MI325X", "MI355X"]),
        ("GeForce Ada", ["RTX4090"]),
        ("24GB GeForce Ada", ["RTX4090"]),
        ("no such thing", []),
    ],
)
def test_search_wants_every_word(text: str, keys: list[str]) -> None:
    """Among names, maker, architecture, form and memory of a board."""
    assert [board.key for board in built_in().search(text)] == keys


def test_a_file_without_assumptions_is_no_whole_catalogue() -> None:
    """The error lists what is missing, immediately."""
    with pytest.raises(ConfigurationError, match=r"mine.yaml:1:1: assumptions: is required"):
        read_boards(load_yaml("boards: {}", "mine.yaml"))

"""The boards of a scenario's YAML, against the catalogue."""

from typing import Final

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.errors import UsageError
from rightsizer.telemetry.simulated.fields import Fields
from rightsizer.telemetry.simulated.physics import lowest_limit_watts
from rightsizer.telemetry.simulated.plan import Slot

__all__ = ["read_profiles", "read_slots"]

_MOST_GPUS: Final = 64


def read_slots(top: Fields, catalogue: Catalogue) -> tuple[Slot, ...]:
    """The slots of the node, one for each GPU.

    Raises:
        ScenarioError: there are none, or the catalogue does not know them.
    """
    slots: list[Slot] = []
    for entry in top.children("boards"):
        slots.extend(_slot(entry, catalogue, len(slots)))
    if not slots:
        top.fail("a scenario needs at least one board; add 'boards: [{board: L4, count: 1}]'")
    if len(slots) > _MOST_GPUS:
        top.fail(f"{len(slots)} GPUs are more than a node has; at most {_MOST_GPUS}", "boards")
    return tuple(slots)


def _slot(entry: Fields, catalogue: Catalogue, first: int) -> list[Slot]:
    entry.only(
        (
            *("board", "count", "mig", "power_limit_watts", "ambient_celsius"),
            *("pcie_generation", "pcie_width", "persistence"),
        )
    )
    try:
        board = catalogue.get(entry.text("board"))
    except UsageError as error:
        entry.fail(str(error), "board")
    limit = (
        entry.number("power_limit_watts", None, lowest_limit_watts(board), board.power_limit_watts)
        if entry.has("power_limit_watts")
        else None
    )
    profiles = read_profiles(entry, "mig", board)
    return [
        Slot(
            index=first + offset,
            board=board,
            profiles=profiles,
            power_limit_watts=limit,
            ambient_celsius=entry.number("ambient_celsius", 28.0, 5.0, 70.0),
            pcie_generation=entry.integer(
                "pcie_generation", board.pcie_generation, 1, board.pcie_generation
            ),
            pcie_width=entry.integer("pcie_width", board.pcie_width, 1, board.pcie_width),
            is_persistent=entry.flag("persistence", default=True),
        )
        for offset in range(entry.integer("count", 1, 1, _MOST_GPUS))
    ]


def read_profiles(entry: Fields, key: str, board: Board) -> tuple[MigProfile, ...]:
    """The MIG profiles that a key names.

    Raises:
        ScenarioError: the board has none of that name, or not room for all.
    """
    by_name = {profile.name: profile for profile in board.mig_profiles}
    chosen: list[MigProfile] = []
    for name in entry.sequence(key):
        if name not in by_name:
            known = ", ".join(by_name) or "none: it has no MIG"
            entry.fail(f"'{name}' is not a MIG profile of {board.key}; known: {known}", key)
        chosen.append(by_name[name])
    for what, total in (
        ("compute", sum(profile.compute_share for profile in chosen)),
        ("memory", sum(profile.memory_share for profile in chosen)),
    ):
        if total > 1.0 + 1e-9:
            entry.fail(f"the profiles take {total:.0%} of the {what}; remove some", key)
    return tuple(chosen)

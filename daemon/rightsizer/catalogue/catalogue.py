"""All the boards, and how a board is found by what somebody calls it."""

import difflib
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, Self

from rightsizer.catalogue.board import Board, MigProfile, Precision
from rightsizer.domain.errors import UsageError
from rightsizer.edge.yaml import load_yaml

__all__ = ["Catalogue", "built_in"]

_NOISE: Final = re.compile(r"nvidia|tesla|geforce|quadro|generation|[^a-z0-9]+")


class Catalogue:
    """Boards by key and by name."""

    def __init__(self, boards: Mapping[str, Board]) -> None:
        """A catalogue of the given boards, by their keys."""
        self.boards = boards
        self._by_name = {
            _plain(name): board
            for board in boards.values()
            for name in (*board.names, board.key)
            if name
        }

    @classmethod
    def from_yaml(cls, text: str, name: str) -> Self:
        """The catalogue in a YAML text of the packaged file's form."""
        rows = load_yaml(text, name).data["boards"]
        return cls({key: _board(key, row) for key, row in rows.items()})

    def find(self, name: str) -> Board | None:
        """The board that a driver's product name means; `None` where it is unknown.

        Case, punctuation and the brand's words do not matter; everything else does, so that
        an A100 of 40 GB is never taken for one of 80 GB.
        """
        return self._by_name.get(_plain(name))

    def get(self, name: str) -> Board:
        """The board that an operator asks for, by key or by name.

        Raises:
            UsageError: there is none; the message suggests the nearest.
        """
        board = self.boards.get(name) or self.find(name)
        if board is not None:
            return board
        keys = [key for key in self.boards if _plain(name) and _plain(name) in _plain(key)]
        if not keys:
            keys = difflib.get_close_matches(name.upper(), self.boards, n=3, cutoff=0.4)
        hint = (
            f"did you mean {' or '.join(keys)}?"
            if keys
            else "known boards: " + ", ".join(self.boards)
        )
        raise UsageError(f"board '{name}' is not in the catalogue; {hint}")


@cache
def built_in() -> Catalogue:
    """The catalogue that comes with the program."""
    file = resources.files("rightsizer.catalogue") / "boards.yaml"
    return Catalogue.from_yaml(file.read_text(encoding="utf-8"), "boards.yaml")


def _plain(name: str) -> str:
    return _NOISE.sub("", name.lower())


def _board(key: str, row: Mapping[str, Any]) -> Board:
    major, minor = str(row["compute_capability"]).split(".")
    return Board(
        key=key,
        names=tuple(row["names"]),
        architecture=row["architecture"],
        compute_capability=(int(major), int(minor)),
        sm_count=row["sm_count"],
        memory_bytes=row["memory_mib"] * 2.0**20,
        memory_bandwidth_bytes_per_second=row["memory_bandwidth_gbs"] * 1e9,
        power_limit_watts=row["power_limit_watts"],
        sm_clock_maximum_hertz=row["sm_clock_maximum_mhz"] * 1e6
        if "sm_clock_maximum_mhz" in row
        else None,
        pcie_generation=row["pcie_generation"],
        pcie_width=row["pcie_width"],
        nvlink_generation=row.get("nvlink_generation"),
        nvlink_bytes_per_second=row.get("nvlink_total_gbs", 0) * 1e9 / 2,
        l2_bytes=row["l2_mb"] * 1e6 if "l2_mb" in row else None,
        peak_per_second={
            Precision(name): peak * 1e12 for name, peak in row["dense_peak_tera"].items()
        },
        achievable_compute_ratio=row["achievable_compute_ratio"],
        achievable_bandwidth_ratio=row["achievable_bandwidth_ratio"],
        mig_profiles=tuple(_mig_profile(*cells) for cells in row.get("mig_profiles", ())),
        form_factor=row.get("form_factor", ""),
        memory_type=row.get("memory_type", ""),
        release_year=row.get("release_year"),
        verified=frozenset(row.get("verified", ())),
        source=row["source"],
        notes=row.get("notes", ""),
    )


def _mig_profile(
    name: str, compute: str, memory: str, sm_count: int | None, maximum_count: int
) -> MigProfile:
    return MigProfile(name, _fraction(compute), _fraction(memory), sm_count, maximum_count)


def _fraction(text: str) -> float:
    above, below = text.split("/")
    return int(above) / int(below)

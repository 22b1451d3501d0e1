"""All the boards, and how a board is found by what somebody calls it."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, Self

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.boards_file import read_boards
from rightsizer.catalogue.names import Names, plain_name
from rightsizer.io.near import near_words
from rightsizer.io.yaml import Document, load_yaml
from rightsizer.model.errors import UsageError

_FILE: Final = "boards.yaml"


class Catalogue:
    """Boards by key and by name."""

    def __init__(self, boards: Mapping[str, Board]) -> None:
        """A catalogue of the given boards, by their keys."""
        self.boards = boards
        self._names = Names(boards.values())

    @classmethod
    def from_yaml(cls, text: str, name: str) -> Self:
        """The catalogue in a YAML text of the packaged file's form.

        Raises:
            ConfigurationError: with everything that is wrong with it, a line each.
        """
        return cls(read_boards(load_yaml(text, name)))

    def find(self, name: str) -> Board | None:
        """The board that a driver's product name means; `None` where it is unknown.

        Case, punctuation, brands and a MIG profile do not matter, and what is not needed to
        tell boards apart may be left out; everything else does matter, so that an A100 of
        40 GB is never taken for one of 80 GB.
        """
        return self._names.find(name)

    def get(self, name: str) -> Board:
        """The board that an operator asks for, by key or by name.

        Raises:
            UsageError: there is none; the message suggests the nearest.
        """
        board = self.boards.get(name) or self.find(name)
        if board is not None:
            return board
        keys = self.nearest(name)
        hint = (
            f"did you mean {' or '.join(keys)}?"
            if keys
            else "known boards: " + ", ".join(self.boards)
        )
        raise UsageError(f"board '{name}' is not in the catalogue; {hint}")

    def nearest(self, name: str) -> tuple[str, ...]:
        """Keys of boards that a name may be meant for; none where nothing is near."""
        plain = plain_name(name)
        holding = [key for key in self.boards if plain and plain in plain_name(key)]
        if holding:
            return tuple(holding)
        return tuple(near_words(name.upper(), self.boards, 3, 0.4))

    def search(self, text: str) -> tuple[Board, ...]:
        """Boards that have every word of a text in what identifies them."""
        words = text.lower().split()
        return tuple(
            board
            for board in self.boards.values()
            if all(word in _identification(board) for word in words)
        )


@cache
def built_in() -> Catalogue:
    """The catalogue that comes with the program."""
    return Catalogue(read_boards(packaged_boards()))


def packaged_boards() -> Document:
    """The file that comes with the program."""
    file = resources.files("rightsizer.catalogue") / _FILE
    return load_yaml(file.read_text(encoding="utf-8"), _FILE)


def _identification(board: Board) -> str:
    parts = (
        board.key,
        *board.names,
        *board.other_names,
        board.vendor,
        board.architecture,
        board.form_factor,
        board.memory_type,
    )
    return " ".join(parts).lower()

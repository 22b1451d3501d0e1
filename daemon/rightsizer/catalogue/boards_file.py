"""Boards from a catalogue file, and an operator's file laid over the packaged one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rightsizer.catalogue.assumptions import Assumptions
from rightsizer.catalogue.board import Board
from rightsizer.catalogue.board_form import BoardSources, read_board
from rightsizer.catalogue.origin import Origin, OriginKind
from rightsizer.catalogue.overlay import merged, named_values
from rightsizer.catalogue.row import Faults, Row
from rightsizer.io.yaml import Document

_BOARDS: Final = "boards"
_SOURCES: Final = "sources"
_SOURCE: Final = "source"
_ASSUMPTIONS: Final = "assumptions"
_NO_FIGURES: Final = frozenset({_SOURCE, "notes", "verified"})


def read_boards(document: Document) -> dict[str, Board]:
    """The boards of a whole catalogue file.

    Raises:
        ConfigurationError: with everything that is wrong with it, a line each.
    """
    faults = Faults(document)
    boards = _boards(document.data, faults)
    faults.refuse()
    return boards


def extend_boards(packaged: Document, own: Document) -> dict[str, Board]:
    """The packaged boards with the operator's changes and additions.

    Entries merge by key and, within an entry, figure by figure; lists are replaced.

    Raises:
        ConfigurationError: with everything that is wrong with the operator's file, a line each.
    """
    faults = Faults(own)
    top = Row({} if own.data is None else own.data, (), faults)
    top.refuse_unknown((_BOARDS, _SOURCES))
    rows = top.row(_BOARDS)
    entries = {str(key): rows.row(key).values for key in rows.values}
    texts = top.row(_SOURCES)
    sources = {str(name): texts.text(name) for name in texts.values}
    changes = {
        key: _figures(entry, is_change=key in packaged.data[_BOARDS])
        for key, entry in entries.items()
        if entry
    }
    data = merged(packaged.data, {_BOARDS: changes, _SOURCES: sources})
    boards = _boards(data, faults)
    faults.refuse()
    for key in changes:
        boards[key] = _stated(boards[key], entries[key], own.name)
    return boards


def _boards(data: Any, faults: Faults) -> dict[str, Board]:
    top = Row(data, (), faults)
    if _ASSUMPTIONS not in top.values:
        top.fault(_ASSUMPTIONS, "is required: the tables of the packaged file")
        return {}
    assumptions = Assumptions.from_data(top.values[_ASSUMPTIONS])
    sources = BoardSources(top.row(_SOURCES).values, assumptions)
    rows = top.row(_BOARDS)
    return {key: read_board(key, rows.row(key), sources) for key in rows.values}


def _figures(entry: Mapping[Any, Any], *, is_change: bool) -> dict[Any, Any]:
    """An entry without the source of a change, which is not that of the rest of its board."""
    return {key: value for key, value in entry.items() if key != _SOURCE or not is_change}


def _stated(board: Board, entry: Mapping[str, Any], file: str) -> Board:
    """The board, with the operator as the origin of what the operator says."""
    origin = Origin(OriginKind.STATED, entry.get(_SOURCE) or file)
    figures = {key: value for key, value in entry.items() if key not in _NO_FIGURES}
    stated = dict.fromkeys(named_values(figures), origin)
    return replace(
        board,
        source=board.source or origin.source,
        origins={**board.origins, **stated},
        verified=board.verified.difference(stated),
    )

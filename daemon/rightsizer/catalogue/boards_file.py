"""Catalogue files: the packaged one, and an operator's laid over it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from rightsizer.catalogue.board import Board, FactOrigin, OriginKind
from rightsizer.catalogue.board_parser import read_board
from rightsizer.config.row import Faults, Row
from rightsizer.io.yaml import Document

_BOARDS: Final = "boards"
_SOURCES: Final = "sources"
_SOURCE: Final = "source"
_ASSUMPTIONS: Final = "assumptions"
_NO_FIGURES: Final = frozenset({_SOURCE, "notes", "verified"})


def merged(below: Mapping[Any, Any], above: Mapping[Any, Any]) -> dict[Any, Any]:
    """Both, key by key; where both have a value, the one above unless both are mappings.

    A key without a value, as it is left when what follows is commented out, changes nothing.
    """
    both = dict(below)
    for key, value in above.items():
        if value is None:
            continue
        under = both.get(key)
        is_tree = isinstance(value, Mapping) and isinstance(under, Mapping)
        both[key] = merged(under, value) if is_tree and under is not None else value
    return both


def named_values(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """The names of all values, of those within others with a dot: `dense_peak_tera.bf16`."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if value is None:
            continue
        if isinstance(value, Mapping):
            yield from named_values(value, f"{name}.")
        else:
            yield name


def read_boards(document: Document) -> dict[str, Board]:
    """The boards of a whole catalogue file."""
    faults = Faults(document)
    boards = _boards(document.data, faults)
    faults.refuse()
    return boards


def extend_boards(packaged: Document, own: Document) -> dict[str, Board]:
    """The packaged boards with the operator's changes and additions.

    Entries merge by key and, within an entry, figure by figure; lists are replaced.
    """
    faults = Faults(own)
    top = Row({} if own.data is None else own.data, (), faults)
    top.refuse_unknown((_BOARDS, _SOURCES))
    rows = top.row(_BOARDS)
    entries = {str(key): rows.row(key).values for key in rows.values}
    texts = top.row(_SOURCES)
    sources = {str(name): texts.text(name) for name in texts.values}
    # The source of a change is not that of the rest of its board.
    changes = {key: dict(entry) for key, entry in entries.items() if entry}
    for key in changes.keys() & packaged.data[_BOARDS].keys():
        changes[key].pop(_SOURCE, None)
    data = merged(packaged.data, {_BOARDS: changes, _SOURCES: sources})
    boards = _boards(data, faults)
    faults.refuse()
    for key in changes:
        # The operator is the origin of what the operator says.
        board, entry = boards[key], entries[key]
        origin = FactOrigin(OriginKind.STATED, entry.get(_SOURCE) or own.name)
        figures = {name: value for name, value in entry.items() if name not in _NO_FIGURES}
        stated = dict.fromkeys(named_values(figures), origin)
        boards[key] = replace(
            board,
            source=board.source or origin.source,
            origins={**board.origins, **stated},
            verified=board.verified.difference(stated),
        )
    return boards


def _boards(data: Any, faults: Faults) -> dict[str, Board]:
    top = Row(data, (), faults)
    if _ASSUMPTIONS not in top.values:
        top.fault(_ASSUMPTIONS, "is required: the tables of the packaged file")
        return {}
    texts, assumptions = top.row(_SOURCES).values, top.values[_ASSUMPTIONS]
    rows = top.row(_BOARDS)
    return {key: read_board(key, rows.row(key), texts, assumptions) for key in rows.values}

"""Which board a name means, however drivers, tools and people write it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from rightsizer.catalogue.board import Board

_NOISE: Final = re.compile(r"nvidia|tesla|geforce|quadro|grid|amd|instinct|generation|[^a-z0-9]+")
_MIG: Final = re.compile(r"\bmig[\s-]+\d+[cg]\.[\w.+-]+.*", re.DOTALL)
_WORDS: Final = re.compile(r"[a-z0-9]+")
_MEMORY: Final = re.compile(r"(\d+)(?:g|gb|gib)")
_MEMORY_TYPE: Final = re.compile(r"(?:hbm|gddr)\w+")
_FORM: Final = re.compile(r"sxm\d?|pcie|nvl\d*|oam")


def plain_name(name: str) -> str:
    """A name without what does not matter: case, punctuation, brands, a MIG profile."""
    return _NOISE.sub("", _MIG.sub("", name.lower()))


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A name taken apart."""

    model: str
    memory_gb: float | None
    memory_type: str
    form: str

    @classmethod
    def of(cls, name: str) -> Self:
        """`NVIDIA H100 80GB HBM3`: the model h100 with 80 GB of hbm3."""
        rest, memory, kind, form = [], None, "", ""
        for word in _WORDS.findall(_MIG.sub("", name.lower())):
            if size := _MEMORY.fullmatch(word):
                memory = float(size[1])
            elif _MEMORY_TYPE.fullmatch(word):
                kind = word
            elif _FORM.fullmatch(word):
                form = word
            else:
                rest.append(word)
        return cls(plain_name("".join(rest)), memory, kind, form)


class Names:
    """All names of some boards."""

    def __init__(self, boards: Iterable[Board]) -> None:
        self._exact: dict[str, Board] = {}
        self._models: dict[str, dict[str, tuple[Board, list[_Spelling]]]] = {}
        for board in boards:
            for name in (*board.names, *board.other_names, board.key):
                self._exact[plain_name(name)] = board
                spelling = _Spelling.of(name)
                alike = self._models.setdefault(spelling.model, {})
                alike.setdefault(board.key, (board, []))[1].append(spelling)

    def find(self, name: str) -> Board | None:
        """The one board that a name can mean; `None` where there is none, or more than one."""
        plain = plain_name(name)
        if not plain:
            return None
        return self._exact.get(plain) or self._alike(_Spelling.of(name))

    def _alike(self, given: _Spelling) -> Board | None:
        """The only board of the model that nothing in the name speaks against.

        Of several, the one with a name that says no more than the given one: `H200 141GB` is
        the plain H200, not the H200 NVL.
        """
        alike = self._models.get(given.model, {}).values()
        possible = [(board, own) for board, own in alike if _agrees(given, board, own)]
        if len(possible) > 1:
            possible = [
                (board, own)
                for board, own in possible
                if any(_says_no_more(spelling, given) for spelling in own)
            ]
        return possible[0][0] if len(possible) == 1 else None


def _agrees(given: _Spelling, board: Board, own: Iterable[_Spelling]) -> bool:
    """Whether nothing in a name speaks against a board."""
    forms = {spelling.form for spelling in own}
    if "nvl" in forms or given.form == "nvl":
        # A pair of boards under one bridge, with figures of its own: never meant by a plain name.
        form_agrees = given.form in forms
    else:
        form_agrees = board.form_factor.lower().startswith(given.form)
    sizes = {spelling.memory_gb for spelling in own} | {(board.nominal_memory_bytes or 0.0) / 1e9}
    return (
        form_agrees
        and given.memory_gb in {None, *sizes}
        and given.memory_type in {"", board.memory_type.lower()}
    )


def _says_no_more(spelling: _Spelling, given: _Spelling) -> bool:
    return (
        spelling.memory_gb in (None, given.memory_gb)
        and spelling.memory_type in ("", given.memory_type)
        and spelling.form in ("", given.form)
    )

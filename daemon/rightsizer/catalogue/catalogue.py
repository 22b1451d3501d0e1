"""Catalogue: all boards by any of their names; operator's file merged over the packaged one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, FactOrigin, MigProfile, OriginKind
from rightsizer.catalogue.board_parser import BoardEntry, CatalogueAssumptions
from rightsizer.config.loader import read_document
from rightsizer.io.near import near_words
from rightsizer.io.yaml import Document, YamlError, below, load_yaml, yaml_text
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.errors import ConfigurationError, UsageError

_BOARDS: Final = "boards"
_SOURCE: Final = "source"
_NO_FIGURES: Final = frozenset({_SOURCE, "notes", "verified"})
_NOISE: Final = re.compile(
    r"nvidia|tesla|geforce|quadro|rtx|grid|amd|instinct|generation|[^a-z0-9]+"
)
_MIG: Final = re.compile(r"\bmig[\s-]+\d+[cg]\.[\w.+-]+.*", re.DOTALL)
_WORDS: Final = re.compile(r"[a-z0-9]+")
_MEMORY: Final = re.compile(r"(\d+)(?:g|gb|gib)")
_MEMORY_TYPE: Final = re.compile(r"(?:hbm|gddr)\w+")
_FORM: Final = re.compile(r"sxm\d?|pcie|nvl\d*|oam")
_PROFILE: Final = re.compile(r"(\d+)g\.(\d+)gb")
_ALIKE: Final = 2**0.5
"""Profiles with as many slices differ by twice the memory."""
_FILE: Final = "boards.yaml"


def merged(under: Any, over: Any) -> Any:
    """Merge two trees; `over` wins unless its value is null; nested mappings are merged."""
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return under if over is None else over
    return {**under, **{key: merged(under.get(key), value) for key, value in over.items()}}


def named_values(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """Names of all values; nested ones with a dot: `dense_peak_tera.bf16`."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if value is None:
            continue
        if isinstance(value, Mapping):
            yield from named_values(value, f"{name}.")
        else:
            yield name


class CatalogueDocument(Struct, frozen=True):
    """Contents of a catalogue file, merged over the packaged one."""

    assumptions: CatalogueAssumptions
    boards: Mapping[str, BoardEntry] = {}
    sources: Mapping[str, str] = {}


def read_boards(document: Document) -> dict[str, Board]:
    """Read all boards of a complete catalogue file."""
    read = read_document(CatalogueDocument, document)
    return {
        key: entry.board(key, read.sources, read.assumptions) for key, entry in read.boards.items()
    }


def extend_boards(packaged: Document, custom: Document) -> dict[str, Board]:
    """Merge the operator's boards over the packaged ones, per figure; lists are replaced."""
    entries = below(custom.data, _BOARDS)
    # The source of a change does not apply to the rest of the board.
    changes = {
        key: {name: value for name, value in entry.items() if name != _SOURCE}
        if isinstance(entry, Mapping) and key in packaged.data[_BOARDS]
        else entry
        for key, entry in entries.items()
    }
    data = {**custom.data, _BOARDS: changes} if entries else custom.data
    boards = read_boards(replace(custom, data=merged(packaged.data, data)))
    for key, entry in entries.items():
        if not entry:
            continue
        # For these figures the operator is the origin.
        board = boards[key]
        origin = FactOrigin(OriginKind.STATED, entry.get(_SOURCE) or custom.name)
        figures = {name: value for name, value in entry.items() if name not in _NO_FIGURES}
        stated = dict.fromkeys(named_values(figures), origin)
        boards[key] = replace(
            board,
            source=board.source or origin.source,
            origins={**board.origins, **stated},
        )
    return boards


def plain_name(name: str) -> str:
    """Normalize a name: drop case, punctuation, brands and a MIG profile."""
    return _NOISE.sub("", _MIG.sub("", name.lower()))


def _named_words(name: str) -> list[str]:
    """Words of a name, without brands."""
    return [word for word in _WORDS.findall(name.lower()) if plain_name(word)]


class _Spelling(Struct, frozen=True):
    """Parsed product name."""

    model: str
    memory_gb: float | None
    memory_type: str
    form_factor: str

    @classmethod
    def of(cls, name: str) -> Self:
        """Parse a name: `NVIDIA H100 80GB HBM3` is model h100 with 80 GB of hbm3."""
        rest = []
        memory = None
        kind = ""
        form_factor = ""
        for word in _WORDS.findall(_MIG.sub("", name.lower())):
            if size := _MEMORY.fullmatch(word):
                memory = float(size[1])
            elif _MEMORY_TYPE.fullmatch(word):
                kind = word
            elif _FORM.fullmatch(word):
                form_factor = word
            else:
                rest.append(word)
        return cls(plain_name("".join(rest)), memory, kind, form_factor)


def _is_compatible(given: _Spelling, board: Board, spellings: Iterable[_Spelling]) -> bool:
    """Whether nothing in a name contradicts a board."""
    form_factors = {spelling.form_factor for spelling in spellings}
    if "nvl" in form_factors or given.form_factor == "nvl":
        # Two boards under one bridge, with their own figures: a plain name never means them.
        form_factor_agrees = given.form_factor in form_factors
    else:
        form_factor_agrees = board.form_factor.lower().startswith(given.form_factor)
    sizes = {spelling.memory_gb for spelling in spellings} | {
        (board.nominal_memory_bytes or 0.0) / 1e9
    }
    memory_agrees = given.memory_gb in {None, *sizes}
    return (
        form_factor_agrees
        and memory_agrees
        and given.memory_type in {"", board.memory_type.lower()}
    )


def _adds_no_detail(spelling: _Spelling, given: _Spelling) -> bool:
    memory_agrees = spelling.memory_gb in (None, given.memory_gb)
    type_agrees = spelling.memory_type in ("", given.memory_type)
    return memory_agrees and type_agrees and spelling.form_factor in ("", given.form_factor)


class Catalogue:
    """Boards by key and by any of their names."""

    def __init__(self, boards: Mapping[str, Board]) -> None:
        self.boards = boards
        self._exact: dict[str, Board] = {}
        self._models: dict[str, dict[str, list[_Spelling]]] = {}
        for key, board in boards.items():
            for name in (*board.names, *board.other_names, key):
                self._exact[plain_name(name)] = board
                spelling = _Spelling.of(name)
                self._models.setdefault(spelling.model, {}).setdefault(key, []).append(spelling)

    def find(self, name: str) -> Board | None:
        """Find a board by a driver's product name; `None` if unknown or ambiguous.

        Case, punctuation, brands and a MIG profile are ignored, and details not needed to
        distinguish boards may be omitted. All other details must match, so that an A100 40 GB is
        never taken for an 80 GB one. If the name fits several boards, the one with a name that adds
        no details is chosen: `H200 141GB` is the plain H200, not the H200 NVL.
        """
        plain = plain_name(name)
        if not plain or plain in self._exact:
            return self._exact.get(plain) if plain else None
        given = _Spelling.of(name)
        possible = self._possible(name)
        if len(possible) > 1:
            alike = self._models[given.model]
            possible = [
                board
                for board in possible
                if any(_adds_no_detail(spelling, given) for spelling in alike[board.key])
            ]
        return possible[0] if len(possible) == 1 else None

    def _possible(self, name: str) -> list[Board]:
        """Boards of the named model that nothing in the name contradicts."""
        given = _Spelling.of(name)
        alike = self._models.get(given.model, {}) if given.model else {}
        boards = ((self.boards[key], spellings) for key, spellings in alike.items())
        return [board for board, spellings in boards if _is_compatible(given, board, spellings)]

    def get(self, name: str) -> Board:
        """Find a board by key or name; raise `UsageError` if there is none."""
        board = self.boards.get(name) or self.find(name)
        if board is not None:
            return board
        if family := [member.key for member in self.family(name)]:
            raise UsageError(f"board '{name}' may be {' or '.join(family)}; name one of them")
        nearest = " or ".join(self.nearest(name))
        families = dict.fromkeys(board.architecture for board in self.boards.values())
        listed = f"those of {', '.join(families)} are listed by 'rightsizer catalogue'"
        hint = f"did you mean {nearest}?" if nearest else listed
        raise UsageError(f"board '{name}' is not in the catalogue; {hint}")

    def family(self, name: str) -> tuple[Board, ...]:
        """Boards that a short name such as `h100` may mean; empty if unknown.

        All details in the name must match: `a100-80gb` means those with 80 GB, `80GB` means all
        models with 80 GB. `rtx pro 6000` means boards with names that begin with these words.
        """
        if (board := self.boards.get(name) or self.find(name)) is not None:
            return (board,)
        given = _Spelling.of(name)
        boards = self.boards.values()
        if not given.model and given.memory_gb:
            return tuple(board for board in boards if _is_compatible(given, board, ()))
        begun = _named_words(name) if any(map(str.isdigit, name)) else []
        return tuple(self._possible(name)) or tuple(
            board
            for board in boards
            for names in ((*board.names, *board.other_names),)
            if begun
            and any(_named_words(board_name)[: len(begun)] == begun for board_name in names)
        )

    def nearest(self, name: str) -> tuple[str, ...]:
        """Keys of boards with similar names, one of each model; empty if none is similar."""
        plain = plain_name(name)
        holding = [key for key in self.boards if plain and plain in plain_name(key)]
        models = near_words(_Spelling.of(name).model, self._models, 3)
        near = (near_words(name.upper(), self._models[model], likeness=0.0) for model in models)
        return tuple(holding or dict.fromkeys(chain.from_iterable(near)))

    def search(self, text: str) -> tuple[Board, ...]:
        """Boards whose identification contains every word of a text."""
        words = text.lower().split()
        boards = self.boards.values()
        return tuple(
            board for board in boards if all(word in _identification(board) for word in words)
        )


@cache
def built_in() -> Catalogue:
    """Catalogue packaged with the program."""
    return Catalogue(read_boards(packaged(_FILE)))


def packaged(name: str) -> Document:
    """Load a packaged file of boards, prices or ratios."""
    return load_yaml(Path(__file__).with_name(name).read_text(encoding="utf-8"), name)


def read_catalogue(file: Path | None) -> Catalogue:
    """Packaged catalogue, extended by a file if given."""
    if file is None:
        return built_in()
    return Catalogue(extend_boards(packaged(_FILE), load_document(file)))


def load_document(file: Path) -> Document:
    """Load a YAML file; raise `ConfigurationError` if unreadable."""
    try:
        return load_yaml(yaml_text(file), str(file))
    except YamlError as error:
        raise ConfigurationError(str(error)) from None


def _identification(board: Board) -> str:
    names = (board.key, *board.names, *board.other_names)
    kind = (board.vendor, board.architecture, board.form_factor, board.memory_type)
    nominal = board.nominal_memory_bytes
    size = () if nominal is None else (f"{nominal / 1e9:g}GB",)
    return " ".join((*names, *kind, *size)).lower()


def completed(device: Device, board: Board) -> Device:
    """Fill in missing figures of a device from its board."""
    if device.board is not None:
        return device
    share = 1.0 if device.mig is None else device.mig.memory_share
    figures: dict[str, Any] = {
        "memory_total_bytes": board.memory_bytes * share,
        "power_limit_watts": board.power_limit_watts,
        "sm_clock_maximum_hertz": board.sm_clock_maximum_hertz,
        "pcie_generation_maximum": board.pcie_generation,
        "pcie_width_maximum": board.pcie_width,
        "nvlink_bytes_per_second": board.nvlink_bytes_per_second or None,
    }
    assumed = {name: figure for name, figure in figures.items() if not getattr(device, name)}
    return replace(on_board(device, board), assumed=(*device.assumed, *assumed), **assumed)


def on_board(device: Device, board: Board) -> Device:
    """Add a board's key, its achievable fractions and, if unknown, its architecture."""
    return replace(
        device,
        board=board.key,
        architecture=device.architecture or board.architecture,
        achievable_compute_ratio=board.achievable_compute_ratio,
        achievable_bandwidth_ratio=board.achievable_bandwidth_ratio,
    )


def mig_profile_of(board: Board, name: str) -> MigProfile | None:
    """Profile of a board by the name that a driver, kubelet or exporter has for it.

    Exporters compute the memory in a name, and round it otherwise: `7g.79gb` (dcgm-exporter#544).
    Media extensions (`1g.10gb+me`) change neither compute nor memory.
    """
    plain = name.lower().partition("+")[0]
    profiles = {profile.name: profile for profile in board.mig_profiles}
    if plain in profiles or (wanted := _PROFILE.fullmatch(plain)) is None:
        return profiles.get(plain)
    far = {
        max(size, other) / max(1, min(size, other)): profiles[profile_name]
        for profile_name in profiles
        if (match := _PROFILE.fullmatch(profile_name)) and match[1] == wanted[1]
        for size, other in ((int(match[2]), int(wanted[2])),)
    }
    return far[min(far)] if far and min(far) < _ALIKE else None


def mig_instance(
    board: Board, profile: str, parent_uuid: str, gpu_instance_id: int
) -> MigInstance | None:
    """MIG instance of a board's profile, or `None` if the board has no such profile."""
    mig_profile = mig_profile_of(board, profile)
    if mig_profile is None:
        return None
    return MigInstance(
        parent_uuid=parent_uuid,
        profile=profile if mig_profile.name in profile else mig_profile.name,
        gpu_instance_id=gpu_instance_id,
        compute_instance_id=0,
        compute_share=mig_profile.compute_share,
        memory_share=mig_profile.memory_share,
    )

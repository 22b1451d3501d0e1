"""Tensors of a checkpoint beside its `config.json`: by the headers of its files, else its index."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_INDEXES: Final = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_FILE: Final = re.compile(r"model(?:-\d{5}-of-(?P<files>\d{5}))?\.safetensors")
"""As transformers names them; others beside them, such as `consolidated`, hold the same again."""
_LENGTH_BYTES: Final = 8
_LONGEST_BYTES: Final = 1 << 27
"""Of a header; that of a model of 400 billion parameters has some 200 KB."""
_WIDE: Final = frozenset({"BF16", "F16"})
_ATTENTION: Final = re.compile(r"(?:self_attn|attention)\.(?:[qkvo]\w*|c_attn|dense)\.weight$")


class CheckpointTensors(Struct, frozen=True):
    """What a checkpoint stores."""

    stored_bytes: float
    parameters: float | None = None
    """`None` where neither headers nor index tell, and where several are packed in one number."""
    has_wide_attention: bool = False
    """Whether attention has 16 bits, as headers state."""


def read_tensors(folder: Path) -> CheckpointTensors | None:
    """Return the tensors of the files in a folder; `None` without all files or an index."""
    named = [(file, _FILE.fullmatch(file.name)) for file in sorted(folder.glob("model*"))]
    files = [(file, int(name["files"] or 1)) for file, name in named if name]
    tensors = [tensor for file, _ in files for tensor in _header(file)]
    if tensors and all(count == len(files) for _, count in files):
        return _of_tensors(tensors)
    indexes = (_parsed(folder / name) for name in _INDEXES)
    metadata = next((index["metadata"] for index in indexes if "metadata" in index), None)
    if not isinstance(metadata, dict):
        return None
    stored = _positive(metadata.get("total_size"))
    counted = _positive(metadata.get("total_parameters"))
    return None if stored is None else CheckpointTensors(stored, counted)


def _of_tensors(tensors: list[tuple[str, str, float, float]]) -> CheckpointTensors:
    attention = Counter(kind in _WIDE for name, kind, _, _ in tensors if _ATTENTION.search(name))
    is_packed = any(kind in {"I32", "U8"} for _, kind, _, _ in tensors)
    return CheckpointTensors(
        stored_bytes=sum(size for _, _, _, size in tensors),
        parameters=None if is_packed else sum(count for _, _, count, _ in tensors),
        has_wide_attention=attention[True] > attention[False],
    )


def _header(file: Path) -> Iterator[tuple[str, str, float, float]]:
    """Yield name, type, elements and bytes of each tensor; none where the file has no header."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            text = stream.read(length) if length <= _LONGEST_BYTES else b""
        header = json.loads(text)
        for name, tensor in header.items():
            if name != "__metadata__":
                first, last = tensor["data_offsets"]
                yield name, tensor["dtype"], float(math.prod(tensor["shape"])), float(last - first)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return  # No safetensors file, such as a pointer of Git LFS.


def _parsed(file: Path) -> Mapping[str, Any]:
    try:
        parsed = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _positive(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else None  # type: ignore[arg-type, operator]

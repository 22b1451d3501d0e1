"""Well-known models by name: a table of published configurations, matched loosely."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from rightsizer.io.near import near_words
from rightsizer.model.frozen import dataclass
from rightsizer.model.table import table_rows
from rightsizer.sizing.parameters import NumberFormat

_MARKS: Final = re.compile(r"[^a-z0-9.+]+")
_PREFIXES: Final = frozenset({"meta", "google", "openai", "mistralai", "microsoft", "nvidia"})
_SUFFIX: Final = re.compile(
    "instruct|chat|hf|it|pt|base|text|latest|thinking|preview|uncased|cased|gguf|bnb|dynamic"
    r"|quantized|fp16|bf16|bits?|block|diffusers|v0\.\d|v\d|\d{4}"
)
"""Last words of a name that do not change the shape."""
_FORMATS: Final[Mapping[str, NumberFormat]] = {
    "fp8": NumberFormat.FP8,
    **dict.fromkeys(("int8", "w8a8", "8bit"), NumberFormat.INT8),
    **dict.fromkeys(("nvfp4", "fp4", "mxfp4"), NumberFormat.NVFP4),
    **dict.fromkeys(("awq", "gptq", "int4", "w4a16"), NumberFormat.INT4),
    "4bit": NumberFormat.NF4,
    "q4km": NumberFormat.Q4_K_M,
}
"""Last words that tell the format of a checkpoint."""
_NAMED: Final = 3
_LIKENESS: Final = 0.65


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A row of the table, as a name asks for it."""

    name: str
    parameters: float
    """As its card, or the index of its weights, tells."""
    source: str
    """Whose `config.json` it is, by repository on the hub; else where the figures are from."""
    config: Mapping[str, Any]
    """Of one file, or of each folder of a pipeline."""
    weights: NumberFormat | None = None
    """What the name says that weights are kept in."""


def find_model(name: str) -> KnownModel | None:
    """The model that a name means; `None` where it means none.

    Organization, case, punctuation, and words such as `Instruct` or `AWQ` do not matter.
    """
    rows = _rows()
    lowered = name.strip().lower().replace("q4_k_m", "q4km")
    for spelling in (lowered, lowered.rpartition("/")[2]):
        words, weights = [word for word in re.split(r"[-_ :/]+|\.(?=w\d)", spelling) if word], None
        while words:
            row = rows.get(_key("".join(words)))
            if row is not None:
                config = _parsed(row["config"])
                parameters = float(row["parameters"])
                return KnownModel(row["name"], parameters, row["source"], config, weights)
            last = words[-1]
            if last in _FORMATS or _SUFFIX.fullmatch(last):
                weights = weights or _FORMATS.get(last)
                words.pop()
            elif words[0] in _PREFIXES:
                words.pop(0)
            else:
                break
    return None


def near_models(name: str) -> list[str]:
    """Names of the table that one may be meant for, the nearest first."""
    known = {_key(row["name"]): row["name"] for row in _rows().values()}
    near = near_words(_key(name.rpartition("/")[2]), known, _NAMED, _LIKENESS)
    return [known[key] for key in near]


def known_names() -> list[str]:
    """All of the table."""
    return list(dict.fromkeys(row["name"] for row in _rows().values()))


@cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    rows = table_rows(__file__, "known_models.csv")
    others = {_key(name): row for row in rows for name in row["also"].split()}
    return others | {_key(row["name"]): row for row in rows}


def _key(name: str) -> str:
    return _MARKS.sub("", name.lower())


def _parsed(cell: str) -> dict[str, Any]:
    """`part/key=value` of each word, values as JSON has them; others are text."""
    config: dict[str, Any] = {}
    for word in cell.split():
        path, _, value = word.partition("=")
        *parts, key = path.split("/")
        inner = config
        for part in parts:
            inner = inner.setdefault(part, {})
        try:
            inner[key] = json.loads(value)
        except ValueError:
            inner[key] = value
    return config

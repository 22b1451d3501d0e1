"""Well-known models by name: a table of published configurations, matched loosely."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from rightsizer.io.near import near_words
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.table import table_rows
from rightsizer.sizing.parameters import NumberFormat

_MARKS: Final = re.compile(r"[^a-z0-9.+]+")
_PREFIXES: Final = frozenset({"meta", "google", "openai", "mistralai", "microsoft", "nvidia"})
_SUFFIX: Final = re.compile(
    "instruct|chat|hf|it|pt|base|text|latest|thinking|reasoning|plus|preview|exp|terminus|uncased"
    r"|cased|gguf|unsloth|bnb|qat|dynamic|static|quantized|fp16|bf16|bits?|block|diffusers|v0\.\d"
    r"|v\d(\.\d)?|\d{4}|1m"
)
"""Last words of a name that do not change the shape."""
_VERSION: Final = re.compile(r"v[2-9].*")
"""Version of a checkpoint, if the rest names a size or a generation; else of a family."""
_FORMATS: Final[Mapping[str, NumberFormat]] = {
    "fp8": NumberFormat.FP8,
    **dict.fromkeys(("int8", "w8a8", "8bit"), NumberFormat.INT8),
    **dict.fromkeys(("nvfp4", "fp4", "mxfp4"), NumberFormat.NVFP4),
    **dict.fromkeys(("awq", "gptq", "int4", "w4a16"), NumberFormat.INT4),
    "4bit": NumberFormat.NF4,
    **dict.fromkeys(("q4km", "q4ks", "q40", "q41", "iq4xs", "iq4nl"), NumberFormat.Q4_K_M),
    **dict.fromkeys(("q5km", "q5ks", "q50", "q51"), NumberFormat.Q5_K_M),
    "q6k": NumberFormat.Q6_K,
    "q80": NumberFormat.Q8_0,
}
"""Last words that state the format of a checkpoint."""
_GGUF_TYPE: Final = re.compile(r"i?q\d(?:_[a-z0-9]{1,3}){1,2}(?![a-z0-9])")
_READERS: Final = re.compile(r"embed\w*|\w*rerank\w*|e5|gte|colbert\w*|reward")
"""Words of models that only read, whatever their base model."""
_SIZE: Final = re.compile(r"(?:\d+x)?\d+(?:\.\d+)?[bm]")
_CLOSED: Final = re.compile(
    r"(chat)?gpt-?[3-9]|o[1-9]\b|o[1-9](mini|pro)|claude|gemini|grok-?[3-9]"
)
_NAMED: Final = 3
_LIKENESS: Final = 0.65


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Row of the table, as selected by a name."""

    name: str
    parameters: float
    """As stated by its card, or the index of its weights."""
    source: str
    """Hub repository of the `config.json`; else the source of the figures."""
    config: Mapping[str, Any]
    """Of one file, or of each folder of a pipeline."""
    weights: NumberFormat | None = None
    notes: tuple[str, ...] = ()
    is_reader: bool = False
    """Whether the name implies no output text: texts to embed or to rank."""


def find_model(name: str) -> KnownModel | None:
    """Return the model that a name means; `None` if unknown.

    Organization, case, punctuation, and words such as `Instruct` or `AWQ` are ignored. Models
    derived from others, which their names end with, count as these.
    """
    lowered = name.strip().lower().removesuffix(".gguf")
    lowered = _GGUF_TYPE.sub(lambda found: found[0].replace("_", ""), lowered)
    lowered = re.sub(r"(v\d)_(\d)\b", r"\1.\2", lowered)
    for spelling in (lowered, lowered.rpartition("/")[2]):
        words = [word for word in re.split(r"[-_ :/]+|\.(?=w\d)", spelling) if word]
        if (found := _found(words, name)) is not None:
            return found
    plain = [word for word in words if not _READERS.fullmatch(word)]
    if plain != words and (found := _found(plain, name)) is not None:
        return replace(found, is_reader=True)
    for start in range(1, len(words) - 1):
        tail, of = words[start:], _found(words[start:], name)
        if of is not None and (
            any(map(_SIZE.fullmatch, tail)) or _key(of.name) == _key("".join(tail))
        ):
            read = f"read as {of.name}, by the end of the name"
            note = f"{read}; give its config.json if it is another"
            return replace(of, notes=(note,), is_reader=any(map(_READERS.fullmatch, words)))
    return None


def _found(words: Sequence[str], asked: str) -> KnownModel | None:
    """Return the row of some words, without irrelevant ones before and after."""
    words, weights, is_gguf, version = list(words), None, False, ""
    while words:
        key = _key("".join(words))
        row = _rows().get(key)
        if row is not None and not (version and not any(map(str.isdigit, key))):
            own = _key(row["name"])
            is_other = own not in _key(asked) and not own.startswith(key)
            notes = [f"{asked} is planned as {row['name']}, whose shape it has"] if is_other else []
            if is_gguf and weights is None:
                notes.append("GGUF of which type is not said: bf16; give precision, such as q4_k_m")
            config, parameters = _parsed(row["config"]), float(row["parameters"])
            of_row = (row["name"], parameters, row["source"], config)
            return KnownModel(*of_row, weights, tuple(notes))
        last = words[-1]
        if last in _FORMATS or _SUFFIX.fullmatch(last):
            if weights is None or weights is NumberFormat.NF4:
                # `AWQ-4bit` is AWQ.
                weights = _FORMATS.get(last, weights)
            is_gguf = is_gguf or last == "gguf"
            version = version or (last if _VERSION.fullmatch(last) else "")
            words.pop()
        elif words[0] in _PREFIXES:
            words.pop(0)
        else:
            break
    return None


def known_names() -> list[str]:
    """Return all names of the table, in its order."""
    return list(dict.fromkeys(row["name"] for row in table_rows(__file__, "known_models.csv")))


def near_models(name: str) -> list[str]:
    """Return similar names of the table, nearest first."""
    known = {_key(row["name"]): row["name"] for row in _rows().values()}
    asked = _key(name.rpartition("/")[2])
    alike = [key for key in known if key[:1] == asked[:1]]
    return [known[key] for key in near_words(asked, alike, _NAMED, _LIKENESS)]


def is_closed(name: str) -> bool:
    """Whether a name is of a model served only by its maker."""
    return bool(_CLOSED.match(_key(name.rpartition("/")[2])))


@cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    rows = table_rows(__file__, "known_models.csv")
    others = {_key(name): row for row in rows for name in row["also"].split()}
    return others | {_key(row["name"]): row for row in rows}


def _key(name: str) -> str:
    return _MARKS.sub("", name.lower())


def _parsed(cell: str) -> dict[str, Any]:
    """Parse words `part/key=value`, with values as in JSON or else texts."""
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

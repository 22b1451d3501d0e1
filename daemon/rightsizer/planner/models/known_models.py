"""Well-known models by name: a table of published configurations, matched loosely."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.codec import decode
from rightsizer.io.near import near_words
from rightsizer.io.yaml import load_beside
from rightsizer.model.table import table_rows
from rightsizer.planner.aliases import aliases_of
from rightsizer.sizing.parameters import NumberFormat

_MARKS: Final = re.compile(r"[^a-z0-9.+]+")
_WORDS: Final = {
    kind: re.compile("|".join(map(str, words)))
    for kind, words in load_beside(__file__, "name_words.yaml").items()
}
"""Words of names by what they tell."""
_VERSION: Final = re.compile(
    r"v[2-9].*|(?!(?:0[1-9]|1[0-2])2[2-9]|2[2-9](?:0[1-9]|1[0-2]))\d{4}|\d{6}|\d{8}"
)
"""Version of a checkpoint, if the rest names a size or a generation; else of a family.

A number that is no month of a year may as well be a size.
"""
_STATED: Final = [
    re.compile(pattern) for pattern in (r"(?!1m$)[\d.]+[bm]", r"a[\d.]+[bm]", r"v[\d.]+")
]
"""Words that state a size (no context of a million), the parameters at work, and a version."""
_OTHER_SIZE: Final = re.compile("large|small|tiny|xl", re.IGNORECASE)
"""In the name of a row that a name with `base` does not mean."""
_GGUF_TYPE: Final = re.compile(r"i?q\d(?:_[a-z0-9]{1,3}){1,2}(?![a-z0-9])")
_SIZE: Final = re.compile(r"(?:\d+x)?\d+(?:\.\d+)?[bm]|tiny|small|medium|base|large|(un)?cased")
_SERVED: Final = re.compile(
    r"^(?:[a-z-]{2,6}\.)?(?=(?:meta|mistral|qwen|openai|deepseek|cohere|anthropic|amazon|google"
    r"|nvidia|minimax|moonshot(?:ai)?|zai)\.[a-z])"
)
"""Region before a name of Amazon Bedrock."""
_HOST_SPELLINGS: Final = (
    (r"\.(?:gguf|safetensors)$|-\d{5}-of-\d{5}|[-:]v?\d+:\d+$|:\d+(?:\.\d+)*$|/+$", ""),
    (r"(?<=v\d)p(?=\d)|(?<=v\d)_(?=\d\b)", "."),
    (r"\binstruct-lite\b", "instruct"),
    (r"\bq4f(?:16|32)_\d\b", "int4"),
)
"""Tags and spellings of hosts, which no name of a model has."""
_LOOSER_SPELLINGS: Final = (
    (r"(?<![\d.])(\d)[-_](\d)(?=[-_ :]|$)", r"\1.\2"),
    (r"(?<=[-_ ])v(?=\d+(?:\.\d)?[-_ ]\d+b)", ""),
    (r"\.[a-z]\w*$", ""),
    (r"[-_ :](?:instruct|chat|it|hf)(?=[-_ :])", ""),
)
"""Looser spellings, each tried after those before it: 3-1 for 3.1, llama-v3, tags of weights."""
_ASKED: Final = re.compile(
    rf"(?:{_WORDS['beside'].pattern})(?!\S)"
    rf"|\d[\d.,]*[kmb]?\s?(?:{_WORDS['amounts'].pattern})(?![\w.-])\S*",
    re.IGNORECASE,
)
"""Word of a question on either side of a name; a name alone has none of it."""
_BEFORE: Final = re.compile(rf"(?:{_WORDS['before'].pattern})(?=\s)", re.IGNORECASE)
_BOARD: Final = re.compile(r"(?:\d+ ?[x*] ?)?(\S+)", re.IGNORECASE)
"""Board or family of the catalogue, if it is there, with how many of it."""
_ACTIVE: Final = re.compile(r"-A[\d.]+B\b")
"""Parameters at work for a token, which a name may leave out where that is not ambiguous."""
_NAMED: Final = 3
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_IMAGE_MODELS: Final = "image_models.csv"
"""Counts of pytorch-image-models (results/, commit aa4b585, Apache-2.0)."""
_LIKENESS: Final = 0.65


class KnownModel(Struct, frozen=True):
    """Row of the table, as selected by a name."""

    name: str
    config: Mapping[str, Any]
    """Of one file, or of each folder of a pipeline."""
    weights: NumberFormat | None = None
    notes: tuple[str, ...] = ()
    is_reader: bool = False
    """Whether the name implies no output text: texts to embed or to rank."""


def find_model(name: str) -> KnownModel | None:
    """Return the model that a name means; `None` if unknown.

    Organization, case, punctuation, tags of hosts, and words such as `Instruct` or `AWQ` are
    ignored. Models derived from others, which their names begin or end with, count as these.
    """
    if is_closed(name) or question_around(name):
        return None
    plain = _without_host_tags(name)
    name_words = list[str]()
    for respelled in ((r"$", ""), *_LOOSER_SPELLINGS):
        plain = re.sub(*respelled, plain)
        name_words = _words_of(plain.rpartition("/")[2])
        for words in (name_words, _words_of(plain)):
            read = [word for word in words if not _WORDS["readers"].fullmatch(word)]
            if model := _row_model(words, name) or _row_model(read, name):
                return replace(model, is_reader=read != words)
    model = _base_model(name_words, name)
    return model and replace(model, is_reader=any(map(_WORDS["readers"].fullmatch, name_words)))


def question_around(name: str) -> str:
    """Return what a question says before or behind a name, such as `on 4 H100`; else empty."""
    text = " ".join(name.split())
    if " " not in text or _key(text) in _rows():
        return ""
    stop = 0
    while match := _asked_at(text, stop) or _BEFORE.match(text, stop):
        stop = match.end() + 1
    behind = (at.end() for at in re.finditer(" ", text) if _asked_at(text, at.end()))
    return text[:stop].strip() or text[next(behind, len(text)) :]


def _asked_at(text: str, start: int) -> re.Match[str] | None:
    """Match a word of a question there, or a board; `None` at what may be of a name."""
    board = _BOARD.match(text, start)
    is_known = board and built_in().family(board[1])
    return board if is_known else _ASKED.match(text, start)


def _words_of(name: str) -> list[str]:
    return [word for word in re.split(r"[-_ :/@]+|\.(?=w\d)", name) if word]


def _without_host_tags(name: str) -> str:
    """Return a name without what hosts add to it."""
    plain = name.strip().lower().rpartition("://")[2]
    plain = _GGUF_TYPE.sub(lambda match: match[0].replace("_", ""), plain)
    for pattern, written in _HOST_SPELLINGS:
        plain = re.sub(pattern, written, plain)
    served = _SERVED.search(plain)
    return plain[served.end() :].replace(".", "-", 1) if served else plain


def _base_model(words: Sequence[str], asked: str) -> KnownModel | None:
    """Return the model whose name ends or begins a longer one."""
    cuts = [(start, len(words), "end") for start in range(1, len(words) - 1)]
    cuts += [(0, stop, "beginning") for stop in range(len(words) - 1, 0, -1)]
    for start, stop, side in cuts:
        part = words[start:stop]
        rest = words[stop:]
        has_more = any(map(_WORDS["parts"].fullmatch, (*words[:start], *rest)))
        has_more = has_more or any(map(_WORDS["sizes"].fullmatch, rest[:1]))
        row_model = None if has_more else _row_model(part, asked)
        if (
            row_model is None
            or "model_type" not in row_model.config
            or _contradict(words, row_model.name)
        ):
            continue
        if any(map(_SIZE.fullmatch, part)) or _key(row_model.name) == _key("".join(part)):
            read = f"read as {row_model.name}, by the {side} of the name"
            note = f"{read}; give its config.json if it is another"
            return replace(row_model, notes=(note,))
    return None


def _row_model(words: Sequence[str], asked: str) -> KnownModel | None:
    """Return the row of some words, without irrelevant ones before and after."""
    words = list(words)
    dropped = list[str]()
    weights = None
    while words:
        key = _key("".join(words))
        row = _rows().get(key)
        if row is not None and _is_same_model(row["name"], key, dropped):
            row_key = _key(row["name"])
            is_other = row_key not in _key(asked) and not row_key.startswith(key)
            notes = [f"{asked} is planned as {row['name']}, whose shape it has"] if is_other else []
            vague = next(filter(_WORDS["vague"].fullmatch, dropped), "").upper()
            if vague and weights is None:
                fault = f"{vague} of which type is not said"
                notes.append(f"{fault}: bf16; give precision, such as q4_k_m")
            return KnownModel(row["name"], _parsed_config(row["config"]), weights, tuple(notes))
        last = words[-1]
        if last in _formats() or any(
            _WORDS[kind].fullmatch(last) for kind in ("suffixes", "vague")
        ):
            if weights is None or weights is NumberFormat.NF4:
                # `AWQ-4bit` is AWQ.
                weights = _formats().get(last, weights)
            dropped.append(words.pop())
        elif _WORDS["makers"].fullmatch(words[0]):
            words.pop(0)
        else:
            break
    return None


def _contradict(words: Sequence[str], name: str) -> bool:
    """Whether words state another size or version than the name of a row."""
    name_words = _words_of(name.lower())
    for pattern in _STATED:
        asked = set(filter(pattern.fullmatch, words))
        stated = set(filter(pattern.fullmatch, name_words))
        if asked and stated and asked.isdisjoint(stated):
            return True
    return False


def _is_same_model(name: str, key: str, dropped: Sequence[str]) -> bool:
    """Whether a row is of the same version and size as a name without its last words."""
    if _key(name).startswith(key) and _contradict(dropped, name):
        return False
    if "base" in dropped and _OTHER_SIZE.search(name) and not _OTHER_SIZE.search(key):
        return False
    is_versioned = any(map(_VERSION.fullmatch, dropped))
    return not is_versioned or any(map(str.isdigit, key))


def known_names() -> list[str]:
    """Return all names of the table, in its order."""
    return list(dict.fromkeys(row["name"] for row in table_rows(__file__, "known_models.csv")))


def published_source(name: str) -> str:
    """Repository of a model of the table, as Hugging Face names it; empty if it is not known."""
    row = _rows().get(_key(name), {})
    source = row.get("source", "")
    return source if is_repository(source) else ""


def is_repository(name: str) -> bool:
    """Whether a name is that of a repository: organization and model, nothing else."""
    return bool(_REPOSITORY.fullmatch(name))


def near_models(name: str) -> list[str]:
    """Return similar names of the table, nearest first."""
    names_by_key = {_key(row["name"]): row["name"] for row in _rows().values()}
    asked = _key(name.rpartition("/")[2])
    alike = [key for key in names_by_key if key[:1] == asked[:1]]
    return [names_by_key[key] for key in near_words(asked, alike, _NAMED, _LIKENESS)]


def is_closed(name: str) -> bool:
    """Whether a name is of a model served only by its maker, not of an open one tuned on it."""
    plain = re.sub(
        r"^[a-z]+-(?=claude|nova|titan)", "", _without_host_tags(name).rpartition("/")[2]
    )
    _, *words = re.split(r"[-_ :.]+", plain)
    is_open = any(map(_WORDS["open"].fullmatch, words))
    return not is_open and bool(_WORDS["closed"].match(_key(plain)))


@cache
def _formats() -> Mapping[str, NumberFormat]:
    """Return the formats of weights, by the last words of names."""
    formats = {str(number_format): number_format for number_format in NumberFormat}
    named = formats | {word: formats[kept] for word, kept in aliases_of("format").items()}
    return {_key(word): kept for word, kept in named.items()}


@cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    rows = table_rows(__file__, "known_models.csv")
    images = {_key(row["model"]): _image_row(row) for row in table_rows(__file__, _IMAGE_MODELS)}
    others = {_key(name): row for row in rows for name in row["also"].split()}
    named = others | {_key(row["name"]): row for row in rows}
    short = [(_key(_ACTIVE.sub("", row["name"])), row) for row in rows]
    counts = Counter(key for key, _ in short)
    return images | {key: row for key, row in short if counts[key] == 1} | named


def _image_row(row: Mapping[str, str]) -> Mapping[str, str]:
    """Return the row of an image network by its counted shape."""
    counts = {
        "parameters": float(row["parameters_millions"]) * 1e6,
        "forward_flops": float(row["gmacs"]) * 2e9,
        "outputs": float(row["outputs_millions"]) * 1e6,
    }
    words = [f"{key}={count:.6g}" for key, count in counts.items()]
    if row["transformer"]:
        words.append("is_transformer=true")
    config = " ".join(("kind=cnn", *words, f"image={row['image']}"))
    return {"name": row["model"], "also": "", "config": config}


def _key(name: str) -> str:
    return _MARKS.sub("", name.lower())


def _parsed_config(cell: str) -> dict[str, Any]:
    """Parse words `part/key=value`, with values as in JSON or else texts."""
    config: dict[str, Any] = {}
    for word in cell.split():
        path, _, value = word.partition("=")
        *parts, key = path.split("/")
        inner = config
        for part in parts:
            inner = inner.setdefault(part, {})
        try:
            inner[key] = decode(value, object)
        except ValueError:
            inner[key] = value
    return config

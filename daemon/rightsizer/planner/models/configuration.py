"""Model `config.json`: values by key, each checked, with errors that name it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rightsizer.io.yaml import YamlError, load_beside, load_yaml
from rightsizer.model.errors import RequirementError

_MOST: Final = 1e18
AS_PUBLISHED: Final = "take the file as published with the model"
DESCRIBE: Final = (
    "describe the model in the plan instead (kind: diffusion, parameters, forward_flops{})"
)
"""Remedy for unreadable parts of a diffusion model; the braces take more keys."""
_QUANTIZATION: Final = "hf_quant_config.json"
"""File of NVIDIA's Model Optimizer with the format, if it is not in `config.json`."""
_MISTRAL: Final = {
    "dim": "hidden_size",
    "hidden_dim": "intermediate_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "tied_embeddings": "tie_word_embeddings",
    "max_seq_len": "max_position_embeddings",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
}
_KEY_VALUE_HEADS: Final = frozenset(
    {
        "kv_n_heads",
        "multi_query_group_num",
        "num_attention_groups",
        "num_key_value_heads",
        "num_kv_heads",
    }
)
"""Keys of the number of key and value heads, by any type: without heads nothing is cached."""
QUANTIZATION_KEY: Final = "quantization_config"
"""Key of the format of the weights."""
MODEL_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    section: {kind: row for kinds, row in rows.items() for kind in kinds.split()}
    for section, rows in load_beside(__file__, "model_types.yaml").items()
}
"""Sections of the packaged table: families, defaults, towers; each by `model_type`."""


def wrong(key: str, fault: str, remedy: str = AS_PUBLISHED) -> RequirementError:
    """Create the error for a value of a `config.json`."""
    return RequirementError(f"config.json: {key}: {fault}" + (f"; {remedy}" if remedy else ""))


def parsed_config(
    file: Path, remedy: str = "name the config.json that comes with the model"
) -> dict[str, Any]:
    """Parse a JSON file, with the checkpoint format from a file beside it."""
    try:
        data = load_yaml(file.read_text(encoding="utf-8-sig").replace("\t", " "), str(file)).data
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequirementError(f"model.config: {file}: {reason}; {remedy}") from None
    except (UnicodeDecodeError, YamlError) as error:
        raise RequirementError(f"model.config: {file}: is no JSON: {error}; {remedy}") from None
    if not isinstance(data, dict):
        raise RequirementError(f"model.config: {file}: is no JSON object; {remedy}")
    beside = file.with_name(_QUANTIZATION)
    if QUANTIZATION_KEY not in data and file.name != _QUANTIZATION and beside.is_file():
        quantization = parsed_config(beside, remedy).get("quantization")
        given = quantization if isinstance(quantization, Mapping) else {}
        data[QUANTIZATION_KEY] = (
            {**given, "ignore": given.get("exclude_modules")} if given else None
        )
    return data


def of_mistral(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `params.json` of Mistral by the keys of transformers; towers are left out."""
    if not {"n_layers", "n_heads", "vocab_size"} <= {*given} or "q_lora_rank" in given:
        raise wrong(
            "dim", "is of a shape that is not known", "give the config.json of transformers"
        )
    values = {new: given[old] for old, new in _MISTRAL.items() if given.get(old) is not None}
    experts = Configuration(Configuration(given).part("moe"))
    kind = "mixtral" if experts.values else "mistral"
    chosen = {"num_local_experts": "num_experts", "num_experts_per_tok": "num_experts_per_tok"}
    values |= {new: experts.needed(old) for new, old in chosen.items() if experts.values}
    return {"model_type": kind, **values}


@contextmanager
def errors_of(file: Path) -> Iterator[None]:
    """Add the file's name to errors about its values; errors of the plan stay unchanged."""
    try:
        yield
    except RequirementError as error:
        if str(error).startswith("model."):
            raise
        raise RequirementError(f"model.config: {file}: {error}") from None


class Configuration(Struct, frozen=True):
    """Parsed configuration of Hugging Face's transformers."""

    values: Mapping[str, object]
    defaults: Mapping[str, int] = {}
    """Values that files of its type omit."""

    def whole(self, key: str, otherwise: int | None = None) -> int | None:
        """Return an integer, or the default if it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return self.defaults.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(key, f"{value!r} is not a whole number", "")
        if value < 0:
            raise wrong(key, f"{value} is negative", "")
        if value == 0 and key in _KEY_VALUE_HEADS:
            raise wrong(key, "0 is not above 0", "")
        return value

    def needed(self, key: str) -> int:
        """Return a required integer."""
        value = self.whole(key)
        if value is None:
            raise wrong(key, "is missing")
        if value == 0:
            raise wrong(key, "0 is not above 0", "")
        return value

    def wholes(
        self, key: str, count: int | None = None, otherwise: int | None = None
    ) -> tuple[int, ...]:
        """Return a list of positive integers; a single one is repeated `count` times."""
        value = self.values.get(key)
        if not isinstance(value, list | tuple):
            alone = self.whole(key, otherwise)
            if not alone or not count:
                raise wrong(key, "is no list of whole numbers above 0")
            return (alone,) * count
        if not value or len(value) != (count or len(value)):
            wanted = f"not {count}" if count else "where some are needed"
            raise wrong(key, f"has {len(value)} entries, {wanted}", "")
        return tuple(Configuration({key: item}).needed(key) for item in value)

    def number(self, key: str, otherwise: float) -> float:
        """Return a positive number, or the default if it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return otherwise
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
            raise wrong(key, f"{value!r} is not a number above 0", "")
        return float(value)

    def is_set(self, key: str, *, otherwise: bool = False) -> bool:
        """Return a boolean."""
        value = self.values.get(key)
        return otherwise if value is None else bool(value)

    def text(self, key: str) -> str:
        """Return a text, empty if absent."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def part(self, key: str) -> Mapping[str, object]:
        """Return a nested mapping, empty if absent."""
        value = self.values.get(key)
        return value if isinstance(value, Mapping) else {}

    def lists(self, key: str) -> tuple[object, ...]:
        """Return the entries of a list, empty if absent."""
        value = self.values.get(key)
        return tuple(value) if isinstance(value, list | tuple) else ()

    def length(self, key: str, otherwise: int) -> int:
        """Return the number of entries of a list, or the default if there is none."""
        value = self.values.get(key)
        return len(value) if isinstance(value, list | tuple) else otherwise

    def names(self, key: str) -> tuple[str, ...]:
        """Return the texts in a list, empty if absent."""
        return tuple(item for item in self.lists(key) if isinstance(item, str))

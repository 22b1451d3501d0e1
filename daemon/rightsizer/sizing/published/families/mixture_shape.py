"""The experts of a Hugging Face model: how many, how wide, in which layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.families.family import Family

__all__ = ["MixtureShape", "shared_width"]

_EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts")
"""How transformers writes the same number, by version and family."""
_CHOSEN: Final = (
    "num_experts_per_tok",
    "experts_per_token",
    "num_experts_per_token",
    "moe_top_k",
    "moe_topk",
    "moe_k",
)
_SHARED: Final = (
    "n_shared_experts",
    "num_shared_experts",
    "moe_num_shared_experts",
    "num_shared_expert",
)
_SHARED_WIDTHS: Final = ("shared_expert_intermediate_size", "share_expert_dim")
_DENSE_FIRST: Final = ("first_k_dense_replace", "moe_layer_start_index")
_STEPS: Final = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
_EXPANSION: Final = 4
_MOST_LAYERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class MixtureShape:
    """The feed-forward parts of all layers; a dense model has one expert."""

    experts: int
    experts_per_token: int
    shared_experts: int
    expert_ffn: int
    dense_layers: int
    dense_ffn: int

    @classmethod
    def of(cls, config: Configuration, family: Family, layers: int, hidden: int) -> Self:
        """That of a configuration.

        Raises:
            RequirementError: it does not tell how many experts a token passes, or has more layers
                than can be.
        """
        usual = (config.whole("expansion_ratio") or _EXPANSION) * hidden
        dense = _of_layers(config, family.ffn, layers) or usual
        experts = _experts(config, family, layers)
        if experts == 1:
            return cls(1, 1, 0, dense, 0, dense)
        if layers > _MOST_LAYERS:
            raise RequirementError(
                f"config.json: {family.layers}: {layers} is more than any model has; take the file"
                " as published with the model"
            )
        width = (_of_layers(config, family.expert_ffn, layers) if family.expert_ffn else 0) or dense
        return cls(
            experts=experts,
            experts_per_token=_chosen(config, layers),
            shared_experts=shared_width(config, family, layers, width) // width,
            expert_ffn=width,
            dense_layers=layers - sum(_is_mixed(config, layer) for layer in range(layers)),
            dense_ffn=dense,
        )


def _of_layers(config: Configuration, key: str, layers: int) -> int:
    """A number, or what the layers have on average where a file names it for each; 0 for none."""
    if not config.lists(key):
        return config.whole(key) or 0
    return round(sum(config.wholes(key, layers)) / layers)


def _experts(config: Configuration, family: Family, layers: int) -> int:
    """By the family's key, else by another that stands for it; one where there are none."""
    if not family.experts:
        return 1
    keys = (family.experts, *_EXPERTS)
    return next((count for key in keys if (count := _of_layers(config, key, layers))), 1)


def _chosen(config: Configuration, layers: int) -> int:
    count = next((value for key in _CHOSEN if (value := _of_layers(config, key, layers))), None)
    if count is None:
        raise RequirementError(
            f"config.json: {_CHOSEN[0]}: is missing; take the file as published with the model"
        )
    return count


def shared_width(config: Configuration, family: Family, layers: int, width: int) -> int:
    """How wide the part of a layer is that every token passes.

    Args:
        config: Of the model.
        family: Of the model.
        layers: All of them.
        width: Of one expert.
    """
    told = (key for key in _SHARED if config.lists(key) or config.whole(key) is not None)
    if (key := next(told, None)) is not None:
        return _of_layers(config, key, layers) * width
    wide = next((value for key in _SHARED_WIDTHS if (value := config.whole(key))), 0)
    return wide or family.shared_experts * width


def _is_mixed(config: Configuration, layer: int) -> bool:
    """Whether a layer has experts; each family's key says so in its own way."""
    listed = _numbers(config.values, "moe_layers") or _numbers(config.values, "moe_layers_enum")
    if listed:
        return layer in listed
    kinds = config.names("mlp_layer_types")
    if layer < len(kinds):
        return kinds[layer] == "sparse"
    if layer in _numbers(config.values, "mlp_only_layers"):
        return False
    if layer < next((first for key in _DENSE_FIRST if (first := config.whole(key))), 0):
        return False
    last = config.values.get("moe_layer_end_index")  # ERNIE writes -1 where it is the last of all.
    if isinstance(last, int) and 0 <= last < layer:
        return False
    every = config.whole("moe_layer_freq") or 1
    step = next((value for key in _STEPS if (value := config.whole(key))), 1)
    return layer % every == 0 and (layer + 1) % step == 0


def _numbers(values: Mapping[str, object], key: str) -> Sequence[object]:
    value = values.get(key)
    if isinstance(value, str):  # Step-3 writes them in one text.
        return [int(each) for each in value.split(",") if each.strip().isdecimal()]
    return value if isinstance(value, list | tuple) else ()

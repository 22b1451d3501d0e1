"""Model from a `config.json` of Hugging Face's transformers."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from rightsizer.planner.models import PublishedModel
from rightsizer.planner.models.checkpoint_format import (
    checkpoint_format,
    format_notes,
    leaves_attention_out,
    quantizes_towers,
)
from rightsizer.planner.models.configuration import (
    AS_PUBLISHED,
    MODEL_TYPES,
    Configuration,
    wrong,
)
from rightsizer.planner.models.family import FAMILIES, read_family
from rightsizer.planner.models.formulas import Formulas, formula_rows
from rightsizer.planner.models.towers import (
    COLORS,
    OTHER_PARTS,
    channels,
    count_towers,
    encoder_elements,
)
from rightsizer.planner.requirement_checks import check_model
from rightsizer.sizing.models import LayeredModel, Transformer, VisionTransformer
from rightsizer.sizing.parameters import count_parameters

_KEYS: Final = ("max_position_embeddings", "n_positions")
_MOST: Final = 1e6
_MULTIPLIED: Final = frozenset({"yarn", "linear", "dynamic"})
"""Scalings whose file states the length before scaling, as vLLM reads it; others after."""
_SCALED: Final = "gemma3"
"""The only one whose files state the length after a linear scaling."""
_VISION: Final = frozenset({"vit", "deit"})
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")
_TIED: Final = "tie_word_embeddings"
_TIED_BY_PART: Final = frozenset("01234")
"""Versions of transformers that do so."""
_OWN_HEADS: Final = frozenset({"llama4"})
"""Models whose text part has the head, and so states whether it is tied."""
_COMMON: Final = ("torch_dtype", "dtype", "quantization_config", _TIED)
"""Values that parts inherit from the whole."""
_CLASSES: Final = 1000
_KEYS_OF_PLANS: Final = "parameters, layers, hidden, heads, kv_heads, ffn, vocab"
_DESCRIBE: Final = f"describe the model in the plan instead ({_KEYS_OF_PLANS})"
_IMAGES_AND_TEXTS: Final = frozenset({"clip"})
_WITH_TEXT_ENCODER: Final = frozenset({"clip", "siglip"})
"""Models of images and texts whose text part is an encoder."""
_MIXTURES: Final = {
    "num_experts": "qwen3_moe",
    "num_local_experts": "mixtral",
    "n_routed_experts": "deepseek_v3",
}
"""Types that count experts by a key."""
_SPELLINGS: Final = {
    "layers": ("num_layers", "n_layer", "num_hidden_layers"),
    "hidden": ("d_model", "n_embd", "hidden_size"),
    "heads": ("n_head", "num_attention_heads"),
    "ffn": ("n_inner", "intermediate_size"),
}
"""Keys of other versions of transformers, the last first, by the field of a family."""
TextModel = PublishedModel[LayeredModel]


def _context_tokens(config: Configuration) -> int | None:
    """Return the maximum tokens per request, including position scaling; `None` if not stated."""
    context_tokens = next((value for key in _KEYS if (value := config.whole(key))), None)
    if context_tokens is None or config.text("model_type").startswith(_SCALED):
        return context_tokens
    scaling = Configuration(config.part("rope_scaling") or config.part("rope_parameters"))
    factor = scaling.values.get("factor")
    kind = scaling.text("rope_type") or scaling.text("type")
    if kind not in _MULTIPLIED or isinstance(factor, bool) or not isinstance(factor, int | float):
        return context_tokens
    if not 1 <= factor < _MOST:
        return context_tokens
    before = scaling.whole("original_max_position_embeddings") or context_tokens
    return max(context_tokens, int(before * factor))


def read_config(values: Mapping[str, object], name: str = "") -> TextModel:
    """Return the model of a parsed `config.json`.

    For multimodal models the text part is read, plus the memory of other parts, as far as their
    shape is known; a note states this.
    """
    config = Configuration(values)
    published = config.text("_name_or_path").rstrip("/").rpartition("/")[2]
    named = name or published or config.text("model_type")
    for key in _TEXT_PARTS:
        if part := config.part(key):
            kind = config.text("model_type")
            usual = "llama" if kind.startswith("llava") else kind
            text_type = f"{kind}_text" if f"{kind}_text" in FAMILIES else usual
            inner = {"model_type": MODEL_TYPES["texts"].get(kind, text_type), **part}
            for common in _COMMON:
                if common in values and (common not in part or _is_of_whole(common, config)):
                    inner[common] = values[common]
            read = read_config(inner, named)
            is_whole = kind in _WITH_TEXT_ENCODER or key != "text_config"
            if isinstance(read.model, Transformer) and read.model.is_encoder and not is_whole:
                fault = f"'{kind}' is not known; its text part alone says nothing of it"
                raise wrong("model_type", fault, _DESCRIBE)
            return _with_towers(read, config)
    model = _read(config, named)
    check_model(model)
    if isinstance(model, Transformer) and leaves_attention_out(config):
        model = replace(model, attention_in_16_bits=True)
    has_two_stacks = config.text("model_type") in formula_rows("stacks")
    longest = None if has_two_stacks else _context_tokens(config)
    read = TextModel(model, checkpoint_format(config), longest, format_notes(config))
    has_more = any(config.part(key) for key in OTHER_PARTS)
    return _with_towers(read, config) if has_more else read


def as_decoder(values: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return a file of an unknown type as that of a decoder; `None` if its type is known.

    With the experts that it names, a mixture.
    """
    config = Configuration(values)
    parts = filter(None, map(config.part, _TEXT_PARTS))
    inner = Configuration(next(parts, values))
    kind = inner.text("model_type") or config.text("model_type")
    if not kind or is_known_type(kind) or is_known_type(config.text("model_type")):
        return None
    usual = next((usual for key, usual in _MIXTURES.items() if inner.whole(key)), "llama")
    beside = {key: values[key] for key in _COMMON if key in values}
    return {**beside, **inner.values, "model_type": usual}


def is_known_type(kind: str) -> bool:
    """Whether files of a `model_type` are read by what they say of it."""
    return kind in {*_IMAGES_AND_TEXTS, *_known_types()}


def _known_types() -> set[str]:
    return {*_VISION, *formula_rows("stacks"), *formula_rows("recurrents"), *FAMILIES}


def two_stacks(config: Configuration, kind: str) -> Formulas:
    """Return the formulas of an encoder with a decoder."""
    return Formulas(formula_rows("stacks")[kind], config, {"is_umt5": kind == "umt5"})


def read_image_tower(values: Mapping[str, object], name: str) -> TextModel | None:
    """Return the vision tower of a model with a joint image-text space; `None` for other models.

    Such models are mostly queried with images: texts take little in comparison.
    """
    config = Configuration(values)
    if config.text("model_type") not in _IMAGES_AND_TEXTS:
        return None
    usual = MODEL_TYPES["towers"]["clip_vision_model"]
    part = Configuration({**usual, **config.part("vision_config")})
    tower = replace(_vision_transformer(part, name), classes=config.whole("projection_dim") or 512)
    tower = replace(tower, parameters=None)
    note = "images in, embeddings out: the vision tower is planned for, the text tower is not"
    return TextModel(tower, checkpoint_format(config), notes=(note,))


def _with_towers(read: TextModel, config: Configuration) -> TextModel:
    model = read.model
    if not isinstance(model, Transformer):
        return read
    towers, notes = count_towers(config, model.hidden)
    unread = replace(
        model.unread,
        towers=float(towers),
        encoder_elements=encoder_elements(config),
        are_towers_quantized=quantizes_towers(config),
    )
    return replace(read, model=replace(model, unread=unread), notes=(*read.notes, *notes))


def _is_of_whole(key: str, config: Configuration) -> bool:
    """Whether a value of the whole takes precedence over the part's.

    Transformers 5 ties embedding and head as the whole states, and writes its default into the
    part; before, the part's value applied, and the whole's was an unused default.
    """
    if key != _TIED or config.text("model_type") in _OWN_HEADS:
        return False
    version = config.text("transformers_version").partition(".")[0]
    return version.isdecimal() and version not in _TIED_BY_PART


def _read(config: Configuration, name: str) -> LayeredModel:
    kind = config.text("model_type")
    if kind in _VISION:
        return _vision_transformer(config, name)
    defaults = MODEL_TYPES["defaults"].get(kind, {})
    if kind in formula_rows("stacks"):
        stacks = two_stacks(Configuration(config.values, defaults), kind)
        return Transformer(name=name, **stacks.results("shape"))
    if kind in FAMILIES:
        family = FAMILIES[kind]
        nested = {
            key: value for part in family["nested"] for key, value in config.part(part).items()
        }
        values = {**nested, **config.values}
        for usual, others in _SPELLINGS.items():
            key = family[usual]
            if key not in values and key not in defaults:
                values.update((key, values[other]) for other in others if other in values)
        return read_family(Configuration(values, defaults), family, name)
    if kind in formula_rows("recurrents"):
        # Imported on use: most plans do not need it.
        from rightsizer.planner.models.recurrent import read_recurrent  # noqa: PLC0415

        return read_recurrent(Configuration(config.values, defaults), name)
    type_names = ", ".join(sorted(_known_types()))
    fault = f"'{kind}' is not known" if kind else "is missing"
    remedy = f"{_DESCRIBE if kind else AS_PUBLISHED}. Known are {type_names}"
    raise wrong("model_type", fault, remedy)


def _vision_transformer(config: Configuration, name: str) -> VisionTransformer:
    labels = config.part("id2label")
    shape = VisionTransformer(
        layers=config.needed("num_hidden_layers"),
        hidden=config.needed("hidden_size"),
        heads=config.needed("num_attention_heads"),
        name=name,
        ffn=config.whole("intermediate_size"),
        image=config.whole("image_size") or 224,
        patch=config.whole("patch_size") or 16,
        classes=len(labels) or _CLASSES,
    )
    check_model(shape)
    more = (channels(config) - COLORS) * shape.patch**2 * shape.hidden
    if config.text("model_type") == "deit":
        more += 2 * shape.hidden  # The distillation token, and its position.
    if not config.is_set("qkv_bias", otherwise=True):
        more -= 3 * shape.layers * shape.hidden
    return replace(shape, parameters=count_parameters(shape).total + more)

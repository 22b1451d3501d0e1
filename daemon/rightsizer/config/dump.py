"""Settings as the file that would load them."""

from typing import Any

from rightsizer.config.shape import Group, Many, Named, Nullable, Scalar, Shape, shape_of
from rightsizer.config.spelling import spell
from rightsizer.io.yaml import dump_yaml


def dump(settings: Any) -> str:
    """YAML text with every setting, which loads back to an equal tree."""
    return dump_yaml(plain(settings, shape_of(type(settings))))


def plain(value: Any, shape: Shape) -> Any:
    """A value as the mappings, lists and scalars that the file would have for it."""
    match shape:
        case Group():
            return {
                entry.key: plain(getattr(value, entry.name), entry.shape) for entry in shape.entries
            }
        case Many(item):
            return [plain(element, item) for element in value]
        case Named(inner):
            return {name: plain(element, inner) for name, element in value.items()}
        case Nullable(inner):
            return None if value is None else plain(value, inner)
        case Scalar():
            return spell(value, shape)

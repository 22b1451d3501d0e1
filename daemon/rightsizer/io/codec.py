"""JSON of frozen dataclasses, both ways: what is only stored is mirrored, not spelled out."""

from typing import Any, TypeVar

_Value = TypeVar("_Value")


def encode(value: object) -> str:
    """A value as JSON: dataclasses as mappings by their fields' names, what is not finite as null.

    What JSON has no word for is written as its text.
    """
    # A process that stores nothing does not load it.
    import msgspec  # noqa: PLC0415

    return msgspec.json.encode(value, enc_hook=str).decode()


def decode(text: str | bytes, kind: type[_Value]) -> _Value:
    """The value of a type that a JSON text stands for; keys that the type does not know are left.

    Raises:
        ValueError: the text is no JSON, or not of this type; it says where.
    """
    import msgspec  # noqa: PLC0415 - as said above.

    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def convert(value: Any, kind: type[_Value]) -> _Value:
    """The value of a type that parsed JSON stands for, as `decode` reads a text."""
    import msgspec  # noqa: PLC0415 - as said above.

    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None

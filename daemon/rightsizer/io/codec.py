"""JSON of frozen dataclasses, both ways: what is only stored is mirrored, not spelled out."""

from typing import Any, TypeVar

_Value = TypeVar("_Value")


def encode(value: object) -> str:
    """A value as JSON: dataclasses as mappings, what is not finite as null, the rest as text."""
    # A process that stores nothing does not load it.
    import msgspec  # noqa: PLC0415

    return msgspec.json.encode(value, enc_hook=str).decode()


def decode(text: str | bytes, kind: type[_Value]) -> _Value:
    """The value of a type in a JSON text, without unknown keys; raises `ValueError` for none."""
    import msgspec  # noqa: PLC0415 - as said above.

    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def convert(form: Any, kind: type[_Value]) -> _Value:
    """The value of a type that parsed JSON stands for, as `decode` reads a text."""
    import msgspec  # noqa: PLC0415 - as said above.

    try:
        return msgspec.convert(form, kind, str_keys=True)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None

"""JSON codec of frozen dataclasses, derived from their fields, for data that is only stored."""

from typing import Any, TypeAlias, TypeVar

JsonObject: TypeAlias = dict[str, Any]
"""JSON-serializable object."""
_Value = TypeVar("_Value")


def encode(value: object) -> str:
    """Encode a value: dataclasses as objects by field name, non-finite numbers as null.

    Types unknown to JSON are encoded as their text.
    """
    # Imported on use, for processes that store nothing.
    import msgspec  # noqa: PLC0415

    return msgspec.json.encode(value, enc_hook=str).decode()


def decode(text: str | bytes, kind: type[_Value]) -> _Value:
    """Decode a JSON text to a type; ignores unknown keys.

    Raises:
        ValueError: invalid JSON, or not of this type; the message has the position.
    """
    import msgspec  # noqa: PLC0415 - as above.

    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def convert(value: Any, kind: type[_Value]) -> _Value:
    """Convert parsed JSON to a type, by the rules of `decode`."""
    import msgspec  # noqa: PLC0415 - as above.

    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None

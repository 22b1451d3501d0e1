"""Numbers of things, in words that fit one of them too."""


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 finding`, `2 findings`.

    Args:
        count: How many there are.
        one: The noun for one.
        many: The noun for any other number, where an `s` at the end does not make it.
    """
    return f"{count} {one if count == 1 else many or one + 's'}"

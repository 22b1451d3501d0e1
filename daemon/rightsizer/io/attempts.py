"""Attempts of several things, each of which may fail by itself."""

from collections.abc import Callable, Iterable


def attempt_all(acts: Iterable[Callable[[], object]]) -> None:
    """Do all of it; the first failure, whatever it is, is raised after the last."""
    failures = []
    for act in acts:
        try:
            act()
        except Exception as failure:  # noqa: BLE001 - one act's fault is its own.
            failures.append(failure)
    if failures:
        raise failures[0]

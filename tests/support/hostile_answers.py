"""False responses of a store: correct ones with some values, times and labels changed."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any, Final

from faulty_store import StoreRequest

__all__ = ["HostileStore"]

_NUMBERS: Final = (
    "NaN",
    "+Inf",
    "-Inf",
    "-1",
    "0",
    "1e308",
    "-1e308",
    "1e400",
    "5e-324",
    "1e18",
    "7",
    "9" * 400,
)
_NO_NUMBERS: Final[tuple[Any, ...]] = ("", "abc", "0x10", 3, None, True, [], {})
_TIMES: Final = (0, 1.5, 4e9)
_NO_TIMES: Final[tuple[Any, ...]] = (-1, 1e308, -1e308, 1e18, 2**70, "12", None, True, [])
_TEXTS: Final = (
    "",
    "x",
    "é\u202e",
    "\x1b[2J\x1b]0;x\x07",
    "a\nb\tc",
    '"}],"values":[[',
    "\ud800",
    "\x00",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "a" * 1_000_000,
    "kubernetes:",
    "slurm:",
    "kubernetes:a/b/c",
    "mig",
    "9" * 50,
    "$(id)",
    "'; DROP TABLE track; --",
)
_NO_TEXTS: Final[tuple[Any, ...]] = (7, None, [], {})


class _Liar(random.Random):
    """Chooses the changes; in careful mode, only plausible ones."""

    is_careful = True

    def number(self) -> Any:
        return self.choice(_NUMBERS if self.is_careful else _NUMBERS + _NO_NUMBERS)

    def time(self) -> Any:
        return self.choice(_TIMES if self.is_careful else _TIMES + _NO_TIMES)

    def text(self) -> Any:
        return self.choice(_TEXTS if self.is_careful else _TEXTS + _NO_TEXTS)


class HostileStore:
    """Falsifies some responses, by a seed; equal seeds falsify equally."""

    def __init__(self, truth: Callable[[StoreRequest], bytes], seed: int) -> None:
        """It has changed nothing yet.

        Args:
            truth: The correct response.
            seed: Selects the changes.
        """
        self._truth = truth
        self._random = _Liar(seed)
        self._random.is_careful = seed % 4 > 0
        self._share = self._random.choice((0.03, 0.1, 0.5))

    def answer(self, asked: StoreRequest) -> bytes:
        """The response: correct most of the time."""
        raw = self._truth(asked)
        if self._random.random() > self._share:
            return raw
        tree = json.loads(raw)
        result = tree["data"]["result"]
        for _ in range(self._random.randint(1, 4)):
            if isinstance(result, list) and result and isinstance(result[0], dict):
                self._random.choice(_LIES)(self._random, result)
        return json.dumps(tree, separators=self._random.choice(((",", ":"), None))).encode()


def _value(by: _Liar, result: list[Any]) -> None:
    _sample(by, result)[1] = by.number()


def _time(by: _Liar, result: list[Any]) -> None:
    _sample(by, result)[0] = by.time()


def _moved(by: _Liar, result: list[Any]) -> None:
    sample = _sample(by, result)
    if isinstance(sample[0], int | float):
        sample[0] += by.choice((-86400, -300, -1, 0.001, 150, 300, 3600, 86400 * 400))


def _all_values(by: _Liar, result: list[Any]) -> None:
    value = by.number()
    for series in result:
        for sample in series.get("values", [series.get("value", [0, 0])]):
            sample[1] = value


def _label(by: _Liar, result: list[Any]) -> None:
    labels = by.choice(result)["metric"]
    if labels:
        labels[by.choice(sorted(labels))] = by.text()


def _all_labels(by: _Liar, result: list[Any]) -> None:
    names = sorted({name for series in result for name in series["metric"]})
    if names:
        name = by.choice(names)
        text = by.text()
        for series in result:
            series["metric"][name] = text


def _no_label(by: _Liar, result: list[Any]) -> None:
    labels = by.choice(result)["metric"]
    if labels:
        del labels[by.choice(sorted(labels))]


def _again(by: _Liar, result: list[Any]) -> None:
    result.append(copy.deepcopy(by.choice(result)))


def _no_series(by: _Liar, result: list[Any]) -> None:
    if len(result) > 1:
        del result[by.randrange(len(result))]


def _backwards(by: _Liar, result: list[Any]) -> None:
    by.choice(result).get("values", []).reverse()


def _longer(by: _Liar, result: list[Any]) -> None:
    samples = by.choice(result).get("values")
    if samples:
        samples.extend(copy.deepcopy(samples) * 20)


def _sample(by: _Liar, result: list[Any]) -> list[Any]:
    series = by.choice(result)
    found: list[Any] = by.choice(series["values"]) if series.get("values") else series["value"]
    return found


_LIES: Final = (
    _value,
    _time,
    _moved,
    _all_values,
    _label,
    _all_labels,
    _no_label,
    _again,
    _no_series,
    _backwards,
    _longer,
)

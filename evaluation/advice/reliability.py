"""Whether a confidence is the probability that it calls itself."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

HEADINGS: Final = ("confidence", "findings", "mean confidence", "share true")
KIND_HEADINGS: Final = (
    "findings",
    "mean confidence",
    "share true",
    "Brier score",
    "calibration error",
)
_BINS: Final = 10


@dataclass
class Reliability:
    """Findings by rule, confidence and whether they were true.

    A confidence has three digits, so that counts of its thousandths lose nothing.
    """

    counts: Counter[tuple[str, int, bool]] = field(default_factory=Counter)

    def add(self, kind: str, confidence: float, *, is_true: bool) -> None:
        """Count a finding."""
        self.counts[kind, round(confidence * 1000), is_true] += 1

    def merge(self, other: "Reliability") -> None:
        """Add those of other runs."""
        self.counts.update(other.counts)

    def of(self, is_wanted: Callable[[str], bool]) -> "Reliability":
        """Findings of some kinds."""
        return Reliability(Counter({k: n for k, n in self.counts.items() if is_wanted(k[0])}))

    @property
    def kinds(self) -> tuple[str, ...]:
        """All of them, in order."""
        return tuple(sorted({kind for kind, _, _ in self.counts}))

    @property
    def findings(self) -> int:
        """Number of findings."""
        return self.counts.total()

    @property
    def brier_score(self) -> float:
        """The mean squared error of the confidence; 0 is the best."""
        errors = (n * (c / 1000 - t) ** 2 for (_, c, t), n in self.counts.items())
        return sum(errors) / max(1, self.findings)

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: the mean of the bins' differences, by their counts."""
        bins = self._bins()
        return sum(n * abs(sure - true) for n, sure, true in bins.values()) / max(1, self.findings)

    @property
    def mean_confidence(self) -> float:
        """Over all findings."""
        return sum(n * c / 1000 for (_, c, _), n in self.counts.items()) / max(1, self.findings)

    @property
    def share_true(self) -> float:
        """Of all findings."""
        return sum(n for (_, _, t), n in self.counts.items() if t) / max(1, self.findings)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The reliability diagram as a table."""
        for low, (findings, sure, true) in sorted(self._bins().items()):
            name = f"{low / _BINS:.1f} to {(low + 1) / _BINS:.1f}"
            yield name, str(findings), f"{sure:.3f}", f"{true:.3f}"

    def kind_rows(self) -> Iterator[tuple[str, ...]]:
        """For each kind: findings, mean confidence, share true, Brier score, calibration error."""
        for kind in self.kinds:
            yield _kind_row(kind, self.of(kind.__eq__))
        yield _kind_row("all", self)

    def _bins(self) -> dict[int, tuple[int, float, float]]:
        groups: dict[int, list[tuple[int, float, bool]]] = {}
        for (_, confidence, is_true), times in self.counts.items():
            low = min(_BINS - 1, confidence * _BINS // 1000)
            groups.setdefault(low, []).append((times, confidence / 1000, is_true))
        return {low: _summary(group) for low, group in groups.items()}


def _summary(group: Iterable[tuple[int, float, bool]]) -> tuple[int, float, float]:
    findings = list(group)
    count = sum(times for times, _, _ in findings)
    sure = sum(times * confidence for times, confidence, _ in findings) / count
    return count, sure, sum(times for times, _, is_true in findings if is_true) / count


def _kind_row(kind: str, found: Reliability) -> tuple[str, ...]:
    return (
        kind,
        str(found.findings),
        f"{found.mean_confidence:.3f}",
        f"{found.share_true:.3f}",
        f"{found.brier_score:.3f}",
        f"{found.calibration_error:.3f}",
    )

"""Evidence of an answer: what was read, assumed, learned and dropped."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct


class EvidenceKind(StrEnum):
    """How something came into an answer, what weighs most first."""

    ASSUMED = "assumed"
    """Stated by no input."""
    DROPPED = "dropped"
    """Stated by an input, and not believed or not readable."""
    LEARNED = "learned"
    """Concluded from the input itself."""
    READ = "read"


class Evidence(Struct, frozen=True):
    """One thing that an answer rests on."""

    kind: EvidenceKind
    subject: str
    reason: str = ""
    count: int = 1
    effect: str = ""
    """What depends on it."""

    @property
    def text(self) -> str:
        """One line for people."""
        if self.kind is EvidenceKind.ASSUMED:
            reason = f" ({self.reason})" if self.reason else ""
            effect = f"; what hangs on it: {self.effect}" if self.effect else ""
            return f"{self.kind}: {self.subject}{reason}{effect}"
        is_repeated = self.kind is EvidenceKind.DROPPED and self.count > 1
        times = f" ({self.count} times)" if is_repeated else ""
        parts = (f"{self.subject}{times}", self.reason, self.effect)
        return f"{self.kind}: {'; '.join(filter(None, parts))}"


def weightiest(evidence: Iterable[Evidence], count: int) -> Sequence[Evidence]:
    """Return what matters most: by kind, then by count."""
    order = [*EvidenceKind]
    return sorted(evidence, key=lambda item: (order.index(item.kind), -item.count))[:count]

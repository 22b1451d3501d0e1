"""What a plan consists of: candidates, why some were rejected, and how fast each would be."""

from dataclasses import dataclass
from enum import StrEnum

from rightsizer.sizing.bill import Bill
from rightsizer.sizing.estimate import Interval, MemoryEstimate
from rightsizer.sizing.requirement import Parallelism

__all__ = ["Candidate", "Filter", "Rate", "Rejection"]


class Filter(StrEnum):
    """The sieves that candidates pass, in their order."""

    LAYOUT = "layout"
    MEMORY = "memory"
    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a candidate is none."""

    by: Filter
    why: str

    def __str__(self) -> str:
        """`memory: needs 141.2 GiB of each GPU, ...`."""
        return f"{self.by}: {self.why}"


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a candidate is, all of its GPUs together."""

    tokens_per_second: Interval | None = None
    """Output tokens, trained tokens, or images and samples of models that know no tokens."""
    concurrency: float | None = None
    """Requests in flight; of training, sequences or images of one step."""
    ttft_ms: Interval | None = None
    tpot_ms: Interval | None = None
    training_hours: Interval | None = None
    mfu_ratio: float | None = None
    bound: str = ""
    """The limit that it comes up against first."""
    missing: str = ""
    """Why there is no rate."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Some GPUs of one kind in one layout, and what they would do."""

    gpu: str
    layout: Parallelism
    memory: MemoryEstimate
    usable_bytes: float
    """What processes can have of one GPU."""
    rate: Rate = Rate()
    rejections: tuple[Rejection, ...] = ()
    gpu_dollars_per_hour: float | None = None
    work_dollars: float | None = None
    """For a million of the tokens that the load asks for, which may be fewer than it could make."""
    rank: int | None = None
    bill: Bill | None = None
    """All forms of its cost; `None` before they are reckoned."""

    @property
    def fits(self) -> bool:
        """Whether it meets everything that is asked for."""
        return not self.rejections

    @property
    def fits_memory(self) -> bool:
        """Whether it meets what is asked for of memory."""
        return all(each.by not in {Filter.LAYOUT, Filter.MEMORY} for each in self.rejections)

    @property
    def is_memory_tight(self) -> bool:
        """Whether memory may turn out short, by the upper end of what is predicted."""
        return self.memory.total.high > self.usable_bytes

    @property
    def count(self) -> int:
        """How many GPUs."""
        return self.layout.gpus

    @property
    def memory_headroom_ratio(self) -> float:
        """What stays free of what processes can have; below 0 where it does not fit."""
        return 1.0 - self.memory.total_bytes / self.usable_bytes if self.usable_bytes else -1.0

    @property
    def dollars_per_hour(self) -> float | None:
        """Of all GPUs."""
        return None if self.gpu_dollars_per_hour is None else self.gpu_dollars_per_hour * self.count

    @property
    def dollars_per_million_tokens(self) -> float | None:
        """Of the tokens that it can make."""
        dollars, rate = self.dollars_per_hour, self.rate.tokens_per_second
        if dollars is None or rate is None or not rate.value:
            return None
        return dollars * 1e6 / (rate.value * 3600.0)

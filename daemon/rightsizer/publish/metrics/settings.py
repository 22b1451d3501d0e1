"""What an operator may change about the exposition."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["MetricsSettings"]


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """How much is exported, and how hard it is compressed."""

    advice_limit: int = setting(
        20,
        help="Pieces of open advice that are exported one by one, the surest first.",
        minimum=0,
        maximum=1000,
        source="six series each; about a hundred series a metric is much (Prometheus docs)",
    )
    details: bool = setting(
        False,
        help="Also export what is rarely needed: each NVLink and fabric port, BAR1, application "
        "clocks, errors in a board's life, the host by workload. About 40 series more a GPU, "
        "and 108 more where it has 18 NVLinks.",
        source="the default set keeps to 1,900 series for eight GPUs",
    )
    gzip_level: int = setting(
        3,
        help="How hard a scrape is compressed, 1 fast to 9 small.",
        minimum=1,
        maximum=9,
        source="measured: level 3 is within a tenth of level 6 in a third of its time",
    )

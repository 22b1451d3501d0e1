"""A look at an estate whose engines serve the models of a site, compared with the truth."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dcgm_estate import NOW
from fleet_command import asked_in_process, configured
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.planner.served.engine import requirement_of
from rightsizer.sizing.requirement import Parallelism
from served_estate import policies_of, served_past
from served_models import PLANNER, ServedModel
from victoria_server import victoria_server

__all__ = ["ServedLook", "is_missed", "looked_at", "served_store"]


class ServedLook(Struct, frozen=True):
    """What a look says of the served models of a site."""

    models: tuple[ServedModel, ...]
    document: dict[str, Any]
    """The look's answer in JSON."""

    @property
    def answers(self) -> Mapping[str, Mapping[str, Any]]:
        """By workload."""
        return {answer["name"]: answer for answer in self.document["served_models"]}

    def advised(self, model: ServedModel) -> list[Mapping[str, Any]]:
        """What is advised about one."""
        findings = self.answers[model.load.workload].get("findings", ())
        return [finding for finding in findings if finding["options"] and not finding["abstained"]]

    @property
    def missed(self) -> list[str]:
        """Models that are wrong, of which that is not found."""
        wrong = [model for model in self.models if model.finding is not None]
        return [
            f"{model.kind}: {model.load.workload}"
            for model in wrong
            if model.finding not in {finding["kind"] for finding in self.advised(model)}
        ]

    @property
    def recall(self) -> float:
        """Part of the models that are wrong, of which that is found."""
        wrong = sum(model.finding is not None for model in self.models)
        return 1.0 - len(self.missed) / wrong

    @property
    def false(self) -> list[str]:
        """Advice that would miss the level, or is about an unknown model."""
        return [
            f"{model.kind}: {model.load.workload}: {option['change']}"
            for model in self.models
            for finding in self.advised(model)
            if finding["kind"] != "trade"
            for option in finding["options"]
            if model.kind == "unknown"
            or is_missed(model, option["question"], option["candidate"]["layout"])
        ]


def is_missed(model: ServedModel, question: Mapping[str, Any], layout: Mapping[str, int]) -> bool:
    """Whether a change is too slow, as slow as the model truly is on its board."""
    (board,) = question["gpus"]
    requirement = replace(requirement_of(question), parallel=Parallelism(**layout), gpus=())
    rate = PLANNER.predicted(requirement, board).rate
    assert rate.tpot_ms is not None
    assert rate.ttft_ms is not None
    assert rate.units_per_second is not None
    bias = model.biases[board]
    slow = (rate.tpot_ms.high / rate.tpot_ms.value) ** bias
    late = (rate.ttft_ms.high / rate.ttft_ms.value) ** bias
    load = requirement.load
    return bool(
        rate.tpot_ms.value * slow > (load.tpot_ms or 0.0)
        or rate.ttft_ms.value * late > (load.ttft_ms or 0.0)
        or rate.units_per_second.value / slow < (load.units_per_second or 0.0)
    )


@contextmanager
def served_store(models: Sequence[ServedModel]) -> Iterator[Path]:
    """A VictoriaMetrics with the estate of some models, and the configuration of looks at it."""
    past = served_past(models).text()
    with (
        victoria_server(past=past) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        yield configured(
            Path(folder), server.url, lookback="1d", other={"policies": policies_of(models)}
        )


def looked_at(config: Path, *flags: str) -> str:
    """What a look at the end of the estate's day prints."""
    at = datetime.fromtimestamp(NOW / NANOSECONDS_PER_SECOND, UTC).isoformat()
    said = asked_in_process(config, "--at", at, *flags)
    assert said.status == 0, said.err
    return said.out

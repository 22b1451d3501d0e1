"""Workloads used to compare GPUs: kind of model, training or serving, and scenario."""

import re
from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Precision
from rightsizer.io.near import near_words
from rightsizer.model.errors import RequirementError
from rightsizer.model.table import table_rows

USUAL_COMPUTE_SHARE: Final = 0.6
_PRECISIONS: Final[Mapping[str, Precision]] = {
    **{str(precision): precision for precision in Precision},
    "fp16": Precision.BF16,
    "nvfp4": Precision.FP4,
    # Unpacked to 16 bits before the product.
    "int4": Precision.BF16,
}


class WorkloadActivity(StrEnum):
    """Use of a model."""

    INFERENCE = "inference"
    TRAINING = "training"


class ModelKind(StrEnum):
    """Models with similar demands on a GPU."""

    CNN = "cnn"
    DETECTION = "detection"
    SEGMENTATION = "segmentation-3d"
    TRANSFORMER_ENCODER = "transformer-encoder"
    LLM = "llm"
    DIFFUSION = "diffusion"
    SPEECH = "speech"
    RECOMMENDER = "recommender"
    GRAPH = "graph"


class InferenceScenario(StrEnum):
    """Mode of serving."""

    OFFLINE = "offline"
    """Batches as large as memory allows."""
    SERVER = "server"
    """Batches limited by latency."""


class ComparedWorkload(Struct, frozen=True):
    """Model family and activity, with the name in the request."""

    name: str
    activity: WorkloadActivity
    family: ModelKind
    scenario: InferenceScenario | None = None
    """`None` for the mean of both."""
    gpus: int | None = None
    """Number of GPUs that train together; `None` for the mean of one and eight."""
    precision: Precision | None = None
    """Format to run in; the best one available if `None` or unsupported by a board."""

    @property
    def compute_share(self) -> float:
        """Fraction of time in matrix products, an estimate for the family."""
        return COMPUTE_SHARES[self.activity].get(self.family, USUAL_COMPUTE_SHARE)


_ROWS: Final = {ModelKind(row["kind"]): row for row in table_rows(__file__, "model_kinds.csv")}
COMPUTE_SHARES: Final[Mapping[WorkloadActivity, Mapping[ModelKind, float]]] = {
    activity: {kind: float(share) for kind, row in _ROWS.items() if (share := row[column])}
    for activity in WorkloadActivity
    for column in (f"{activity}_compute_share",)
}
"""Estimated by arithmetic intensity, not measured: matrices of transformers are large,
normalization and embedding tables are mostly memory traffic, training stores and reads
activations; omitted families have the usual share."""
EXCHANGED_BYTES_PER_SECOND: Final[Mapping[ModelKind, float]] = {
    kind: float(row["exchanged_bytes_per_second"]) for kind, row in _ROWS.items()
}
"""Data sent per GPU in training, for each second of compute at the speed of an A100 SXM 80 GB;
estimated arithmetically, not measured."""
_SERVED: Final = WorkloadActivity.INFERENCE
WORKLOADS: Final[Mapping[str, ComparedWorkload]] = {
    **{
        f"{activity}-{family}": ComparedWorkload(f"{activity}-{family}", activity, family)
        for activity, family in product(WorkloadActivity, ModelKind)
    },
    **{
        f"{_SERVED}-{family}-{how}": ComparedWorkload(
            f"{_SERVED}-{family}-{how}", _SERVED, family, how
        )
        for family, how in product(ModelKind, InferenceScenario)
    },
}
"""By name."""
_SPELLINGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("serving", "serve", "infer"), str(_SERVED)),
    **dict.fromkeys(("train", "finetune", "finetuning"), str(WorkloadActivity.TRAINING)),
    **dict.fromkeys(("online", "interactive", "realtime"), str(InferenceScenario.SERVER)),
    "batch": str(InferenceScenario.OFFLINE),
    **{word: str(kind) for kind, row in _ROWS.items() for word in row["words"].split()},
    **{str(word): str(word) for word in (*WorkloadActivity, *InferenceScenario, *ModelKind)},
}
"""Words used for activities, families, their models, and scenarios."""
_BESIDE_NAMES: Final = frozenset(("large", "base", "small", "instruct", "medium", "turbo"))


def _plain_workload(name: str) -> str:
    """Normalize a name to activity, family and scenario: `llm-serving` to `inference-llm`.

    Serving is the default, and sizes of models are ignored: `whisper-large-v3`.
    """
    given = [(word, word.rstrip("0123456789.")) for word in re.findall(r"[^-_/ :]+", name.lower())]
    words = [
        _SPELLINGS.get(word) or _SPELLINGS.get(stem, word)
        for word, stem in given
        if stem in _SPELLINGS or not (word in _BESIDE_NAMES or any(map(str.isdigit, word)))
    ]
    activities = [word for word in words if word in {*WorkloadActivity}]
    scenarios = [word for word in words if word in {*InferenceScenario}]
    families = dict.fromkeys(word for word in words if word not in {*activities, *scenarios})
    return "-".join([*(activities or [str(_SERVED)])[:1], *families, *scenarios[:1]])


def parse_workload(name: str) -> ComparedWorkload:
    """Parse the name of a workload, also in forms such as `llm-serving`."""
    plain = name if name in WORKLOADS else _plain_workload(name)
    if plain in WORKLOADS:
        return WORKLOADS[plain]
    near = near_words(plain, WORKLOADS)
    meant = f"did you mean {near[0]}? Else take" if near else "take"
    families = f"training- or inference- and one of {', '.join(ModelKind)}"
    how = "-offline or -server may follow what is served"
    fault = f"workload: '{name}' is none that GPUs are compared by"
    raise RequirementError(f"{fault}; {meant} {families}; {how}")


def parse_precision(name: str) -> Precision:
    """Parse the name of a format."""
    if name not in _PRECISIONS:
        fault = f"precision: '{name}' is no format that GPUs compute in"
        raise RequirementError(f"{fault}; name one of {', '.join(_PRECISIONS)}")
    return _PRECISIONS[name]

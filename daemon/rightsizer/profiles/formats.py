"""All formats of profiles."""

from typing import Final

from rightsizer.profiles.mlperf.load_generator import MLPERF_DETAIL, MLPERF_SUMMARY
from rightsizer.profiles.mlperf.training import MLPERF_TRAINING
from rightsizer.profiles.nsight_compute.reader import NSIGHT_COMPUTE
from rightsizer.profiles.nsight_stats.reader import NSIGHT_STATS
from rightsizer.profiles.nsight_systems.reader import NSIGHT_SYSTEMS
from rightsizer.profiles.pytorch.reader import PYTORCH
from rightsizer.profiles.reader import ProfileReader
from rightsizer.profiles.rocprof.database import ROCPD
from rightsizer.profiles.rocprof.tables import ROCPROF
from rightsizer.profiles.tensorflow_page import TENSORFLOW_PAGE
from rightsizer.profiles.trace_viewer import TRACE_VIEWER
from rightsizer.profiles.xplane.reader import XPLANE

FORMATS: Final[tuple[ProfileReader, ...]] = (
    XPLANE,
    ROCPD,
    NSIGHT_SYSTEMS,
    TRACE_VIEWER,
    PYTORCH,
    TENSORFLOW_PAGE,
    NSIGHT_COMPUTE,
    ROCPROF,
    NSIGHT_STATS,
    MLPERF_DETAIL,
    MLPERF_TRAINING,
    MLPERF_SUMMARY,
)
"""In order of detection: the most specific first."""

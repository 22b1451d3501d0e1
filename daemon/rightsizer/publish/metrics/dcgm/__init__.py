"""The node in dcgm-exporter's manner, for what was made for it."""

from rightsizer.publish.metrics.dcgm.exposition import DcgmExposition

__all__ = ["DcgmExposition"]

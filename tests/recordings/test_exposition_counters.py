"""Counters of a dcgm-exporter, whose names lack the suffix that others give them."""

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.signal import Signal
from rightsizer.telemetry.dcgm.series import DcgmExpositionParser


@pytest.mark.parametrize("kind", ["counter", "gauge", "untyped"])
def test_energy_is_read_however_it_is_typed(kind: str) -> None:
    """Exporters of several ages declare it differently."""
    name = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    page = f'# TYPE {name} {kind}\n{name}{{gpu="0",UUID="GPU-1"}} 4742776\n'

    assert DcgmExpositionParser(built_in()).read(page).readings["GPU-1"].values == {
        Signal.ENERGY_JOULES: 4742.776
    }

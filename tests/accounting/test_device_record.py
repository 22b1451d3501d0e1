"""Text encoding of the device facts stored beside its windows."""

import json
from typing import Any, Final

import pytest

from readings import EPOCH, gpu, workload
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.power import LearnedPower
from rightsizer.io.codec import decode, encode
from rightsizer.model.device import MigInstance
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.reading import Process, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Topology
from rightsizer.model.workload import Holding

LEARNED: Final = LearnedPower(68.5, 640.25, 70.0, 3600.0)
KNOWN: Final = DeviceRecord(gpu(), workload(), EPOCH, LEARNED)


@pytest.mark.parametrize(
    "known",
    [
        KNOWN,
        DeviceRecord(gpu(), power=LearnedPower(68.5, 640.25)),
        DeviceRecord(
            gpu(),
            reading=Reading("GPU-0", 5, {Signal.GPU_BUSY: 0.5}, processes=(Process(7),)),
            xids=XidLog({79: 2}, last=79),
            holdings=(Holding(workload(), 1.0),),
            topology=Topology(numa_nodes={0: (0, 1)}),
        ),
        DeviceRecord(gpu(3, assumed=("power_limit_watts",), facts={"vbios_version": "96"})),
        DeviceRecord(gpu(0, uuid="MIG-0", mig=MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8))),
    ],
)
def test_decoded_device_equals_the_encoded_one(known: DeviceRecord) -> None:
    """Facts, holder and power range are restored."""
    assert decode(encode(known), DeviceRecord) == known


def test_text_of_a_former_version_is_understood() -> None:
    """It has no power range."""
    document = json.loads(encode(KNOWN))
    del document["power"]
    assert decode(json.dumps(document), DeviceRecord) == DeviceRecord(gpu(), workload(), EPOCH)


@pytest.mark.parametrize(
    "change",
    [
        {"device": None},
        {"power": {"idle_watts": 70.0}},
        {"power": {**json.loads(encode(KNOWN))["power"], "lowest_watts": "cold"}},
        {"power": {**json.loads(encode(KNOWN))["power"], "highest_watts": None}},
        {"holder": {"key": "x"}},
    ],
)
def test_damaged_text_is_refused(change: dict[str, Any]) -> None:
    """With an error that the reader of a history can skip."""
    with pytest.raises(ValueError, match=r"Expected|required"):
        decode(json.dumps(json.loads(encode(KNOWN)) | change), DeviceRecord)

"""GPUs that were divided by MIG within the lookback, and are not any more."""

from typing import Final

import pytest

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu, stored
from rightsizer.catalogue.catalogue import built_in
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.sources.agent.source import devices_of
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource

NODE: Final = {"Hostname": "node-a", "instance": "a:9400", "modelName": "NVIDIA H100 80GB HBM3"}
INSTANCE: Final = {"GPU_I_ID": "1", "GPU_I_PROFILE": "3g.40gb"}


@pytest.mark.prometheus
def test_gpu_that_is_whole_again_is_found() -> None:
    """Instances divide a GPU while it has none but their series, or both."""
    past = EstatePast(interval_seconds=120)
    for number, (whole, divided) in enumerate(
        (((12, 24), (0, 12)), ((0, 12), (12, 24)), ((0, 24), (0, 24)))
    ):
        device = {**NODE, "UUID": gpu(number), "gpu": str(number)}
        past.device([Phase(*whole, BUSY)], **device)
        past.device([Phase(*divided, BUSY)], **device, **INSTANCE)
    source = DcgmExporterSource()
    with stored(past) as store:
        report = source.probe(store, NOW, DAY)
        devices = source.inventory(store, report, NOW, DAY).devices

    wholes = [devices[gpu(number)].device.has_mig_instances for number in range(3)]
    assert wholes == [False, True, True]


def test_agent_s_gpu_that_is_whole_again_is_found() -> None:
    """Its former instances have no share of a GPU now."""
    infos = [
        {"uuid": gpu(0), "model": "NVIDIA H100 80GB HBM3"},
        {"uuid": gpu(1), "model": "NVIDIA H100 80GB HBM3"},
        {"uuid": "MIG-1", "parent_uuid": gpu(1), "mig_profile": "3g.40gb"},
        {"uuid": "MIG-0", "parent_uuid": gpu(0), "mig_profile": "3g.40gb"},
    ]
    shares = {gpu(0): 1.0, gpu(1): 1.0, "MIG-1": 3 / 7}
    found = devices_of(infos, shares, {}, built_in(), FleetSettings())

    assert not found[gpu(0)].device.has_mig_instances
    assert found[gpu(1)].device.has_mig_instances


@pytest.mark.parametrize(("number", "index", "instance"), [("6:2", 6, 2), ("6", 6, 0)])
def test_agent_s_instance_has_its_number(number: str, index: int, instance: int) -> None:
    """As on the agent's page; agents before 1.0 state the GPU's index alone."""
    infos = [
        {
            "uuid": "MIG-0",
            "gpu": number,
            "model": "NVIDIA H100 80GB HBM3",
            "parent_uuid": gpu(0),
            "mig_profile": "3g.40gb",
        }
    ]
    device = devices_of(infos, {}, {}, built_in(), FleetSettings())["MIG-0"].device

    assert device.mig is not None
    assert (device.index, device.mig.gpu_instance_id) == (index, instance)

"""A real agent whose dcgm-exporter lists the GPUs of a whole estate."""

from pathlib import Path
from typing import Final

from agent_process import AgentProcess, agent_process, eventually
from dcgm_exporter import dcgm_exporter
from foreign_documents import foreign_page, held_page

CONFIG: Final = """
path: {{api_socket: agent.sock}}
web: {{listen_addresses: ["127.0.0.1:0"]}}
sources:
  simulated: {{scenario: eight-gpu-node}}
  dcgm: {{url: "{url}", interval: 5s}}
"""
MEMORY_MAXIMUM_BYTES: Final = 90 * 2**20


def own_uuids(agent: AgentProcess) -> list[str]:
    """The uuids of its GPUs."""
    series = eventually(lambda: agent.metrics("rightsizer_device_info"))
    return [dict(labels)["uuid"] for _, labels in series]


def test_page_of_five_thousand_gpus_costs_neither_samples_nor_memory(tmp_path: Path) -> None:
    """They are counted, logged once and shown in metrics; the node's own are read."""
    with dcgm_exporter() as exporter:
        config = CONFIG.format(url=exporter.url)
        with agent_process(tmp_path, config=config, is_measured=True) as agent:
            own = own_uuids(agent)
            exporter.text = foreign_page(5000, own) + held_page(3000, own[0])
            refused = "rightsizer_collector_refused_items"
            eventually(lambda: agent.metric(refused, collector="dcgm") == 5000 + 2800)
            before = agent.metric("rightsizer_samples_total")
            eventually(lambda: agent.metric("rightsizer_samples_total") >= before + 5)

            assert own_uuids(agent) == own
            assert len(agent.metrics("rightsizer_workload_info")) <= 201
            assert agent.metric("rightsizer_samples_failed_total") == 0
            assert agent.metric("rightsizer_collector_success", collector="dcgm") == 1
            assert agent.metric("process_resident_memory_bytes") < MEMORY_MAXIMUM_BYTES
            [said] = agent.events("collector_refused")
            assert said["items"] == 7800

"""NVLink: connected and active links, their traffic and errors."""

from collections import Counter

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_answers import by_link
from nvml_driver import FakeDriver, FakeGpu, tick
from nvml_rounds import driver_thread, inventory_of, one_reading, rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.topology import Nvlink
from rightsizer.telemetry.nvml.inventory import Inventory

COUNT = pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT
STATE = pynvml.NVML_FI_DEV_NVLINK_GET_STATE
SPEED = pynvml.NVML_FI_DEV_NVLINK_GET_SPEED
RECEIVED = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX
TRANSMITTED = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
ALL_LINKS = 0xFFFFFFFF
LINKS = (Signal.NVLINK_LINKS, Signal.NVLINK_LINKS_UP)
RECEIVE = Signal.NVLINK_RECEIVE_BYTES_PER_SECOND
TRANSMIT = Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND

SXM = "NVIDIA A100-SXM4-80GB"
CARD = "NVIDIA A100 80GB PCIe"


def linked(uuid: str, name: str = SXM, up: int = 12, count: int = 12, **more: object) -> FakeGpu:
    """A GPU whose first links are up."""
    fields: dict[int | tuple[int, int], int] = {COUNT: count}
    for link in range(count):
        fields[STATE, link] = int(link < up)
        if link < up:
            fields[SPEED, link] = 25_000
    return FakeGpu(uuid, name=name, gpm=None, fields=fields, **more)  # type: ignore[arg-type]


def pair(one: FakeGpu, version: int = 4) -> FakeDriver:
    """A driver with a GPU that has a peer."""
    driver = FakeDriver(one, FakeGpu("GPU-1", name=SXM, gpm=None))
    driver.more["nvmlDeviceGetNvLinkVersion"] = by_link(dict.fromkeys(range(36), version))
    return driver


def test_links_of_a_fixed_board() -> None:
    """On a board with fixed wiring, an inactive link is down."""
    found = one_reading(pair(linked("GPU-0", up=11)))
    assert [found.get(signal) for signal in LINKS] == [12, 11]
    assert [link.is_up for link in found.nvlinks] == [True] * 11 + [False]
    assert found.nvlinks[0].generation == 3
    assert found.nvlinks[0].bytes_per_second == 25e9
    assert found.nvlinks[11] == Nvlink(11, is_up=False)


def test_card_without_bridge_has_no_links_down() -> None:
    """Inactive links of a PCIe card are no fault."""
    driver = pair(linked("GPU-0", name=CARD, up=0))
    found = one_reading(driver)
    assert [found.why_missing(signal) for signal in LINKS] == [Missing.NOT_SUPPORTED] * 2
    assert found.why_missing(RECEIVE) is Missing.NOT_SUPPORTED
    assert found.nvlinks == ()
    assert inventory_of(driver).gpus[0].whole.device.nvlink_bytes_per_second is None


def test_bridged_card_misses_only_what_was_there() -> None:
    """Bridged links count once they were up, also after one has gone down."""
    gpu = linked("GPU-0", name=CARD, up=4)
    with driver_thread(pair(gpu)) as driver:
        before = driver.find_devices()
        gpu.fields[STATE, 3] = 0
        after = driver.find_devices()
    assert isinstance(before, Inventory)
    assert isinstance(after, Inventory)
    assert before.gpus[0].whole.wiring.links == (0, 1, 2, 3)
    assert after.gpus[0].whole.wiring.links == (0, 1, 2, 3)
    assert after.gpus[0].whole.wiring.up == (0, 1, 2)
    assert before.gpus[0].whole != after.gpus[0].whole


def test_lone_gpu_has_nobody_to_link_to() -> None:
    """The only GPU of a virtual machine has a wired board and no link, which is normal."""
    found = one_reading(FakeDriver(linked("GPU-0", up=0)))
    assert found.why_missing(LINKS[0]) is Missing.NOT_SUPPORTED


def test_sleeping_link_is_up() -> None:
    """An idle link sleeps; one with disabled traffic is unusable."""
    gpu = linked("GPU-0")
    gpu.fields |= {(STATE, 0): 2, (STATE, 1): 3}
    assert one_reading(pair(gpu)).get(Signal.NVLINK_LINKS_UP) == 11


def test_link_comes_up_between_two_looks() -> None:
    """A round reads the present state of links, not that of the discovery."""
    gpu = linked("GPU-0", up=11)
    clock = FastClock(0)
    with rounds(pair(gpu), clock) as read:
        first = read()[0].readings["GPU-0"]
        gpu.fields |= {(STATE, 11): 1, (SPEED, 11): 25_000}
        tick(clock, 30.0)
        second = read()[0].readings["GPU-0"]
    assert [first.get(LINKS[1]), second.get(LINKS[1])] == [11, 12]
    assert second.nvlinks[11].bytes_per_second == 25e9


def test_capacity_is_that_of_the_links_that_are_up() -> None:
    """The driver's speed includes framing without data; the catalog has the net rate."""
    gpus = inventory_of(
        FakeDriver(
            linked("GPU-0", name="NVIDIA H100 80GB HBM3", up=18, count=18),
            linked("GPU-1", up=6),
            linked("GPU-2", up=0),
            FakeGpu("GPU-3", name=SXM),
        )
    ).gpus
    carried = [gpu.whole.device.nvlink_bytes_per_second for gpu in gpus]
    assert carried == [450e9, 150e9, 300e9, 300e9]
    slow = linked("GPU-0", up=12)
    slow.fields |= {(SPEED, link): 12_500 for link in range(12)}
    assert inventory_of(pair(slow)).gpus[0].whole.device.nvlink_bytes_per_second == 150e9


def test_capacity_of_an_unknown_board_is_its_links_speed() -> None:
    """Without the catalog the negotiated speed is used."""
    (gpu,) = inventory_of(FakeDriver(linked("GPU-0", name="NVIDIA Z1", up=2, count=4))).gpus
    assert gpu.whole.device.nvlink_bytes_per_second == 50e9
    assert gpu.whole.wiring.links == (0, 1)


def test_facts_of_links_by_scope() -> None:
    """Scopes are each link, and the sum over all."""
    gpu = linked("GPU-0", up=2, count=2)
    gpu.fields |= {
        (RECEIVED, 0): 10,
        (TRANSMITTED, 0): 20,
        (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC, 0): 1,
        (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 0): 2,
        (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, 0): 3,
        (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC, 1): 4,
    }
    found = one_reading(pair(gpu))
    first, second = found.nvlinks
    assert (first.receive_bytes, first.transmit_bytes) == (10 * 2**10, 20 * 2**10)
    assert (first.crc_errors, first.replay_errors, first.recovery_errors) == (1, 2, 3)
    assert (second.crc_errors, second.replay_errors) == (4, None)
    assert found.get(Signal.NVLINK_ERRORS) == 10


def test_facts_of_links_by_older_fields() -> None:
    """Each link had a field of its own; kinds of CRC errors are summed."""
    gpu = linked("GPU-0", up=7, count=7)
    for link in range(7):
        del gpu.fields[SPEED, link]
    gpu.fields |= {32 + link: 1 for link in range(6)} | {39 + link: 1 for link in range(6)}
    gpu.fields |= {96: 3, 102: 4, 132: 20_000}
    last = one_reading(pair(gpu, version=3)).nvlinks[6]
    assert (last.crc_errors, last.bytes_per_second, last.generation) == (7, 20e9, 2)


def test_facts_of_links_of_the_fifth_generation() -> None:
    """NVLink 5 counts bytes, damaged packets and recoveries in new fields."""
    gpu = linked("GPU-0", name="NVIDIA B200", up=1, count=1)
    gpu.fields |= {(202, 0): 5, (204, 0): 6, (208, 0): 7, (215, 0): 8}
    (link,) = one_reading(pair(gpu, version=7)).nvlinks
    assert (link.generation, link.transmit_bytes, link.receive_bytes) == (5, 5, 6)
    assert (link.crc_errors, link.replay_errors, link.recovery_errors) == (7, None, 8)


def test_old_driver_without_fields_tells_states() -> None:
    """Functions return the existing and the active links."""
    gpu = FakeGpu("GPU-0", name=SXM, gpm=None)
    driver = pair(gpu)
    driver.more["nvmlDeviceGetNvLinkState"] = by_link({0: 1, 1: 1, 2: 0})
    found = one_reading(driver)
    assert [found.get(signal) for signal in LINKS] == [3, 2]
    assert found.why_missing(Signal.NVLINK_ERRORS) is Missing.NOT_SUPPORTED


def test_other_ends_are_asked_once() -> None:
    """A switch has no address, a GPU has; cables do not change while NVML is initialized."""
    driver = pair(linked("GPU-0", up=3, count=3))
    clock = FastClock(0)
    driver.more |= {
        "nvmlDeviceGetNvLinkRemoteDeviceType": by_link({0: 2, 1: 0}),
        "nvmlDeviceGetNvLinkRemotePciInfo_v2": by_link(
            {1: "00000000:3B:00.0", 2: "FFFFFFFF:FF:FF.0"}
        ),
    }
    with rounds(driver, clock) as read:
        driver.calls.clear()
        for _ in range(3):
            found = read()[0].readings["GPU-0"]
            tick(clock, 30.0)
    ends = [(link.remote_pci_bus_id, link.leads_to_switch) for link in found.nvlinks]
    assert ends == [(None, True), ("00000000:3b:00.0", False), (None, True)]
    calls = Counter(driver.calls)
    assert calls["nvmlDeviceGetNvLinkRemotePciInfo_v2"] == 2
    assert calls["nvmlDeviceGetNvLinkVersion"] == 3


def test_links_are_asked_in_one_call() -> None:
    """After the first slow round links cost one call, without refused fields."""
    driver = pair(linked("GPU-0"))
    clock = FastClock(0)
    usual = driver.nvmlDeviceGetFieldValues
    asked = list[int]()

    def counting(_driver: FakeDriver, handle: object, count: object, values: object) -> int:
        asked.append(count.value)  # type: ignore[attr-defined] # A ctypes number.
        return usual(handle, count, values)

    driver.more["nvmlDeviceGetFieldValues"] = counting
    with rounds(driver, clock) as read:
        read()
        asked.clear()
        tick(clock, 30.0)
        read()
    # This driver only has state and speed of its links.
    assert [count for count in asked if count >= 12] == [12 * 2]


def test_driver_that_refuses_all_fields_for_one() -> None:
    """A driver that refuses the whole call is queried field by field, once."""
    driver = pair(linked("GPU-0", up=2, count=2))
    usual = driver.nvmlDeviceGetFieldValues
    known = frozenset({STATE, SPEED, COUNT, pynvml.NVML_FI_DEV_MEMORY_TEMP})

    def strict(_driver: FakeDriver, handle: object, count: object, values: object) -> int:
        ids = {values._obj[place].fieldId for place in range(count.value)}  # type: ignore[attr-defined]
        if not ids <= known:
            return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return usual(handle, count, values)

    driver.more["nvmlDeviceGetFieldValues"] = strict
    found = one_reading(driver)
    assert [found.get(signal) for signal in LINKS] == [2, 2]
    assert found.nvlinks[0].bytes_per_second == 25e9


def test_errors_of_a_link_that_went_down_stay() -> None:
    """A counter must not fall when a link can no longer be read."""
    gpu = linked("GPU-0", up=2, count=2)
    clock = FastClock(0)
    crc = pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC
    gpu.fields |= {(crc, 0): 5, (crc, 1): 6}
    with rounds(pair(gpu), clock) as read:
        first = read()[0].readings["GPU-0"]
        gpu.fields[STATE, 1] = 0
        del gpu.fields[crc, 1]
        gpu.fields[crc, 0] = 7
        tick(clock, 30.0)
        second = read()[0].readings["GPU-0"]
    assert first.get(Signal.NVLINK_ERRORS) == 11
    assert second.get(Signal.NVLINK_ERRORS) == 13
    assert second.get(Signal.NVLINK_LINKS_UP) == 1


def test_traffic_is_what_counters_grew_by() -> None:
    """Rates are differences of KiB counters divided by the time."""
    gpu = linked("GPU-0")
    clock = FastClock(0)
    gpu.fields |= {(RECEIVED, ALL_LINKS): 1000, (TRANSMITTED, ALL_LINKS): 500}
    with rounds(pair(gpu), clock) as read:
        first = read()[0].readings["GPU-0"]
        gpu.fields |= {(RECEIVED, ALL_LINKS): 3000, (TRANSMITTED, ALL_LINKS): 100}
        tick(clock, 2.0)
        second = read()[0].readings["GPU-0"]
    assert first.why_missing(RECEIVE) is Missing.NO_SAMPLE
    assert second.get(RECEIVE) == 1000 * 2**10
    assert second.origins[RECEIVE] == "nvlink_throughput"
    assert second.why_missing(TRANSMIT) is Missing.NO_SAMPLE  # The counter was reset.


def test_gpm_goes_before_the_counters() -> None:
    """The counters are used where GPM has no value."""
    gpu = linked("GPU-0")
    clock = FastClock(0)
    gpu.gpm = {60: 3.0}
    gpu.fields |= {(RECEIVED, ALL_LINKS): 0, (TRANSMITTED, ALL_LINKS): 0}
    with rounds(pair(gpu), clock) as read:
        read()
        gpu.fields |= {(RECEIVED, ALL_LINKS): 2048, (TRANSMITTED, ALL_LINKS): 2048}
        tick(clock)
        found = read()[0].readings["GPU-0"]
    assert (found.get(RECEIVE), found.origins[RECEIVE]) == (3 * 2**20, "gpm")
    assert (found.get(TRANSMIT), found.origins[TRANSMIT]) == (2 * 2**20, "nvlink_throughput")


@given(
    states=st.lists(st.sampled_from([None, 0, 1, 2, 3, 2**32 - 1]), max_size=36),
    name=st.sampled_from([SXM, CARD, "NVIDIA Z1"]),
    count=st.none() | st.integers(min_value=0, max_value=40),
)
def test_nvlink_counts_stay_consistent_for_any_answers(
    states: list[int | None], name: str, count: int | None
) -> None:
    """For any answers, no more links are up than exist, and none has no capacity."""
    link_states = {(STATE, link): state for link, state in enumerate(states) if state is not None}
    fields = link_states if count is None else {**link_states, COUNT: count}
    gpu = FakeGpu("GPU-0", name=name, gpm=None, fields=fields)  # type: ignore[arg-type]
    driver = pair(gpu)
    found = one_reading(driver)
    links, up = (found.get(signal) for signal in LINKS)
    assert (links is None) == (up is None) == (not found.nvlinks)
    assert up is None or 0 <= up <= (links or 0)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_TIMEOUT])
def test_failure_of_the_fields_is_not_remembered(code: int) -> None:
    """A temporary failure is retried."""
    driver = pair(linked("GPU-0"))
    clock = FastClock(0)
    with rounds(driver, clock) as read:
        driver.codes["nvmlDeviceGetFieldValues"] = code
        first = read()[0].readings["GPU-0"]
        driver.codes.clear()
        tick(clock, 30.0)
        second = read()[0].readings["GPU-0"]
    assert first.get(LINKS[0]) is None
    assert second.get(LINKS[0]) == 12
    assert second.nvlinks[0].bytes_per_second == 25e9

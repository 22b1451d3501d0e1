"""Encoding of windows as bytes: lossless, and other bytes are refused."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from readings import EPOCH, SECOND
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.window import Window

TIMES: Final = st.integers(0, 2**53)
FLOATS: Final = st.floats(0.0, 1e12)
HISTOGRAMS: Final = st.builds(
    Histogram, st.dictionaries(st.integers(0, 100), st.one_of(TIMES.map(float), FLOATS), max_size=5)
)


def keyed(names: type[StrEnum], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A table keyed by some of the names."""
    return st.dictionaries(st.sampled_from(names), values)


WINDOWS: Final[st.SearchStrategy[Window]] = st.builds(
    Window,
    uuid=st.just("GPU-0"),
    start=TIMES,
    end=TIMES,
    states=keyed(State, TIMES),
    second_causes=keyed(State, TIMES),
    conditions=keyed(Condition, TIMES),
    tiers=keyed(Tier, TIMES),
    saturated=keyed(Resource, TIMES),
    pressed=keyed(Resource, TIMES),
    waste_seconds=keyed(Cause, FLOATS),
    waste_joules=keyed(Cause, FLOATS),
    used_seconds=FLOATS,
    used_joules=FLOATS,
    energy_joules=FLOATS,
    demands=keyed(Resource, HISTOGRAMS),
    compute_at_least=HISTOGRAMS,
    blocks=st.lists(st.integers(0, 2**31), max_size=4).map(
        lambda numbers: Blocks.joined(
            Blocks.of_one(number * BLOCK_SPAN, 300.0, {Measure.BUSY: 0.5}, {Measure.BUSY: 1.0})
            for number in numbers
        )
    ),
)
BLOCKS: Final = Blocks.of_one(
    EPOCH,
    300.0,
    {Measure.BUSY: 0.5, Measure.MEMORY: 0.25},
    {Measure.BUSY: 1.0, Measure.MEMORY: 0.25},
)


@given(WINDOWS)
def test_decoded_window_equals_the_encoded_one(found: Window) -> None:
    """Every sum and bin is restored, including a recording that begins at 0."""
    assert decode_window(found.uuid, encode_window(found)) == found
    assert encode_window(decode_window(found.uuid, encode_window(found))) == encode_window(found)


FORMER: Final = (
    b'{"v":1,"start":1767225600000000000,"end":1767225900000000000,'
    b'"states":{"productive":200000000000,"idle_held":100000000000},'
    b'"tiers":{"power":300000000000},"waste_seconds":{"headroom":150.5},'
    b'"used_seconds":149.5,"energy_joules":30000.0,'
    b'"demands":{"memory":[[50,300000000000]]},"compute_at_least":[[7,0.5]]}'
)
"""Bytes in histories written before blocks existed."""


PACKED: Final = (
    "0278bbdfc229eb636060d4aa5682663f43733373232353332425d01c0995b14491412472e4646484a20629b5"
    "21058401725a83262db4d4849114101165686aa0678a115b8626967aa61871043655cf0025aa10016d8a111e"
    "d883d15c07682328b4221f1de0de61c160c35087044d8010990f008a9760a1"
)


def test_former_form_is_read() -> None:
    """A history outlives the program that wrote it."""
    found = decode_window("GPU-0", FORMER)
    assert found == Window(
        uuid="GPU-0",
        start=EPOCH,
        end=EPOCH + 300 * SECOND,
        states={State.PRODUCTIVE: 200 * SECOND, State.IDLE_HELD: 100 * SECOND},
        tiers={Tier.POWER: 300 * SECOND},
        waste_seconds={Cause.HEADROOM: 150.5},
        used_seconds=149.5,
        energy_joules=30000.0,
        demands={Resource.MEMORY: Histogram({50: 300.0 * SECOND})},
        compute_at_least=Histogram({7: 0.5}),
    )
    assert not found.blocks
    assert decode_window("GPU-0", encode_window(found)) == found


def test_packing_words_never_change() -> None:
    """Bytes once written in this form remain readable."""
    written = bytes.fromhex(PACKED)
    assert decode_window("GPU-0", written) == replace(decode_window("GPU-0", FORMER), blocks=BLOCKS)
    assert len(written) < len(FORMER) / 1.5


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: {**document, "v": 2},
        lambda document: {key: value for key, value in document.items() if key != "v"},
        lambda document: {key: value for key, value in document.items() if key != "start"},
        lambda document: {**document, "states": {"sleeping": 1}},
        lambda document: {**document, "demands": {"compute": [[200, 1]]}},
        lambda document: {**document, "demands": {"compute": 3}},
        lambda document: {**document, "tiers": 3},
        lambda _: [],
        lambda _: "text",
    ],
)
def test_invalid_window_is_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    """Newer and damaged forms raise an error that a reader can skip."""
    document = json.loads(FORMER)
    with pytest.raises(ValueError, match=r"window|is not a valid|bin"):
        decode_window("GPU-0", json.dumps(spoil(document)).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"\x02", b"\x02abc", b"\x03" + FORMER])
def test_bytes_of_something_else_are_refused(data: bytes) -> None:
    """They are a newer form, or no window."""
    with pytest.raises(ValueError, match=r"Expecting|window"):
        decode_window("GPU-0", data)


@given(WINDOWS, st.data())
def test_torn_bytes_are_refused(found: Window, data: st.DataObject) -> None:
    """A truncated row is refused, not read in part."""
    whole = encode_window(found)
    with pytest.raises(ValueError, match=r"window|Expecting"):
        decode_window("GPU-0", whole[: data.draw(st.integers(0, len(whole) - 1))])

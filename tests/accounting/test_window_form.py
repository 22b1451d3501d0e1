"""A window as bytes: lossless, and refused where it is something else."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import window
from rightsizer.accounting.window_form import decode, encode
from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Cause, Condition, Resource, State, Tier
from rightsizer.domain.window import Window

TIMES: Final = st.integers(0, 2**53)
FLOATS: Final = st.floats(0.0, 1e12)
HISTOGRAMS: Final = st.builds(
    Histogram, st.dictionaries(st.integers(0, 100), st.one_of(TIMES.map(float), FLOATS), max_size=5)
)


def keyed(names: type[StrEnum], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A table of some of the names."""
    return st.dictionaries(st.sampled_from(names), values)


WINDOWS: Final[st.SearchStrategy[Window]] = st.builds(
    Window,
    uuid=st.just("GPU-0"),
    start=TIMES,
    end=TIMES,
    states=keyed(State, TIMES),
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
)


@given(WINDOWS)
def test_nothing_is_lost(found: Window) -> None:
    """Every sum and every bin comes back as it was, a recording that begins at 0 included."""
    assert decode(found.uuid, encode(found)) == found
    assert encode(decode(found.uuid, encode(found))) == encode(found)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda form: {**form, "v": 2},
        lambda form: {key: value for key, value in form.items() if key != "v"},
        lambda form: {key: value for key, value in form.items() if key != "start"},
        lambda form: {**form, "states": {"sleeping": 1}},
        lambda form: {**form, "demands": {"compute": [[200, 1]]}},
        lambda form: {**form, "demands": {"compute": 3}},
        lambda form: {**form, "tiers": 3},
        lambda _: [],
        lambda _: "text",
    ],
)
def test_what_is_no_window_is_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    """Newer forms and broken ones raise an error that a reader can pass over."""
    form = json.loads(encode(window({State.PRODUCTIVE: 1})))
    with pytest.raises(ValueError, match=r"window|is not a valid|bin"):
        decode("GPU-0", json.dumps(spoil(form)).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe"])
def test_torn_bytes_are_refused(data: bytes) -> None:
    """A row cut off in the middle is no window."""
    with pytest.raises(ValueError, match=r"Expecting|codec"):
        decode("GPU-0", data)

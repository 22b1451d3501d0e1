"""Round trips of settings: written text reads back."""

import math
from types import MappingProxyType
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import defstruct

from rightsizer.config.loader import load
from rightsizer.config.spelling import parse_seconds, parse_size, spell_seconds, spell_size
from rightsizer.model.settings import Spec
from sample_settings import Color, Job, Match, Policy, Settings, Store
from settings_documents import dump

_LENGTH = Annotated[float, Spec(help="Another.", unit="seconds")]
_TEXTS = st.text().filter(lambda text: not text.startswith(("~/", "$HOME/", "${HOME}/")))
"""Paths of a shell are rejected (`tests/config/test_loader.py`)."""
_NAMES = st.text(min_size=1, max_size=10)
_DURATIONS = st.floats(0, 1e9) | st.integers(0, 10**9).map(float)
_JOBS = st.builds(
    Job,
    interval=st.floats(1, 3600),
    jitter_seconds=st.floats(0, 1),
    share=st.floats(0, 1),
    workers=st.integers(min_value=1),
    enabled=st.booleans(),
)
_STORES = st.builds(
    Store,
    path=_TEXTS,
    limit_bytes=st.integers(1, 2**60),
    color=st.sampled_from(Color),
    token_file=st.none() | _TEXTS,
    keep=st.none() | _DURATIONS,
)
_POLICIES = st.builds(
    Policy,
    class_=st.sampled_from(Color),
    match=st.builds(Match, owner=st.none() | _TEXTS),
    thresholds=st.dictionaries(_NAMES, st.floats(0, 1), max_size=2).map(MappingProxyType),
)
_SETTINGS = st.builds(
    Settings,
    job=_JOBS,
    night_job=_JOBS,
    store=_STORES,
    listen=st.lists(_TEXTS, max_size=3).map(tuple),
    policies=st.lists(_POLICIES, max_size=2).map(tuple),
    collectors=st.dictionaries(_NAMES, st.booleans(), max_size=2).map(MappingProxyType),
    stores=st.dictionaries(_NAMES, _STORES, max_size=2).map(MappingProxyType),
)


@given(_SETTINGS)
def test_any_settings_dumped_and_loaded_are_equal(settings: Settings) -> None:
    """`check-config` can print a configuration equal to the running one."""
    assert load(Settings, dump(settings), "dumped.yaml") == settings


@given(_DURATIONS)
def test_any_duration_reads_back_to_the_same_seconds(duration_seconds: float) -> None:
    """The text form of any duration is exact."""
    assert parse_seconds(spell_seconds(duration_seconds)) == duration_seconds


@given(st.integers(0, 2**63))
def test_any_size_reads_back_to_the_same_bytes(size_bytes: int) -> None:
    """The text form of any size is exact."""
    assert parse_size(spell_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("duration_seconds", "spelled"),
    [
        (0.0, "0s"),
        (0.00004, "40us"),
        (2.5e-7, "0.25us"),
        (0.1, "100ms"),
        (1.5, "1s500ms"),
        (600.0, "10m"),
        (5400.0, "1h30m"),
        (14 * 86400.0, "14d"),
        (1 / 3, "0.3333333333333333s"),
    ],
)
def test_durations_are_spelled_as_an_operator_would(duration_seconds: float, spelled: str) -> None:
    """The largest unit that fits, or a plain decimal."""
    assert spell_seconds(duration_seconds) == spelled


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [("512MiB", 2**29), ("1 GiB", 2**30), ("1.5KiB", 1536), ("2GB", 2 * 10**9), (42, 42)],
)
def test_sizes_take_binary_and_decimal_units(size: str | int, size_bytes: int) -> None:
    """A size is a number with a unit, or plain bytes."""
    assert parse_size(size) == size_bytes


def test_two_fields_never_share_a_key() -> None:
    """A key drops the unit that its value states; if two become equal, one must change."""
    alike = defstruct("Alike", [("keep", float, 1.0), ("keep_seconds", _LENGTH, 1.0)])

    with pytest.raises(TypeError, match="Alike: two fields have the same key"):
        load(alike, "keep: 1", "x")


def test_a_tree_that_a_file_cannot_hold_is_refused_where_it_is_declared() -> None:
    """A field of an unsupported type is a program error, named by class and field."""
    foreign = defstruct("Foreign", [("what", complex, math.tau)])

    with pytest.raises(TypeError, match=r"Foreign\.what: .*complex"):
        load(foreign, "what: 1", "x")

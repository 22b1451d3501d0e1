"""Settings that a reload applies, and those that need a restart."""

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.config.live_update import live_update
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.settings import LIVE, Spec
from settings_documents import reference


class Inner(Struct, frozen=True):
    """A group."""

    own: Annotated[int, Spec(help="As its group.")] = 1
    fixed: Annotated[int, Spec(help="Never.", is_live=False)] = 1
    free: Annotated[int, Spec(help="Always.", is_live=True)] = 1


class Tree(Struct, frozen=True):
    """A tree with a live group and another."""

    live: Annotated[Inner, LIVE] = Inner()
    still: Inner = Inner()
    names: Annotated[tuple[Inner, ...], Spec(help="A list.", is_live=True)] = ()

    def __post_init__(self) -> None:
        """Check a constraint between two groups."""
        if self.live.own + self.still.own > 10:
            raise ValueError("live.own and still.own are more than 10 together")


def test_each_key_is_identified_by_its_own_word_or_by_its_groups() -> None:
    """A deferred change is named by its key in the file; unchanged keys are not."""
    wanted = Tree(live=Inner(2, 2, 2), still=Inner(2, 2, 2), names=(Inner(),))
    merged, waiting = live_update(Tree(), wanted)

    assert merged == Tree(live=Inner(2, 1, 2), still=Inner(1, 1, 2), names=(Inner(),))
    assert waiting == ("live.fixed", "still.own", "still.fixed")


def test_nothing_new_changes_nothing() -> None:
    """Nothing is deferred either."""
    assert live_update(Tree(), Tree()) == (Tree(), ())


def test_update_that_conflicts_with_unchanged_settings_is_refused() -> None:
    """Each is valid alone, but the agent would run with both."""
    old = Tree(still=Inner(own=8))
    new = Tree(live=Inner(own=8))
    with pytest.raises(ConfigurationError, match=r"more than 10 together.*still.own.*restart"):
        live_update(old, new)


values = st.integers(0, 5)
inner = st.builds(Inner, values, values, values)
trees = st.builds(Tree, inner, inner, st.lists(inner, max_size=2).map(tuple))


@given(trees, trees)
def test_an_update_is_whole(old: Tree, new: Tree) -> None:
    """Changes that need a restart wait, all others apply, and a second reload does nothing."""
    merged, waiting = live_update(old, new)

    assert (merged.live.own, merged.live.free, merged.names) == (
        new.live.own,
        new.live.free,
        new.names,
    )
    assert (merged.still.own, merged.live.fixed) == (old.still.own, old.live.fixed)
    assert live_update(merged, new) == (merged, waiting)
    assert bool(waiting) == (replace(merged, still=new.still, live=new.live) != merged)


def test_the_reference_says_what_takes_effect_when() -> None:
    """Operators read this column before a reload."""
    page = reference(Tree)
    rows = {line.split("`")[1]: line for line in page.splitlines() if "`" in line[:3]}

    assert "*reload*" in rows["names"]
    assert "*reload*" in rows["live.own"]
    assert "*reload*" not in rows["live.fixed"]
    assert "Same keys as [`live`](#live)." in page

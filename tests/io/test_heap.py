"""Settings of the C library's heap, and pages given back."""

import gc
import weakref
from types import SimpleNamespace

from rightsizer.io.heap import keep_compact, trim


class _Library:
    """A C library with `mallopt` that records its calls."""

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.asked = dict[int, int]()

    def mallopt(self, name: int, value: int) -> int:
        """Record a setting."""
        self.asked[name] = value
        return self.answer


def test_there_is_one_arena_and_thresholds_that_stay() -> None:
    """All three settings of malloc.h are set: `M_ARENA_MAX` and both thresholds."""
    library = _Library(1)
    assert keep_compact(library)
    assert library.asked == {-8: 1, -3: 65536, -1: 65536}


def test_a_c_library_that_refuses_is_distinguished() -> None:
    """Each setting is still attempted."""
    library = _Library(0)
    assert not keep_compact(library)
    assert len(library.asked) == 3


def test_a_c_library_without_such_settings_is_left_alone() -> None:
    """Such as musl."""
    assert not keep_compact(SimpleNamespace())


def test_free_pages_are_returned_where_the_c_library_can() -> None:
    """All of them: no padding at the heap's end; other libraries have no such function."""
    asked = list[int]()
    assert trim(SimpleNamespace(malloc_trim=lambda pad: asked.append(pad) or 1))
    assert asked == [0]
    assert not trim(SimpleNamespace())


def test_garbage_is_collected_before_pages_are_returned() -> None:
    """Whatever its age: pages that hold old reference cycles are not free."""
    library = _Library(1)
    cycle: list[object] = [library]
    cycle.append(cycle)
    survivor = weakref.ref(library)
    gc.collect()
    del cycle, library
    survivors = list[object]()
    trim(SimpleNamespace(malloc_trim=lambda _: survivors.append(survivor())))
    assert survivors == [None]

"""Use of a store is counted, over threads and processes."""

import threading

from rightsizer.fleet.source import StoreUse, StoreUseCounter


def test_uses_add_up() -> None:
    """Counts of several processes are summed one by one."""
    one = StoreUse(*range(1, 9))

    assert sum((one, one), StoreUse()) == StoreUse(*range(2, 17, 2))
    assert len(StoreUse.__struct_fields__) == 8


def test_threads_lose_no_count() -> None:
    """Concurrent additions are all counted."""
    meter = StoreUseCounter()

    def work() -> None:
        for _ in range(500):
            meter.add(StoreUse(queries=1, store_seconds=0.5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert meter.use == StoreUse(queries=4000, store_seconds=2000.0)

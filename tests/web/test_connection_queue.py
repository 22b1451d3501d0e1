"""New connections of a guarded server: password guessing is limited to its share of a core."""

import threading
from typing import Final

from rightsizer.web.authenticator import ConnectionQueue
from rightsizer.web.settings import PasswordSettings

GUESSER: Final = "192.0.2.1"
SCRAPER: Final = "192.0.2.2"


def queue_of(share_ratio: float = 0.1, wait_seconds: float = 5.0) -> ConnectionQueue:
    """A queue with eight places."""
    settings = PasswordSettings(
        share_ratio=share_ratio, wait_seconds=wait_seconds, waiting_maximum=8
    )
    return ConnectionQueue(settings)


def test_queue_with_all_requests_answered_waits_for_nothing() -> None:
    """Answered requests add no wait, whatever they cost."""
    queue = queue_of(wait_seconds=0.1)
    for _ in range(100):
        assert queue.enter(SCRAPER)
        queue.leave(SCRAPER, 1000.0, was_answered=True)


def test_time_of_a_refused_connection_is_waited_for() -> None:
    """Two seconds of a core at a share of a tenth are twenty: longer than any wait here."""
    queue = queue_of(wait_seconds=0.1)
    assert queue.enter(GUESSER)
    queue.leave(GUESSER, 2.0, was_answered=False)

    assert not queue.enter(GUESSER)
    assert not queue.enter(SCRAPER)


def test_the_wait_ends_with_the_share() -> None:
    """A fifth of a second's work at the share of a whole core delays the next, then it proceeds."""
    queue = queue_of(share_ratio=1.0)
    assert queue.enter(GUESSER)
    queue.leave(GUESSER, 0.2, was_answered=False)

    assert queue.enter(GUESSER)


def test_an_address_that_was_given_something_goes_first() -> None:
    """It arrives after three that guess, and is admitted before two of them."""
    queue = queue_of()
    order = list[str]()
    assert queue.enter(SCRAPER)
    queue.leave(SCRAPER, 0.001, was_answered=True)
    assert queue.enter(GUESSER)
    queue.leave(GUESSER, 0.1, was_answered=False)

    def come(address: str) -> None:
        assert queue.enter(address)
        order.append(address)
        queue.leave(address, 0.01, was_answered=address == SCRAPER)

    threads = [threading.Thread(target=come, args=(GUESSER,)) for _ in range(3)]
    threads.append(threading.Thread(target=come, args=(SCRAPER,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert order[0] == SCRAPER
    assert len(order) == 4


def test_a_known_address_has_room_behind_those_that_guess() -> None:
    """With eight guesses queued, a known address is still queued, and another guess is not."""
    queue = queue_of(wait_seconds=2.0)
    queue.leave(SCRAPER, 0.0, was_answered=True)
    queue.leave(GUESSER, 1000.0, was_answered=False)
    threads = [threading.Thread(target=queue.enter, args=(GUESSER,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(queue.waiting) < 8:
        pass

    assert queue.has_room(SCRAPER)
    assert not queue.has_room(GUESSER)
    for thread in threads:
        thread.join()

"""Passwords: verification, its cost, and the effect of guessing on other clients."""

import threading
from typing import Final

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_process import eventually
from rightsizer.web.authenticator import FairQueue, Passwords, PasswordVerdict, RateLimiter
from rightsizer.web.settings import PasswordSettings
from rightsizer.web.web_config import RateLimit

USERS: Final = {
    "alice": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)),
    "bob": bcrypt.hashpw(b"other", bcrypt.gensalt(4)).replace(b"$2b$", b"$2y$"),
}
HERE: Final = "192.0.2.1"


class PasswordFixture:
    """Passwords with a clock that advances 0.1 s a call, and waits that take no time."""

    def __init__(self, **options: float) -> None:
        self.pauses: list[float] = []
        self.looks = 0
        settings = PasswordSettings(**options)  # type: ignore[arg-type] # Each has its own.
        self.passwords = Passwords(settings, clock=self._look, pause=self.pauses.append)

    def _look(self) -> float:
        self.looks += 1
        return self.looks / 10.0

    def check(self, name: str, password: str, client: str = HERE) -> PasswordVerdict:
        """One check."""
        return self.passwords.check(USERS, name, password.encode(), client)


@pytest.mark.parametrize(
    ("name", "password", "verdict"),
    [
        ("alice", "secret", PasswordVerdict.RIGHT),
        ("bob", "other", PasswordVerdict.RIGHT),
        ("alice", "other", PasswordVerdict.WRONG),
        ("carol", "secret", PasswordVerdict.WRONG),
        ("", "", PasswordVerdict.WRONG),
        ("alice", "secret\0", PasswordVerdict.WRONG),
        ("alice", "s" * 100, PasswordVerdict.WRONG),
    ],
)
def test_user_with_the_right_password_is_accepted(
    name: str, password: str, verdict: PasswordVerdict
) -> None:
    """Only a name with its own password is accepted; a repeated check gives the same result."""
    fixture = PasswordFixture()
    assert [fixture.check(name, password) for _ in range(2)] == [verdict, verdict]


def test_a_verdict_is_remembered() -> None:
    """The hash is computed once for each name, hash and password, right or wrong."""
    fixture = PasswordFixture()
    for _ in range(3):
        fixture.check("alice", "secret")
        fixture.check("alice", "wrong")
    assert fixture.looks == 1 + 2
    assert len(fixture.pauses) == 1


def test_a_new_hash_asks_again() -> None:
    """The former password is no longer accepted."""
    fixture = PasswordFixture()
    assert fixture.check("alice", "secret") is PasswordVerdict.RIGHT
    changed = {"alice": USERS["bob"]}
    assert fixture.passwords.check(changed, "alice", b"secret", HERE) is PasswordVerdict.WRONG
    assert (
        fixture.passwords.check({"bob": USERS["bob"]}, "alice", b"secret", HERE)
        is PasswordVerdict.WRONG
    )


def test_a_wrong_password_is_followed_by_a_rest() -> None:
    """Guesses take at most a share of a core; a right password is answered at once."""
    fixture = PasswordFixture(share_ratio=0.1, pause_maximum_seconds=2.0)
    fixture.check("alice", "secret")
    assert fixture.pauses == []
    fixture.check("alice", "wrong")
    assert fixture.pauses == [pytest.approx(0.9)]


def test_a_name_that_nobody_has_costs_the_same() -> None:
    """It computes a hash of the same cost, and is followed by the same wait."""
    fixture = PasswordFixture()
    fixture.check("carol", "x")
    assert (fixture.looks, len(fixture.pauses)) == (2, 1)


def test_guesses_make_nobody_forgotten() -> None:
    """After any number of guesses, known clients are answered from the cache."""
    fixture = PasswordFixture(remembered_maximum=3)
    fixture.check("alice", "secret")
    looks = fixture.looks
    for number in range(10):
        fixture.check("alice", f"guess {number}")
    guessed = fixture.looks
    assert fixture.check("alice", "secret") is PasswordVerdict.RIGHT
    assert (looks, fixture.looks) == (1, guessed)


def test_while_a_guess_rests_those_who_are_known_pass() -> None:
    """One address guesses, and fills its part of the queue; others wait or are refused."""
    resting = threading.Event()
    go_on = threading.Event()

    def rest(_: float) -> None:
        resting.set()
        assert go_on.wait(20)

    passwords = Passwords(PasswordSettings(waiting_per_client=1, wait_seconds=20.0), pause=rest)
    assert passwords.check(USERS, "alice", b"secret", HERE) is PasswordVerdict.RIGHT
    verdicts: list[PasswordVerdict] = []
    there = "203.0.113.7"

    def guess(password: bytes, client: str = there) -> threading.Thread:
        thread = threading.Thread(
            target=lambda: verdicts.append(passwords.check(USERS, "bob", password, client))
        )
        thread.start()
        return thread

    threads = [guess(b"one")]
    assert resting.wait(20)
    # Its turn is not over; one more may wait from there, and others are told to retry.
    threads += [guess(b"two"), guess(b"three")]
    eventually(lambda: verdicts)
    assert verdicts == [PasswordVerdict.BUSY]
    assert passwords.check(USERS, "alice", b"secret", there) is PasswordVerdict.RIGHT
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert passwords.check(USERS, "bob", b"other", HERE) is PasswordVerdict.RIGHT


def test_turns_are_handed_out_to_so_many() -> None:
    """One is served, some wait, the rest are refused; a wait that is too long is refused too."""
    turns = FairQueue(waiting_maximum=2, waiting_per_client=1, wait_seconds=0.01)
    with (
        turns.turn("a") as first,
        turns.turn("b") as second,
        turns.turn("c") as third,
        turns.turn("d") as fourth,
    ):
        assert (first, second, third, fourth) == (True, False, False, False)
    with turns.turn("d") as again:
        assert again


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.0, 3.0)), max_size=40))
def test_a_limit_holds_over_any_time(asked: list[tuple[str, float]]) -> None:
    """An address gets at most the burst and one request for each interval."""
    now = 0.0
    limiter = RateLimiter(lambda: now)
    limit = RateLimit(1.0, 3)
    passed: dict[str, list[float]] = {"a": [], "b": []}
    for client, pause in asked:
        now += pause
        if limiter.allows(limit, client):
            passed[client].append(now)
        else:
            assert len(passed[client]) >= 3
    for times in passed.values():
        for start, since in enumerate(times):
            for end in range(start, len(times)):
                assert end - start + 1 <= 3 + (times[end] - since) + 1e-6


def test_no_limit_lets_all_through() -> None:
    """This is the case where the file has none."""
    limiter = RateLimiter(lambda: 0.0)
    assert all(limiter.allows(None, HERE) for _ in range(100))

"""A breaker opens after failures in a row, lets one probe through at a time, and closes after enough of them."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from handrail.mcp.breaker import Breaker, BreakerOptions, Permit

OPTIONS = BreakerOptions(failures=3, cooldown_ms=10_000, successes=2)


def permitted(breaker: Breaker, now: float) -> Permit:
    permit = breaker.allow(now)
    assert permit is not None
    return permit


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker(OPTIONS)
    for _ in range(3):
        breaker.failure(now, permitted(breaker, now))
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    """It opens at the last of so many failures, and a success in between starts the count anew."""
    breaker = Breaker(OPTIONS)
    for fails in (True, True, False, True, True):
        permit = permitted(breaker, 0.0)
        breaker.failure(0.0, permit) if fails else breaker.success(0.0, permit)
    assert breaker.state(0.0) == "closed"
    breaker.failure(0.0, permitted(breaker, 0.0))
    assert breaker.state(0.0) == "open"
    assert breaker.allow(0.0) is None


def test_it_cools_down() -> None:
    """While it cools down nothing passes, and it says for how long."""
    breaker = opened(100.0)
    assert breaker.allow(109.9) is None
    assert breaker.retry_after(104.0) == 6.0
    assert breaker.retry_after(110.0) == 0.0
    assert permitted(breaker, 110.0).probe


def test_one_probe_at_a_time() -> None:
    """Half open, one call passes and all others fail until it has ended; two that succeed close it."""
    breaker = opened()
    first = permitted(breaker, 10.0)
    assert [breaker.allow(10.0 + i) for i in range(5)] == [None] * 5
    breaker.success(16.0, first)
    assert breaker.state(16.0) == "half_open"
    second = permitted(breaker, 16.0)
    assert breaker.allow(16.0) is None
    breaker.success(17.0, second)
    assert breaker.state(17.0) == "closed"
    assert [permitted(breaker, 17.0).probe for _ in range(5)] == [False] * 5


def test_a_probe_that_fails() -> None:
    """A probe that fails opens it for another full time, and what succeeded before it is forgotten."""
    breaker = opened()
    breaker.success(10.0, permitted(breaker, 10.0))
    breaker.failure(12.0, permitted(breaker, 11.0))
    assert breaker.allow(21.9) is None
    breaker.success(22.0, permitted(breaker, 22.0))
    assert breaker.state(22.0) == "half_open"


def test_a_probe_that_says_nothing() -> None:
    """A probe that was given up makes room for the next one, and counts for neither side."""
    breaker = opened()
    breaker.success(10.0, permitted(breaker, 10.0))
    breaker.release(permitted(breaker, 11.0))
    breaker.success(12.0, permitted(breaker, 12.0))
    assert breaker.state(12.0) == "closed"


def test_late_outcomes() -> None:
    """The outcome of a call from before the last change is counted, and changes nothing."""
    breaker = Breaker(OPTIONS)
    late = [permitted(breaker, 0.0) for _ in range(4)]
    for _ in range(3):
        breaker.failure(0.0, permitted(breaker, 0.0))
    breaker.failure(5.0, late[0])
    assert breaker.retry_after(5.0) == 5.0
    breaker.success(5.0, late[1])
    assert breaker.state(5.0) == "open"
    probe = permitted(breaker, 10.0)
    breaker.failure(10.0, late[2])
    breaker.release(late[3])
    assert breaker.allow(10.0) is None
    breaker.success(11.0, probe)
    breaker.success(11.0, permitted(breaker, 11.0))
    assert breaker.metrics(11.0) == {
        "state": "closed", "failures": 5, "successes": 3, "opened": 1, "refused": 1, "retry_after": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("options", [{"failures": 0}, {"successes": 0}, {"cooldown_ms": -1}])
def test_numbers_are_checked(options: dict[str, int]) -> None:
    """Numbers that make no sense are refused."""
    with pytest.raises(ValueError, match="at least 1"):
        BreakerOptions(**options)


class AnyOrder(RuleBasedStateMachine):
    """Calls begin and end in any order while time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker(OPTIONS)
        self.running: list[Permit] = []

    @rule(seconds=st.floats(0, 15))
    def time_goes_on(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def a_call_begins(self) -> None:
        before = self.breaker.state(self.now)
        permit = self.breaker.allow(self.now)
        if permit is None:
            assert before != "closed"
            return
        assert before != "open"
        assert permit.probe is (before == "half_open")
        self.running.append(permit)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0), outcome=st.sampled_from(["success", "failure", "release"]))
    def a_call_ends(self, which: int, outcome: str) -> None:
        permit = self.running.pop(which % len(self.running))
        before = self.breaker.metrics(self.now)
        match outcome:
            case "success":
                self.breaker.success(self.now, permit)
            case "failure":
                self.breaker.failure(self.now, permit)
            case _:
                self.breaker.release(permit)
        after = self.breaker.metrics(self.now)
        if after["state"] == "open" and before["state"] != "open":
            assert outcome == "failure"
            assert after["opened"] == before["opened"] + 1
            assert after["retry_after"] == pytest.approx(10.0)
        if after["state"] == "closed" and before["state"] != "closed":
            assert outcome == "success"
            assert permit.probe
        if outcome == "release":
            assert after == before

    @invariant()
    def there_is_at_most_one_probe(self) -> None:
        """Of the period that counts, that is: one that outlived it is late."""
        probes = [permit for permit in self.running if permit.probe and permit.period == self.breaker._period]
        assert len(probes) <= 1

    @invariant()
    def it_never_stays_open(self) -> None:
        assert 0.0 <= self.breaker.retry_after(self.now) <= 10.0
        assert self.breaker.state(self.now + 10.001) != "open"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.__doc__ = (
    """In whatever order calls begin and end: one probe at a time, and no way to stay open for ever."""
)

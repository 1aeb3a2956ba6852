"""Event time is a linear function of wall time that every process of a run shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.clock import CLOCK_ENV, RunClock
from slackwater.errors import InputError

ORIGIN_US = 1_700_000_000_000_000
WALL_US = 1_800_000_000_000_000
clocks = st.builds(
    RunClock,
    st.integers(0, 2 * ORIGIN_US),
    st.integers(0, 2 * WALL_US),
    st.floats(0.01, 1000),
)


class Wall:
    """A wall clock that stands still until it is told to move."""

    def __init__(self, now_us):
        self.now_us = now_us

    def __call__(self):
        return self.now_us


@pytest.mark.parametrize(
    ("speed", "event_us"), [(1.0, 500_000), (20.0, 10_000_000), (0.5, 250_000)]
)
def test_event_time_runs_speed_times_as_fast_as_the_wall(speed, event_us):
    wall = Wall(WALL_US)
    clock = RunClock(ORIGIN_US, WALL_US, speed, wall)
    assert clock.now_us() == ORIGIN_US
    wall.now_us += 500_000
    assert clock.now_us() == ORIGIN_US + event_us


def test_half_a_second_of_wall_for_ten_of_event_time_at_speed_20():
    clock = RunClock(ORIGIN_US, WALL_US, 20.0)
    assert clock.wall_s(10.0) == 0.5
    assert clock.wall_of(ORIGIN_US + 10_000_000) == WALL_US / 1e6 + 0.5


@given(clock=clocks)
def test_another_process_gets_the_same_clock(clock):
    other = RunClock.decode(clock.encode())
    assert (other.origin_us, other.wall_origin_us, other.speed) == (
        clock.origin_us,
        clock.wall_origin_us,
        clock.speed,
    )


@given(ahead_us=st.integers(0, 10**12), speed=st.floats(0.01, 1000))
def test_wall_of_is_the_inverse_of_now(ahead_us, speed):
    wall = Wall(WALL_US + ahead_us)
    clock = RunClock(ORIGIN_US, WALL_US, speed, wall)
    # A double near 1.8e9 seconds resolves 0.24 us.
    assert clock.wall_of(clock.now_us()) == pytest.approx(
        wall.now_us / 1e6, abs=1e-6 + 1e-6 / speed
    )


def test_without_a_run_event_time_is_the_walls(monkeypatch):
    monkeypatch.delenv(CLOCK_ENV, raising=False)
    clock = RunClock.from_env()
    before = clock.wall_us()
    assert before <= clock.now_us() <= clock.wall_us()


def test_the_run_s_clock_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv(CLOCK_ENV, f"{ORIGIN_US},{WALL_US},20.0")
    assert RunClock.from_env().wall_s(20) == 1


@pytest.mark.parametrize(
    "text", ["now", "1,2", "1,2,3,4", "a,2,1.0", "1,2,", "1,2,0", "1,2,-1", "1,2,nan"]
)
def test_bad_clock_is_an_error_that_says_what_is_allowed(text):
    with pytest.raises(InputError, match=r"ORIGIN_US,WALL_ORIGIN_US,SPEED|above 0"):
        RunClock.decode(text)

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.serving import Queue, requests_of, windows_of
from slackwater.errors import InputError


def stepped(
    arrivals: list[float], work: list[float], slots: int, slowdown: float, starts: list[float]
) -> list[float]:
    """Finish times by walking from corner to corner of the server's speed, request by request."""
    free = [0.0] * slots
    corners = sorted({edge for s in starts for edge in (s, s + 8.0)})
    finish = []
    for arrived, needed in zip(arrivals, work, strict=True):
        left = needed
        now = max(arrived, heapq.heappop(free))
        while True:
            rate = 1 / slowdown if any(s <= now < s + 8.0 for s in starts) else 1.0
            corner = next((c for c in corners if c > now), float("inf"))
            if now + left / rate <= corner:
                break
            left -= (corner - now) * rate
            now = corner
        heapq.heappush(free, now + left / rate)
        finish.append(now + left / rate)
    return finish


@given(
    rows=st.lists(st.tuples(st.floats(0, 59), st.floats(0.01, 3)), min_size=1, max_size=40),
    slots=st.integers(1, 4),
    slowdown=st.floats(1, 20),
    starts=st.lists(st.integers(0, 6), unique=True).map(lambda ks: [8.0 * k for k in sorted(ks)]),
)
@settings(max_examples=150, deadline=None)
def test_stretched_time_agrees_with_stepping_through_it(
    rows: list[tuple[float, float]], slots: int, slowdown: float, starts: list[float]
) -> None:
    rows = sorted(rows)
    arrivals, work = [r[0] for r in rows], [r[1] for r in rows]
    model = Queue(slots=slots, slowdown=slowdown)
    served = model.serve(requests_of(arrivals, 60.0, service_s=work), windows_of(starts, 8.0))
    expected = stepped(arrivals, work, slots, slowdown, starts)
    assert served.arrival_s + served.latency_s == pytest.approx(np.array(expected), abs=1e-6)


def test_queueing_is_part_of_the_latency() -> None:
    arrivals = np.arange(8) / 10
    served = Queue(service_s=0.5).serve(requests_of(arrivals, 9.0), windows_of([], 8.0))
    assert served.latency_s == pytest.approx(0.5 + 0.4 * np.arange(8))


def test_harm_lasts_until_the_backlog_is_gone() -> None:
    # 5/s of 0.18 s of work is a load of 0.9; at half speed for 8 s, 6.4 s less 7.2 s of work is
    # done, and 3.2 s of backlog take 32 s to work off at a spare 0.1.
    arrivals = np.arange(0, 120, 0.2)
    served = Queue(service_s=0.18, slowdown=2.0).serve(
        requests_of(arrivals, 120.0), windows_of([20.0], 8.0)
    )
    after = served.arrival_s[served.harmed]
    assert after.min() == pytest.approx(20.0, abs=0.2)
    assert after.max() == pytest.approx(60.0, abs=0.3)
    assert (after >= 28.0).sum() > 3 * (after < 28.0).sum()


def test_second_window_before_the_backlog_is_gone_costs_more_than_two_apart() -> None:
    requests = requests_of(np.arange(0, 300, 0.2), 300.0)
    model = Queue(service_s=0.18, slowdown=2.0)
    near = model.serve(requests, windows_of([20.0, 40.0], 8.0)).latency_s.sum()
    far = model.serve(requests, windows_of([20.0, 150.0], 8.0)).latency_s.sum()
    assert near > far


def test_simultaneous_arrivals_keep_their_order() -> None:
    served = Queue(slots=2, service_s=1.0).serve(
        requests_of([0.0, 0.0, 0.0, 0.0], 9.0), windows_of([], 8.0)
    )
    assert served.latency_s.tolist() == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"service_s": 0.0}, {"slowdown": 0.9}])
def test_impossible_server_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="a queue needs 1 to 1,000,000 slots"):
        Queue(**wrong)  # type: ignore[arg-type]

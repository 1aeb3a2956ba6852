"""Every serving model in the registry keeps the same laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.profile import Profile
from calibration.serving import (
    MODELS,
    BurstSchedule,
    ClosedLoop,
    Queue,
    Requests,
    ServingModel,
    excess_violation,
    requests_of,
    serving_model,
    windows_of,
)
from slackwater.errors import InputError

DURATION_S, WINDOW_S, SLO_S = 120.0, 8.0, 1.0
EXTRA: list[ServingModel] = [
    Queue(slots=3, service_s=0.4, slowdown=4.0),
    ClosedLoop(schedule=BurstSchedule(quiet=2, busy=5, period_s=30.0, burst_s=10.0)),
]
ALL = [serving_model(name, Profile()) for name in MODELS] + EXTRA
NAMES = [*MODELS, "queue of 3 slots", "closed_loop by schedule"]
pytestmark = pytest.mark.parametrize("model", ALL, ids=NAMES)


def load(seed: int, n: int = 400, sidecars: int = 2) -> Requests:
    rng = np.random.default_rng(seed)
    return requests_of(
        np.sort(rng.uniform(0, DURATION_S, n)),
        DURATION_S,
        e2e_s=rng.exponential(0.5, n),
        tokens=rng.integers(1, 500, n),
        sidecar=rng.integers(0, sidecars, n),
        tenant=rng.integers(0, 3, n),
    )


schedules = st.lists(st.integers(0, 13), unique=True).map(lambda ks: [8.5 * k for k in sorted(ks)])
seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, starts=schedules)
@settings(max_examples=25, deadline=None)
def test_result_is_in_order_and_points_into_the_requests(
    model: ServingModel, seed: int, starts: list[float]
) -> None:
    requests = load(seed)
    served = model.serve(requests, windows_of(starts, WINDOW_S))
    assert served.request.shape == served.arrival_s.shape == served.latency_s.shape
    assert served.harmed.shape == served.request.shape
    assert (np.diff(served.arrival_s) >= 0).all()
    assert ((served.arrival_s >= 0) & (served.arrival_s < DURATION_S)).all()
    assert (served.latency_s >= 0).all()
    known = served.request[served.request >= 0]
    assert len(np.unique(known)) == len(known)
    assert (known < len(requests)).all()


def test_no_windows_no_harm(model: ServingModel) -> None:
    served = model.serve(load(1), windows_of([], WINDOW_S))
    assert len(served.harmed)
    assert not served.harmed.any()
    assert excess_violation(model, load(1), windows_of([], WINDOW_S), SLO_S).excess == 0.0


def test_same_input_gives_same_output(model: ServingModel) -> None:
    first, second = (model.serve(load(2), windows_of([20.0, 60.0], WINDOW_S)) for _ in range(2))
    assert (first.latency_s == second.latency_s).all()
    assert (first.harmed == second.harmed).all()


def test_what_finished_before_the_first_window_is_untouched(model: ServingModel) -> None:
    merged = model.serve(load(3), windows_of([50.0], WINDOW_S))
    alone = model.serve(load(3), windows_of([], WINDOW_S))
    early = alone.arrival_s + alone.latency_s < 50.0
    early &= alone.arrival_s < 50.0 - alone.latency_s.max()
    n = int(np.flatnonzero(~early)[0])
    assert n > 10
    assert merged.latency_s[:n] == pytest.approx(alone.latency_s[:n], abs=1e-9)
    assert not merged.harmed[:n].any()


def test_windows_harm_and_only_the_harmed_are_slower(model: ServingModel) -> None:
    merged = model.serve(load(4), windows_of([20.0, 60.0], WINDOW_S))
    alone = model.serve(load(4), windows_of([], WINDOW_S))
    assert 0 < merged.harmed.mean() < 1
    if (merged.request >= 0).all():
        base = dict(zip(alone.request.tolist(), alone.latency_s.tolist(), strict=True))
        before = np.array([base[i] for i in merged.request.tolist()])
        assert merged.latency_s[~merged.harmed] == pytest.approx(before[~merged.harmed], abs=2e-6)
        assert (merged.latency_s[merged.harmed] >= before[merged.harmed]).all()


def test_sidecars_do_not_touch_each_other(model: ServingModel) -> None:
    both, windows = load(5), windows_of([30.0, 90.0], WINDOW_S)
    assert both.sidecar is not None
    assert both.e2e_s is not None
    served, alone = model.serve(both, windows), []
    for own in both.by_sidecar():
        part = requests_of(both.arrival_s[own], DURATION_S, e2e_s=both.e2e_s[own])
        alone.append(np.sort(model.serve(part, windows).latency_s))
    assert np.sort(served.latency_s) == pytest.approx(np.sort(np.concatenate(alone)), abs=1e-9)


def test_violation_rate_counts_above_the_slo(model: ServingModel) -> None:
    served = model.serve(load(6), windows_of([20.0, 60.0], WINDOW_S))
    rate = served.violation_rate(SLO_S)
    assert rate == sum(x > SLO_S for x in served.latency_s.tolist()) / len(served.latency_s)
    assert served.violation_rate(float(served.latency_s.max())) == 0.0


def test_a_run_in_which_nothing_was_sent_has_no_rate(model: ServingModel) -> None:
    nothing, windows = requests_of([], DURATION_S, sidecar=[]), windows_of([20.0], WINDOW_S)
    served = model.serve(nothing, windows)
    scheduled = getattr(model, "schedule", None) is not None  # it sends whatever was recorded
    assert (len(served.request) > 0) == scheduled
    assert (served.harmed_share() is None) != scheduled
    assert (served.violation_rate(SLO_S) is None) != scheduled
    assert (excess_violation(model, nothing, windows, SLO_S).excess is None) != scheduled


def test_name_is_registered(model: ServingModel) -> None:
    assert model.name in MODELS


def test_overlapping_windows_are_refused(model: ServingModel) -> None:
    with pytest.raises(InputError, match="at least 8 s apart"):
        model.serve(load(7), windows_of([20.0, 27.9], WINDOW_S))

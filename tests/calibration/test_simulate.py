import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_runs import CORRIDOR, bursty_requests, entrants, segments

from calibration.contender import open_starts
from calibration.observed import observed_bins
from calibration.placement.corridor import Corridor
from calibration.serving import Requests, requests_of, start_costs
from calibration.simulate import Segment, corridor_settings, decide, simulate
from controller.counting import PartitionCounter
from controller.policies import POLICIES
from controller.settings import ControllerSettings
from slackwater.errors import InputError
from slackwater.events import BinRow, Load, Request


def counted_live(requests: Requests) -> list[BinRow]:
    """The bins that live counting makes of the events of these requests."""
    assert requests.e2e_s is not None
    assert requests.sidecar is not None
    arrival = np.rint(requests.arrival_s * 1e6).astype(int)
    finish = arrival + np.rint(requests.e2e_s * 1e6).astype(int)
    events: list[Request | Load] = [
        Request(
            run_id="r",
            at_us=int(finish[i]),
            sidecar=f"sidecar-{requests.sidecar[i]}",
            id=f"r{i}",
            arrival_us=int(arrival[i]),
            status="ok",
            e2e_s=(finish[i] - arrival[i]) / 1e6,
        )
        for i in range(len(requests))
    ]
    for at_us in range(0, round(requests.duration_s * 1e6) + 2_000_000, 100_000):
        for sidecar in (0, 1):
            own = requests.sidecar == sidecar
            inside = int((own & (arrival <= at_us) & (finish > at_us)).sum())
            events.append(
                Load(
                    run_id="r",
                    at_us=at_us,
                    sidecar=f"sidecar-{sidecar}",
                    running=inside,
                    waiting=0,
                )
            )
    counter = PartitionCounter(0, 0.25, 0.2)
    counter.add(sorted(events, key=lambda e: (e.at_us, isinstance(e, Load))))
    closed = counter.close("r", "default")
    assert closed is not None
    return [row for row in closed.rows if 0 <= row.start_us < requests.duration_s * 1e6]


def test_simulated_bins_are_those_that_live_counting_makes() -> None:
    requests = bursty_requests(np.random.default_rng(5), 40.0)
    live, made = counted_live(requests), list(observed_bins(requests))
    assert len(live) == len(made) == 2 * 160
    for ours, theirs in zip(made, live, strict=True):
        for field in ("sidecar", "start_us", "finished", "in_system", "sample_us"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.finished_after_sample == theirs.finished_after_sample
        assert ours.e2e_sum_s == pytest.approx(theirs.e2e_sum_s, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    cells=st.integers(20, 200),
    window=st.integers(1, 10),
    extra=st.integers(0, 10),
    span=st.integers(0, 60),
    lead_s=st.sampled_from([0.0, 0.5, 2.2, 40.0]),
)
def test_every_policy_keeps_to_schedules_that_the_random_control_may_draw(
    seed: int, cells: int, window: int, extra: int, span: int, lead_s: float
) -> None:
    corridor = Corridor(cells, window, window + extra, window + extra + span)
    assume(corridor.budgets())
    requests = bursty_requests(np.random.default_rng(seed), cells * 0.5)
    (placed,) = simulate(requests, [Segment(0, corridor)], entrants(corridor, lead_s=lead_s))
    for name, merges in placed.items():
        starts = [merge.start_cell for merge in merges]
        assert corridor.feasible(starts), (name, starts)
        assert len(starts) in corridor.budgets()


@pytest.mark.parametrize("corridor", [Corridor(30, 2, 4, 5), Corridor(24, 3, 3, 14)])
def test_open_starts_are_those_of_some_feasible_schedule_after_any_first_gap(
    corridor: Corridor,
) -> None:
    can_end = [False] * corridor.cells
    for cell in reversed(range(corridor.last_start + 1)):
        gaps = range(corridor.min_gap_cells, corridor.max_gap_cells + 1)
        can_end[cell] = corridor.cells - cell <= corridor.max_gap_cells or any(
            cell + gap < corridor.cells and can_end[cell + gap] for gap in gaps
        )
    assert open_starts(corridor).tolist() == can_end


def test_window_opens_in_the_cell_of_its_decision_and_later_by_the_lead() -> None:
    requests = bursty_requests(np.random.default_rng(1), 120.0)
    for lead_s, cells in ((0.0, 0), (1.0, 2), (1.2, 3)):
        taken = [
            (d.cell, d.merge.start_cell, d.outcome.choice.reason)
            for d in decide(
                observed_bins(requests), segments(1), entrants(policies=("slack",), lead_s=lead_s)
            )
            if d.merge
        ]
        calm = [start - cell for cell, start, reason in taken if reason == "calm_enough"]
        assert calm
        assert set(calm) == {cells}


def test_fixed_period_is_kept_to_the_cell() -> None:
    requests = bursty_requests(np.random.default_rng(1), 120.0)
    (placed,) = simulate(requests, segments(1), entrants(policies=("fixed_h",)))
    assert [m.start_cell for m in placed["fixed_h"]] == [32, 64, 96, 128, 160, 192, 224]


def test_forecast_at_a_start_is_what_the_window_costs_on_average() -> None:
    rng = np.random.default_rng(7)
    arrivals = np.sort(rng.uniform(0, 2400, 24_000))
    requests = requests_of(arrivals, 2400.0, e2e_s=np.full(len(arrivals), 0.5))
    costs = start_costs(requests, 4.0, 0.5, "in_service")
    errors = [
        merge.forecast - costs[number * 240 + merge.start_cell]
        for number, placed in enumerate(
            simulate(requests, segments(20), entrants(policies=("random_deferral",)))
        )
        for merge in placed["random_deferral"]
        if merge.forecast is not None
    ]
    assert len(errors) > 80
    assert abs(np.mean(errors)) < 3.0  # Of about 45 requests.


def test_traffic_before_a_segment_warms_the_signals_and_has_no_merges() -> None:
    requests = bursty_requests(np.random.default_rng(2), 240.0)
    (late,) = simulate(requests, [Segment(240, CORRIDOR)], entrants(policies=("slack",)))
    (cold,) = simulate(
        cut_off(requests, 120.0), [Segment(0, CORRIDOR)], entrants(policies=("slack",))
    )
    assert late["slack"][0].forecast is not None
    assert [m.start_cell for m in late["slack"]] != [m.start_cell for m in cold["slack"]]


def cut_off(requests: Requests, from_s: float) -> Requests:
    assert requests.e2e_s is not None
    assert requests.sidecar is not None
    kept = requests.arrival_s >= from_s
    return requests_of(
        requests.arrival_s[kept] - from_s,
        requests.duration_s - from_s,
        e2e_s=requests.e2e_s[kept],
        sidecar=requests.sidecar[kept],
    )


def test_policies_together_place_as_each_alone() -> None:
    requests = bursty_requests(np.random.default_rng(3), 240.0)
    together = list(simulate(requests, segments(2), entrants()))
    for name in POLICIES:
        alone = list(simulate(requests, segments(2), entrants(policies=(name,))))
        assert [placed[name] for placed in alone] == [placed[name] for placed in together]


def test_window_longer_than_the_least_gap_is_refused() -> None:
    with pytest.raises(InputError, match="two merges would overlap"):
        corridor_settings(ControllerSettings(), Corridor(100, 20, 10, 40))


def test_requests_of_unknown_end_are_refused() -> None:
    with pytest.raises(ValueError, match="serve the trace first"):
        list(observed_bins(requests_of([1.0], 2.0)))

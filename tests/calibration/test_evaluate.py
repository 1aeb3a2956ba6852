"""The figures of an evaluation: each one against its own definition, on small runs."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from small_runs import CORRIDOR, bursty_requests, entrants

from calibration.costs import run_costs, stretch
from calibration.evidence import verdicts
from calibration.experiment import BASELINE, Scored, Source, evaluate
from calibration.placement import Grid
from calibration.placement.corridor import Corridor
from calibration.profile import Effect
from calibration.protocol import Protocol, corridor_of
from calibration.serving import ClosedLoop, Overlap, Queue, Requests, requests_of
from controller.overlap import overlap_cost
from slackwater.errors import InputError

PROTOCOL = Protocol(CORRIDOR, cell_s=0.5, model=Overlap(), draws=500, seed=0)
POLICIES = ("fixed_h", "random_deferral", "slack")


def source(seed: int, runs: int = 2) -> Source:
    requests = bursty_requests(np.random.default_rng(seed), runs * PROTOCOL.run_s)
    return Source(f"t{seed}", requests, tuple(i * CORRIDOR.cells for i in range(runs)), seed)


def with_tokens(requests: Requests) -> Requests:
    return replace(requests, tokens=np.ones(len(requests), np.int64))


def score(*sources: Source, protocol: Protocol = PROTOCOL) -> list[Scored]:
    scored = evaluate(sources, entrants(policies=POLICIES), protocol)
    return [one for one in scored if one is not None]


def spans_us(requests: Requests) -> list[tuple[int, int]]:
    assert requests.e2e_s is not None
    ends = requests.arrival_s + requests.e2e_s
    return [(round(a * 1e6), round(b * 1e6)) for a, b in zip(requests.arrival_s, ends, strict=True)]


def test_cost_of_a_run_is_the_overlap_of_its_windows_with_the_whole_trace() -> None:
    one = source(1)
    spans = spans_us(one.requests)
    for scored in score(one):
        for run in scored.runs:
            begins = [run.segment * PROTOCOL.run_s + start_s for start_s in run.starts_s]
            costs = [
                overlap_cost(spans, round(b * 1e6), round((b + PROTOCOL.window_s) * 1e6))
                for b in begins
            ]
            assert run.cost == sum(costs)


def test_control_has_the_policys_own_budget_and_figures_follow_their_definitions() -> None:
    one = source(2, runs=1)
    (scored,) = score(one)
    (costs,) = run_costs(one.requests, one.first_cells, PROTOCOL, [0.0])
    grid = Grid.from_costs(costs, 8, 16, 64)
    for run in scored.runs:
        assert run.budget == len(run.starts_s) == len(run.reasons)
        assert run.random_mean == pytest.approx(grid.mean(run.budget), rel=1e-12)
        assert run.random_sd == pytest.approx(grid.variance(run.budget) ** 0.5)
        assert run.oracle_exact == grid.optimum(run.budget)[0]
        assert run.oracle_exact <= run.oracle_greedy
        assert run.oracle_exact <= run.cost
        assert run.gain == pytest.approx(1 - run.cost / run.random_mean)
        assert run.gain_pp == pytest.approx(100 * (run.random_mean - run.cost) / run.requests)
        ceiling = run.random_mean - run.oracle_exact
        assert run.capture == pytest.approx((run.random_mean - run.cost) / ceiling)
        drawn = scored.random_pp[run.policy]
        assert drawn.mean() == pytest.approx(100 * run.random_mean / run.requests, rel=0.02)
        assert run.random_p05 == pytest.approx(np.quantile(drawn, 0.05) * run.requests / 100)
        ranks = (drawn < 100 * run.cost / run.requests - 1e-9).mean() * 100
        assert ranks <= run.percentile <= ranks + 25


def test_draws_do_not_depend_on_which_policies_take_part() -> None:
    one = source(3, runs=1)
    (alone,) = evaluate([one], entrants(policies=("slack",)), PROTOCOL)
    (beside,) = score(one)
    assert alone is not None
    assert alone.runs[0] == beside.runs[2]
    assert (alone.random_pp["slack"] == beside.random_pp["slack"]).all()


def test_same_seed_gives_the_same_figures_and_another_seed_other_draws() -> None:
    one = source(4, runs=1)
    first, again = score(one)[0], score(one)[0]
    other = score(one, protocol=replace(PROTOCOL, seed=1))[0]
    assert first.runs == again.runs
    assert (first.random_pp["slack"] == again.random_pp["slack"]).all()
    assert (first.random_pp["slack"] != other.random_pp["slack"]).any()


def test_coins_of_sources_with_other_seeds_fall_otherwise() -> None:
    requests = bursty_requests(np.random.default_rng(5), PROTOCOL.run_s)
    starts = [
        one.runs[1].starts_s
        for one in score(*(Source(f"t{seed}", requests, (0,), seed) for seed in range(3)))
    ]
    assert len(set(starts)) == 3


def test_run_without_a_request_is_left_out() -> None:
    early = requests_of([1.0, 2.0], 2 * PROTOCOL.run_s, e2e_s=[0.5, 0.5])
    scored = list(evaluate([Source("t", early, (0, 240))], entrants(policies=POLICIES), PROTOCOL))
    assert scored[0] is not None
    assert scored[1] is None


def test_windows_that_harm_nobody_have_no_gain_rather_than_a_gain_of_0() -> None:
    early = requests_of([1.0, 2.0], PROTOCOL.run_s, e2e_s=[0.5, 0.5])
    (scored,) = score(Source("t", early, (0,)))
    for run in scored.runs:
        assert (run.cost, run.random_mean) == (0.0, 0.0)
        assert run.gain is None
        assert run.capture is None
        assert run.gain_pp == 0.0
        assert run.percentile == 50.0


def test_traffic_that_never_changes_gains_and_captures_nothing() -> None:
    even = requests_of(np.arange(1200) * 0.1 + 0.05, PROTOCOL.run_s, e2e_s=np.full(1200, 0.02))
    scored = score(*(Source(f"t{i}", with_tokens(even), (0,), i) for i in range(8)))
    for run in (run for one in scored for run in one.runs):
        assert (run.gain, run.gain_pp, run.capture) == (0.0, 0.0, None)
    for verdict in verdicts(scored, None, 0.5, np.random.default_rng(0)):
        assert verdict.verdict != "placement gain"
        assert verdict.p_value == 1.0


@pytest.mark.parametrize("claim", [None, "slack"])
def test_measured_effect_is_the_gates_first_step(claim: str | None) -> None:
    scored, rng = score(source(7, runs=1)), np.random.default_rng(0)
    none = Effect(merges=40, p95_ratio=1.0, p95_ratio_low=0.9, p95_ratio_high=1.1)
    some = Effect(merges=40, p95_ratio=2.3, p95_ratio_low=2.1, p95_ratio_high=2.4)
    for effect, passed in ((None, None), (none, False), (some, True)):
        for verdict in verdicts(scored, claim, 0.5, rng, effect=effect):
            assert verdict.steps[0].passed is passed
            assert (verdict.verdict == "no effect") == (effect is none)


def test_windows_may_stand_end_to_end() -> None:
    tight = Corridor(120, 8, 8, 16)
    protocol = replace(PROTOCOL, corridor=tight)
    requests = bursty_requests(np.random.default_rng(8), 360.0)
    (every,) = entrants(tight, ("fixed_h",))
    every = replace(every, settings=msgspec.structs.replace(every.settings, fixed_steps=8))
    one = Source("t", requests, tuple(range(0, 720, 120)))
    budgets = [scored.runs[0].budget for scored in evaluate([one], [every], protocol) if scored]
    assert budgets == [14] * 6


def test_no_fixed_schedule_is_in_step_with_a_closed_loop_run_after_run() -> None:
    protocol = replace(PROTOCOL, model=ClosedLoop(), draws=50)
    even = requests_of(np.arange(2400) * 0.05 + 0.01, 120.0, e2e_s=np.full(2400, 0.02))
    scored = score(*(Source(f"t{i}", even, (0,), i) for i in range(6)), protocol=protocol)
    assert len({one.runs[0].cost for one in scored}) > 1


@pytest.mark.parametrize("model", [Overlap(), Overlap("arriving"), Queue(2, 0.2), ClosedLoop()])
def test_every_serving_model_gives_figures(model: Overlap | Queue | ClosedLoop) -> None:
    (scored,) = score(source(6, runs=1), protocol=replace(PROTOCOL, model=model, draws=50))
    for run in scored.runs:
        assert run.cost > 0
        assert run.oracle_exact <= run.random_mean
        assert (run.forecast_error is not None) == (model == Overlap())
    base = scored.loads[BASELINE]
    assert base.requests > 0
    assert all(
        (load.requests == base.requests) == (model.name != "closed_loop")
        for name, load in scored.loads.items()
        if name != BASELINE
    )


def test_closed_loop_load_is_held_against_schedules_with_as_many_merges() -> None:
    protocol = replace(PROTOCOL, model=ClosedLoop(), draws=50)
    scored = score(*(source(20 + i, runs=1) for i in range(6)), protocol=protocol)
    for one in scored:
        for control in one.control_loads.values():
            assert control.requests < one.loads[BASELINE].requests
    for verdict in verdicts(scored, None, 0.5, np.random.default_rng(0)):
        ratio = verdict.steps[1].figures[f"{verdict.policy} arrivals ratio"]
        of_it = [one.loads[verdict.policy].requests for one in scored]
        control = [one.control_loads[verdict.policy].requests for one in scored]
        assert ratio == pytest.approx(np.exp(np.mean(np.log(np.divide(of_it, control)))))


def test_harm_is_shared_evenly_by_sidecars_that_take_turns() -> None:
    (scored,) = score(source(7, runs=1))
    assert all(run.jain_sidecars is not None and run.jain_sidecars > 0.9 for run in scored.runs)
    assert all(run.jain_tenants is None for run in scored.runs)


def test_shares_of_harm_are_of_the_runs_own_requests_and_name_the_worst() -> None:
    one = source(7, runs=1)
    tenant = np.where(np.arange(len(one.requests)) % 3 == 0, "acme", "zoo")
    (scored,) = score(replace(one, requests=replace(one.requests, tenant=tenant)))
    for run in scored.runs:
        for bearers, worst, burden in (
            (run.sidecars, run.worst_sidecar, run.worst_sidecar_burden),
            (run.tenants, run.worst_tenant, run.worst_tenant_burden),
        ):
            assert bearers is not None
            assert sum(b.requests for b in bearers) == run.requests
            assert sum(b.share_of_requests for b in bearers) == pytest.approx(1.0)
            assert sum(b.share_of_harm or 0.0 for b in bearers) == pytest.approx(1.0)
            assert burden == max(b.burden for b in bearers if b.burden is not None)
            assert worst in {b.name for b in bearers if b.burden == burden}


def test_shares_are_unknown_with_one_sidecar_and_unnamed_tenants() -> None:
    one = source(7, runs=1)
    alone = np.zeros(len(one.requests), np.int64)
    (scored,) = score(replace(one, requests=replace(one.requests, sidecar=alone)))
    for run in scored.runs:
        assert (run.sidecars, run.worst_sidecar, run.worst_sidecar_burden) == (None, None, None)
        assert (run.tenants, run.worst_tenant, run.worst_tenant_burden) == (None, None, None)


def test_stretch_has_the_arrivals_of_its_run_alone_with_times_from_its_start() -> None:
    one = source(8)
    assert one.requests.sidecar is not None
    parts = [stretch(one.requests, first, PROTOCOL) for first in one.first_cells]
    whole = np.concatenate([part.arrival_s + i * PROTOCOL.run_s for i, part in enumerate(parts)])
    assert whole == pytest.approx(one.requests.arrival_s)
    assert np.concatenate([p.sidecar for p in parts]).tolist() == one.requests.sidecar.tolist()


def test_claimed_policy_is_judged_alone_and_first_the_others_corrected_for_all() -> None:
    sources = [source(seed, runs=1) for seed in range(10, 17)]
    scored = score(*(replace(one, requests=with_tokens(one.requests)) for one in sources))
    rng = np.random.default_rng(0)
    claimed, *rest = verdicts(scored, "slack", 0.5, rng)
    assert (claimed.policy, claimed.policies, claimed.p_value) == ("slack", 1, claimed.p_raw)
    assert [v.policy for v in rest] == ["fixed_h", "random_deferral"]
    assert {v.policies for v in rest} == {3}
    everyone = {v.policy: v for v in verdicts(scored, None, 0.5, rng)}
    assert set(everyone) == set(POLICIES)
    assert everyone["slack"].p_value >= claimed.p_value
    runs = [run for one in scored for run in one.runs if run.policy == "slack"]
    assert claimed.gain_pp == pytest.approx(np.mean([run.gain_pp for run in runs]))


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((600, 8, 18.2, 72), r"least gap of 18.2 s is not a whole number of cells of 0.5 s"),
        ((600, 20, 18, 72), r"window of 20 s is longer than the least gap of 18 s"),
        ((20, 8, 18, 72), r"run of 20 s .* is shorter than a corridor: .* would end at 26 s"),
        ((150, 8, 72, 72), r"asks for 2 merges or more, the least allows 1 at the most"),
        ((600, 8, 72, 18), r"largest gap of 18 s is below the least gap of 72 s"),
    ],
)
def test_impossible_corridors_say_why(lengths: tuple[float, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        corridor_of(*lengths, cell_s=0.5)


def test_envelope_without_draws_is_refused() -> None:
    with pytest.raises(InputError, match="draws is 0"):
        replace(PROTOCOL, draws=0)

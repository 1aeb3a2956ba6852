"""Regimes differ in the shape of their rate and in nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay_producer.describe import describe
from replay_producer.generators import REGIMES, Shape, generate
from slackwater.errors import InputError


@pytest.mark.parametrize("regime", REGIMES)
class TestEveryRegime:
    def test_the_same_seed_gives_the_same_trace(self, regime: str) -> None:
        one, two, other = (generate(regime, 60, seed=seed) for seed in (3, 3, 4))
        assert np.array_equal(one.arrival_us, two.arrival_us)
        assert np.array_equal(one.output_tokens, two.output_tokens)
        assert not np.array_equal(one.arrival_us, other.arrival_us)

    def test_the_mean_rate_is_what_was_asked_for(self, regime: str) -> None:
        counts = [len(generate(regime, 600, 10, seed=seed)) for seed in range(20)]
        # 20 runs of 6000 Poisson requests: 4 standard errors of the mean are 69.
        assert np.mean(counts) == pytest.approx(6000, abs=70)

    def test_arrivals_are_in_order_and_inside_the_duration(self, regime: str) -> None:
        trace = generate(regime, 30, 50)
        assert (np.diff(trace.arrival_us) >= 0).all()
        assert trace.arrival_us[0] >= 0
        assert trace.arrival_us[-1] < trace.duration_us == 30_000_000

    def test_the_i_th_request_asks_for_the_same_as_in_any_other_regime(self, regime: str) -> None:
        mine, constant = generate(regime, 60), generate("constant", 60)
        count = min(len(mine), len(constant))
        assert np.array_equal(mine.output_tokens[:count], constant.output_tokens[:count])


def test_constant_arrivals_are_poisson_and_bursts_are_not() -> None:
    assert describe(generate("constant", 2000, 10)).dispersion == pytest.approx(1, abs=0.15)
    for regime in ("bursty", "aperiodic"):
        dispersion = describe(generate(regime, 2000, 10)).dispersion
        assert dispersion is not None
        assert dispersion > 2


def test_periodic_bursts_have_three_times_the_rate_and_stand_where_they_should() -> None:
    trace = generate("bursty", 2400, 20, seed=1)
    in_burst = trace.arrival_us % 120_000_000 < 30_000_000
    ratio = (in_burst.sum() / 30) / ((~in_burst).sum() / 90)
    assert ratio == pytest.approx(3, rel=0.05)


def test_aperiodic_bursts_take_a_third_of_the_time_and_have_no_period() -> None:
    trace = generate("aperiodic", 6000, 30, seed=2)
    per_second = np.bincount(trace.arrival_us // 1_000_000, minlength=6000)
    busy = per_second > 30
    assert busy.mean() == pytest.approx(1 / 3, abs=0.05)
    centred = per_second - per_second.mean()
    spectrum = np.abs(np.fft.rfft(centred)) ** 2
    assert spectrum.max() < 0.1 * spectrum.sum()


def test_ordinary_load_varies_gently() -> None:
    per_minute = np.bincount(generate("ordinary", 1200, 50).arrival_us // 60_000_000)
    assert 1.2 < per_minute.max() / per_minute.min() < 2.5


def test_token_lengths_are_lognormal_about_their_medians() -> None:
    trace = generate("constant", 1000, 20)
    assert np.median(trace.prompt_tokens) == pytest.approx(512, rel=0.05)
    assert np.log(trace.output_tokens).std() == pytest.approx(0.35, abs=0.02)


def test_a_short_run_gets_four_bursts() -> None:
    shape = Shape().within(80)
    assert (shape.period_s, shape.burst_s) == (20, 5)
    assert Shape().within(4800) == Shape()


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(REGIMES)),
    st.floats(0.5, 100),
    st.floats(20, 200),
    st.integers(0, 2**32),
)
def test_any_valid_request_gives_a_valid_trace(
    regime: str, duration_s: float, rate: float, seed: int
) -> None:
    trace = generate(regime, duration_s, rate, seed)
    assert (trace.output_tokens >= 1).all()
    assert (trace.prompt_tokens >= 1).all()
    assert trace.arrival_us[-1] < duration_s * 1e6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lunch", 10.0), "must be one of ordinary, high_pressure, constant, bursty, aperiodic"),
        (("constant", -1.0), "duration is -1"),
        (("constant", float("nan")), "duration is nan"),
        (("constant", 10.0, 0.0), "rate is 0"),
        (("constant", 1e9, 1e9), "too many"),
        (("constant", 1e-3, 1e-3), "gave no request"),
        (("constant", 10.0, 1.0, -1), "seed is -1"),
    ],
)
def test_impossible_requests_are_input_errors(arguments: tuple[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        generate(*arguments)


def test_bursts_longer_than_their_period_are_refused() -> None:
    with pytest.raises(InputError, match="burst_s must be below period_s"):
        generate("bursty", 100, shape=Shape(period_s=10, burst_s=10))

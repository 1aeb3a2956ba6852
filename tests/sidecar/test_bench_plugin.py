"""What `bench.plugin` says of blocks whose truth is given."""

import numpy as np
import pytest

from bench import plugin
from bench.plugin import ARMS, BARE, Served, against

SLOWER = ARMS[1]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(plugin, "RESAMPLES", 200)


def blocks(rng, slower, rounds=8, luck=0.05):
    """Two blocks a round; a process has luck of its own in each round."""
    found = {BARE: [], SLOWER: []}
    for number in range(rounds):
        for arm, own in found.items():
            speed = np.exp(rng.normal(0, luck)) * (slower if arm == SLOWER else 1.0)
            for _ in range(2):
                latency_s = 0.03 * speed * np.exp(rng.normal(0, 0.2, 80))
                still = rng.random(80) < 0.03
                latency_s[still] += rng.uniform(0.1, 0.9, still.sum())
                own.append(Served(number, latency_s.tolist(), (~still).tolist(), []))
    return found


def test_a_slower_server_is_told_from_luck_and_standstills():
    found = against(blocks(np.random.default_rng(0), 1.5), SLOWER)
    for name in ("p50_ratio", "p99_undisturbed_ratio"):
        assert 1 < found[name]["low"] < 1.5 < found[name]["high"]
    # Standstills make the 99th percentile of both.
    assert found["p99_ratio"]["low"] < 1 < found["p99_ratio"]["high"]


def test_luck_of_processes_is_no_effect_in_more_than_a_few_of_a_hundred():
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(20):
        told = against(blocks(rng, 1.0), SLOWER)["p50_ratio"]
        missed += not told["low"] <= 1 <= told["high"]
    assert missed <= 4


def test_few_rounds_have_no_interval():
    found = against(blocks(np.random.default_rng(0), 1.0, rounds=3), SLOWER)
    assert found["p50_ratio"]["low"] is None
    assert found["p50_ratio"]["value"] == pytest.approx(1, abs=0.2)

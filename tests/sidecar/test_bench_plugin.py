"""What `bench.plugin` says of rounds whose truth is given."""

import numpy as np
import pytest

from bench import plugin
from bench.plugin import ARMS, BARE, QUANTILES, against

SLOWER = ARMS[1]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(plugin, "RESAMPLES", 200)


def rounds(rng, slower, count=8, luck=0.05):
    """A process has luck of its own in each round."""
    found = {BARE: [], SLOWER: []}
    for _ in range(count):
        for arm, own in found.items():
            speed = np.exp(rng.normal(0, luck)) * (slower if arm == SLOWER else 1.0)
            own.append(0.03 * speed * np.exp(rng.normal(0, 0.2, 160)))
    return found


def test_a_slower_server_is_told_from_luck():
    found = against(rounds(np.random.default_rng(0), 1.5), SLOWER)
    for name in QUANTILES:
        told = found[f"{name}_ratio"]
        assert told["value"] == pytest.approx(1.5, abs=0.1)
        assert 1 < told["low"] < told["value"] < told["high"] < 1.7


def test_luck_of_processes_is_no_effect_in_more_than_a_few_of_a_hundred():
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(20):
        told = against(rounds(rng, 1.0), SLOWER)["p50_ratio"]
        missed += not told["low"] <= 1 <= told["high"]
    assert missed <= 4


def test_few_rounds_have_no_interval():
    found = against(rounds(np.random.default_rng(0), 1.0, count=3), SLOWER)
    assert found["p50_ratio"]["low"] is None
    assert found["p50_ratio"]["value"] == pytest.approx(1, abs=0.2)

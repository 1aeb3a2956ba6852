"""What `bench.closed_loop` says of blocks whose truth is given."""

import argparse
import json
from dataclasses import asdict

import numpy as np
import pytest

from bench import closed_loop
from bench.closed_loop import Batch, Block, compared, write

LENGTH_S, WINDOW_S, ROUNDS = 60.0, 4.0, 10
OPTIONS = argparse.Namespace(slo=None, at_a_time=4, seed=0)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(closed_loop, "RESAMPLES", 100)


def block(rng, merging, *, slower=2.0, lasts_s=0.0):
    """Batches of about 0.2 s; those that start in a window, or so long after it, are slower."""
    made, now_s = Block(merging, LENGTH_S, statuses={"ok": 4}), 0.0
    if merging:
        made.windows = [(start_s, start_s + WINDOW_S) for start_s in (5.0, 20.0, 35.0, 50.0)]
    while now_s < LENGTH_S:
        took_s = 0.2 * float(np.exp(rng.normal(0, 0.3)))
        if any(low <= now_s < high + lasts_s for low, high in made.windows):
            took_s *= slower
        made.batches.append(Batch(now_s, took_s, 4))
        now_s += took_s
    return made


def blocks(**given):
    rng = np.random.default_rng(1)
    return [block(rng, merging, **given) for _ in range(ROUNDS) for merging in (True, False)]


def test_a_server_that_is_as_the_model_says_is_found_to_be(tmp_path):
    found = compared(blocks(), OPTIONS)
    write(found | {"blocks": [asdict(one) for one in blocks()]}, tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["requests"] == {"ok": 8 * ROUNDS}
    measured, modelled = (found["figures"][name] for name in ("measured", "modelled"))
    assert found["differ"] is False
    assert measured["low"] > 0.05
    assert measured["value"] == pytest.approx(modelled["value"], abs=0.02)
    assert found["figures"]["base_rate"]["value"] == pytest.approx(0.05, abs=0.01)


def test_harm_that_lasts_after_the_window_differs_from_the_model():
    found = compared(blocks(lasts_s=4.0), OPTIONS)
    assert found["differ"] is True
    assert found["measured_minus_modelled"]["low"] > 0


def test_few_rounds_have_no_intervals_and_one_without_an_answer_no_model():
    few = blocks()[:8]
    assert compared(few, OPTIONS)["differ"] is None
    for one in few:
        one.batches = [Batch(b.start_s, None, b.requests) for b in one.batches]
    with pytest.raises(ArithmeticError, match="over 5% of the batches without merges"):
        compared(few, OPTIONS)

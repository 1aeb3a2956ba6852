from datetime import UTC, datetime
from pathlib import Path

import pytest

from slackwater.errors import InputError
from slackwater.testbed.plan import Plan, make_plan

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"duration_s": -3.0}, "--duration is -3.0; it must be a number > 0"),
        ({"duration_s": float("nan")}, "--duration is nan"),
        ({"speed": 0.0}, "--speed is 0.0"),
        ({"rate": float("inf")}, "--rate is inf"),
        ({"learners": 0}, "--learners is 0; it must be a whole number >= 1"),
        ({"sidecars": 0}, "--sidecars is 0"),
        ({"step_s": -0.1}, "--step-s is -0.1"),
        ({"parameters": 8.5}, "--parameters is 8.5; it must be a whole number"),
        ({"parameters": 10**13}, "--parameters is 10000000000000"),
        ({"seed": 1 << 63}, "--seed is 9223372036854775808"),
        ({"seed": -1}, "--seed is -1"),
        ({"min_gap_steps": 9, "max_gap_steps": 3}, "min <= max"),
        ({"kafka": "localhost"}, "HOST:PORT"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_may_be(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError) as error:
        make_plan(NOW, **options)

    assert words in str(error.value)


def test_a_run_without_a_trace_makes_aperiodic_traffic() -> None:
    plan = make_plan(NOW)

    assert plan.regime == "aperiodic"
    assert plan.source == "aperiodic"


def test_a_trace_leaves_the_regime_out() -> None:
    plan = make_plan(NOW, trace=Path("traces/azure code.csv"))

    assert plan.regime is None
    assert plan.source == "azure code.csv"
    assert plan.run_id.startswith("20260301-120000-azure-code-")


def test_two_runs_begun_in_the_same_second_have_different_names_and_logs() -> None:
    first, second = make_plan(NOW), make_plan(NOW)

    assert first.run_id != second.run_id
    assert first.db != second.db
    assert first.prefix != second.prefix


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(InputError, match="sped"):
        make_plan(NOW, sped=2)


def test_the_plan_names_each_learner() -> None:
    plan = Plan(run_id="r", db=Path("r.duckdb"), learners=3)

    assert plan.learner_names() == ["learner-0", "learner-1", "learner-2"]

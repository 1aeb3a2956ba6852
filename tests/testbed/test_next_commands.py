from datetime import UTC, datetime
from pathlib import Path

from slackwater.testbed.plan import make_plan
from slackwater.testbed.summary import next_commands

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_run_with_coins_is_to_be_judged_by_them_first() -> None:
    plan = make_plan(NOW, Path("a b.duckdb"), assignments=["controller.switchback=matched"])
    assert next_commands(plan)[0].endswith("switchback 'a b.duckdb'")
    without = make_plan(NOW, Path("a b.duckdb"))
    assert not [line for line in next_commands(without) if "switchback" in line]

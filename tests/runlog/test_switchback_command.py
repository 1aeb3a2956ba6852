"""`slackwater switchback`: a verdict from the coins of run logs, ended or growing."""

import json
import shutil
import sys
from pathlib import Path

import duckdb
import pytest
from handmade import us

from controller.switchback import coin_of, switchback_key
from slackwater import events
from streams.runlog import Run, RunLog

sys.path.insert(0, str(Path(__file__).parents[1] / "calibration"))

from report_page import run_command

GAP_S, WINDOW_S = 30.0, 8.0
CONTROLLER = {"seed": 5, "group": "default", "switchback": "matched", "switchback_share": 0.5}


@pytest.fixture
def command(capsys):
    def run(*args, code=0):
        run_command("switchback", *args, code=code)
        return capsys.readouterr()

    return run


@pytest.fixture
def refused(command):
    def run(*args):
        told = command(*args, code=2)
        assert told.out == ""
        assert told.err.count("\n") == 1
        return told.err

    return run


def arm_of(run_id, number):
    coin = coin_of(switchback_key(5, run_id, "default"), number).random()
    return "policy" if coin < 0.5 else "random"


def write(
    log, run_id="live", merges=60, harm=(4, 12), over=True, lost=(), wrong=None, **controller
):
    """Merges every 30 s; a window of the policy meets `harm[0]` requests, a random one `harm[1]`.

    `lost` intervals have no window; interval `wrong` is logged under the other arm.
    """
    settings = {"slo_s": 1.0, "stream": {"controller": CONTROLLER | controller}}
    log.start_run(
        Run(run_id=run_id, policy="slack+switchback", seed=5, created_us=us(0), settings=settings)
    )
    decided, done, asked = [], [], []
    for number in range(merges + (not over)):
        arm = arm_of(run_id, number)
        began_s, start_s = GAP_S * number, GAP_S * number + 20
        if number == wrong:
            arm = "random" if arm == "policy" else "policy"
        decided.append(
            events.Decision(
                run_id=run_id, at_us=us(began_s), group="default", policy="slack", active=True,
                action="wait", reason="h_min", window_s=WINDOW_S, learners=1, arm=arm,
                interval_number=number, policy_share=0.5,
            )
        )  # fmt: skip
        if number in lost or number == merges:
            continue
        fields = {"run_id": run_id, "group": "default", "learner": "a", "merge_id": f"m{number}",
                  "step": 1}  # fmt: skip
        done.append(events.Started(at_us=us(start_s), **fields))
        done.append(
            events.Finished(
                at_us=us(start_s + WINDOW_S), seconds=WINDOW_S, bytes_exchanged=1, **fields
            )
        )
        met = harm[arm_of(run_id, number) == "random"]
        # One more is in service as the window opens, and one comes after it.
        at_s = [start_s - 0.1, *(start_s + 7.0 * i / met for i in range(met)), start_s + 8.5]
        asked += [
            events.Request(
                run_id=run_id, at_us=us(at + 0.5), sidecar="s", id=f"{number}-{i}",
                arrival_us=us(at), status="ok", e2e_s=0.5,
            )
            for i, at in enumerate(at_s)
        ]  # fmt: skip
    for topic, told in {"decisions": decided, "merges": done, "requests": asked}.items():
        log.append(told, topic=f"{run_id}.{topic}", partition=0, offset=0)
    log.commit()
    if over:
        log.finish_run(run_id, "complete", us(GAP_S * merges))


def made(folder, name="live", **given):
    path = folder / f"{name}.duckdb"
    with RunLog(path) as log:
        write(log, name, **given)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory, empty_log):
    """The log of a run of 60 merges with a gain."""
    folder = tmp_path_factory.mktemp("good")
    shutil.copy(empty_log, folder / "live.duckdb")
    return made(folder)


def test_gain_that_the_coins_show_may_be_claimed(command, good, tmp_path):
    out = tmp_path / "out.json"
    told = command(good, "--json", out).out
    assert told.startswith("slack: placement gain of ")
    assert "may be claimed, shown after" in told
    document = json.loads(out.read_text())
    arms = [arm_of("live", n) for n in range(60)]
    assert document["arms"]["policy"] == {
        "merges": arms.count("policy"), "mean_harm": 4.0, "capped": 0,
    }  # fmt: skip
    assert document["arms"]["random"]["mean_harm"] == 12.0
    assert document["verdict"] == "placement gain"
    assert document["gain"] == pytest.approx(1 - 4 / 12, abs=0.02)
    assert 0 < document["gain_low"] < 1 - 4 / 12
    assert len(document["e_gain"]) == document["merges"] == 60
    assert document["shown_after"] < 60


@pytest.mark.slow
@pytest.mark.parametrize(("count", "policy"), [("in_service", 5.0), ("violations", 0.0)])
def test_what_is_counted_is_what_was_asked_for(command, good, tmp_path, count, policy):
    out = tmp_path / "out.json"
    command(good, "--count", count, "--json", out)
    assert json.loads(out.read_text())["arms"]["policy"]["mean_harm"] == policy


@pytest.mark.slow
def test_policy_that_harms_more_is_told_as_a_loss_and_one_without_an_effect_not_at_all(
    command, tmp_path
):
    worse = command(made(tmp_path, "worse", harm=(12, 4), merges=80)).out
    assert "it does MORE harm than random moments" in worse
    alike = command(made(tmp_path, "alike", harm=(8, 8))).out
    assert "no claim yet" in alike


@pytest.mark.slow
def test_growing_log_is_judged_up_to_what_is_settled(command, tmp_path):
    path, out = tmp_path / "live.duckdb", tmp_path / "out.json"
    with RunLog(path) as log:
        write(log, over=False, merges=30)
        told = command(path, "--json", out).out
    assert "2 intervals are open" in told
    assert json.loads(out.read_text())["merges"] == 29


@pytest.mark.slow
def test_runs_of_several_fleets_count_together(command, tmp_path):
    out = tmp_path / "out.json"
    one, two = (made(tmp_path, name, merges=20) for name in ("one", "two"))
    command(one, two, "--json", out)
    document = json.loads(out.read_text())
    assert [run["merges"] for run in document["runs"]] == [20, 20]
    assert document["merges"] == 40


@pytest.mark.slow
def test_intervals_without_a_window_are_left_out_and_told_by_arm(command, tmp_path):
    told = command(made(tmp_path, lost=(3, 4, 5), merges=20)).out
    lost = [arm_of("live", n) for n in (3, 4, 5)]
    assert f"{lost.count('policy')} intervals of the policy and {lost.count('random')} " in told


@pytest.mark.slow
def test_few_merges_claim_nothing(command, tmp_path):
    told = command(made(tmp_path, merges=5)).out
    assert told.startswith("slack: no claim: 5 settled merges are too few")


@pytest.mark.slow
def test_coins_that_are_not_the_seeds_are_no_evidence(refused, tmp_path):
    assert "interval 7 of run live was given to" in refused(made(tmp_path, wrong=7, merges=10))


def test_logs_and_options_that_cannot_be_judged_say_why(refused, good, filled):
    assert "no run of a switchback" in refused(filled)
    assert "must be arriving, in_service or violations" in refused(good, "--count", "all")
    assert "no run log nothing" in refused("nothing")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("[]", "no run of a switchback is in this log"),
        ('{"stream": null}', "no run of a switchback is in this log"),
        ('{"stream": {"controller": [1]}}', "no run of a switchback is in this log"),
        (
            '{"stream": {"controller": {"switchback": "matched", "switchback_share": 0.5}}}',
            "missing required field `seed`; this log was changed",
        ),
    ],
)
def test_settings_that_tell_no_coins_are_no_evidence(refused, log_path, settings, said):
    with RunLog(log_path) as log:
        log.start_run(Run(run_id="r", policy="slack", seed=5, created_us=us(0), settings={}))
    with duckdb.connect(str(log_path)) as log:
        log.execute("UPDATE runs SET settings = ?", [settings])
    assert said in refused(log_path)


@pytest.mark.slow
def test_runs_that_cannot_be_judged_together_say_why(refused, good, tmp_path):
    other = made(tmp_path, "other", merges=3, switchback="uniform")
    assert "slack (matched), slack (uniform)" in refused(good, other)
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(good.read_bytes())
    assert "run live is there twice" in refused(good, copy)

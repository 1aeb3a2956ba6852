"""`slackwater report`: a page from run logs, of ended runs and of one that is being written."""

import shutil
import sys
from pathlib import Path

import pytest
from handmade import LEARNERS, report, us

from slackwater import events
from streams.runlog import Run, RunLog

sys.path.insert(0, str(Path(__file__).parents[1] / "calibration"))

from report_page import SECTIONS, Page, run_command

CORRIDOR = {"min_gap_steps": 100, "max_gap_steps": 300}
SETTINGS = {"slo_s": 1.0, "stream": {"controller": CORRIDOR}}


@pytest.fixture
def command(capsys):
    """Run the command; what it wrote to stdout and stderr."""

    def run(*args, code=0):
        run_command("report", *args, "--draws", 300, code=code)
        return capsys.readouterr()

    return run


@pytest.fixture
def refused(command):
    """The one line of an error, with exit code 2."""

    def run(*args):
        told = command(*args, code=2)
        assert told.out == ""
        assert told.err.count("\n") == 1
        return told.err

    return run


def write(
    log,
    run_id="live",
    policy="slack",
    merges=(20.0, 40.0, 65.0),
    trace="tiny",
    seed=1,
    settings=SETTINGS,
):
    """100 s of a request each half second, two learners with steps of 0.1 s, windows of 4 s."""
    log.start_run(
        Run(
            run_id=run_id,
            policy=policy,
            seed=seed,
            trace=trace,
            created_us=us(0),
            settings=settings,
        )
    )
    requests = [
        events.Request(
            run_id=run_id,
            at_us=us(0.5 * i + 0.25),
            sidecar=f"sidecar-{i % 2}",
            id=str(i),
            arrival_us=us(0.5 * i),
            status="ok",
            e2e_s=0.25,
            prompt_tokens=10,
            output_tokens=5,
        )
        for i in range(2, 200)
    ]
    log.append(requests, topic="t.requests", partition=0, offset=0)
    steps = [
        events.Step(
            run_id=run_id,
            at_us=us(0.1 * i),
            learner=learner,
            step=i,
            step_time_s=0.1,
            steps_since_merge=i,
        )
        for learner in LEARNERS
        for i in (1, *range(50, 1000, 50), 999)
    ]
    log.append(steps, topic="t.learners", partition=0, offset=0)
    told = []
    for number, at in enumerate(merges):
        for learner in LEARNERS:
            more = {"reason": "h_max"} if number == 2 else {}
            told.append(report(events.Started, at, learner, f"m{number}", 1, **more))
            told.append(
                report(
                    events.Finished,
                    at + 4,
                    learner,
                    f"m{number}",
                    1,
                    seconds=4.0,
                    bytes_exchanged=1,
                )
            )
    told = [type(e)(**{**{f: getattr(e, f) for f in e.__struct_fields__}, "run_id": run_id})
            for e in told]  # fmt: skip
    log.append(told, topic="t.merges", partition=0, offset=0)
    log.commit()


@pytest.fixture(scope="module")
def logs(tmp_path_factory, empty_log):
    """The log of a run with merges, that of its control, and that of a run on another load."""
    folder = tmp_path_factory.mktemp("logs") / "runs"
    folder.mkdir()
    made = {"live": {}, "control": {"policy": "none", "merges": ()}, "other": {"seed": 2}}
    for name, changed in made.items():
        with RunLog(shutil.copy(empty_log, folder / f"{name}.duckdb")) as log:
            write(log, run_id=name, **changed)
            log.finish_run(name, "complete", us(100))
    return folder


def test_one_run_tells_its_rank_and_what_is_missing_for_a_claim(logs, command):
    told = command(logs / "live.duckdb")
    assert told.out.startswith("slack: load not matched. No gain from the choice of moment")
    assert told.out.endswith(f"report: {logs / 'live.html'}\n")
    page = Page.read(logs / "live.html")
    assert "It rests on 1 run of a live system, from its log" in page.text
    assert "no run without merges on its load (tiny, seed 1) is among the logs" in page.text
    assert "measured latencies hold the merges' own harm" in page.text
    assert "random schedules that did better" in page.texts("dt")
    assert "enough runs: 1 runs cannot reach" in page.text
    assert page.tags("script") == []
    headings = page.texts("h2")
    assert [h for h in headings if h.startswith(SECTIONS)][-1].startswith(SECTIONS[-1])
    assert "What was measured in the live runs" in headings


def test_windows_and_those_forced_are_where_the_log_says(logs, command):
    page_file = logs / "w.html"
    command(logs / "live.duckdb", "-o", page_file)
    page = Page.read(page_file)
    assert "slack: 3 windows, 1 of them forced at H_max" in page.labels()
    # The run begins one window of 4 s before the learners' first step.
    assert ["slack", "24", "0:24.0, 0:44.0, [1:09.0]"] in page.rows()
    assert "100 to 300 inner steps are 14.0 to 34.0 s" in page.text


def test_the_objective_inside_and_outside_windows_is_shown(logs, command):
    page_file = logs / "s.html"
    command(logs / "live.duckdb", "-o", page_file)
    rows = [row for row in Page.read(page_file).rows() if row[:2] == ["live", "slack"]]
    assert ["live", "slack", "inside", "24", "0", "0.00 %", "0.25", "0.25"] in rows
    assert ["live", "slack", "outside", "174", "0", "0.00 %", "0.25", "0.25"] in rows


def test_a_run_without_merges_on_the_load_is_the_control(logs, command):
    page_file = logs / "c.html"
    asked = (logs / "live.duckdb", logs / "control.duckdb", "-o", page_file)
    told = command(*asked)
    assert told.out.startswith("slack: no claim. ")
    page = Page.read(page_file)
    (load,) = [row for row in page.rows() if row[0].endswith("load match")]
    assert load[1:3] == ["✓ passed", "all arms match 'no merges'"]


def test_runs_are_found_by_their_id_and_the_newest_by_default(logs, command, monkeypatch):
    root = logs.parent
    monkeypatch.chdir(root)
    asked = ("other", "live", "--claim", "slack", "-o", root / "two.html")
    command(*asked)
    assert (
        "It rests on 2 runs of a live system, from their logs" in Page.read(root / "two.html").text
    )
    told = command("-o", root / "newest.html")
    assert "runs/other.duckdb, the newest run log" in told.err


def test_it_works_while_a_run_is_writing(tmp_path, path, command):
    with RunLog(path) as log:
        write(log)
        command(path)
    page = Page.read(tmp_path / "run.html")
    assert "live: running, so what was in service at its end is not in it" in page.text


def test_a_merge_after_the_traffic_is_no_merit(tmp_path, path, command):
    with RunLog(path) as log:
        write(log, merges=(20.0, 40.0, 65.0, 99.9))
    command(path)
    page = Page.read(tmp_path / "run.html")
    assert "slack: 3 windows, 1 of them forced at H_max" in page.labels()
    assert "live: 1 merges began after the traffic had ended" in page.text


def test_a_run_named_like_markup_is_text(tmp_path, path, command):
    name = "<script>'alert(1)'"
    with RunLog(path) as log:
        write(log, run_id=name, trace="<b>bold")
    command(path)
    page = Page.read(tmp_path / "run.html")
    assert page.tags("script") == page.tags("b") == []
    assert name in page.text


def test_mistakes_end_in_one_line(logs, empty_log, tmp_path, refused):
    live = logs / "live.duckdb"
    assert "no run log nowhere" in refused("nowhere")
    assert "is given twice" in refused(live, live)
    assert "no merge has begun during the traffic of control" in refused(logs / "control.duckdb")
    assert "--claim fixed_h is not a policy of these runs: slack" in refused(
        live, "--claim", "fixed_h"
    )
    assert "--count is all" in refused(live, "--count", "all")
    assert "give a file in a folder that exists" in refused(live, "-o", "/no/such/folder/x.html")
    for name, settings, said in [
        ("bare", {}, "settings name no corridor"),
        ("scored", {"evaluation": {}}, "a run of an evaluation, not a live one"),
    ]:
        with RunLog(shutil.copy(empty_log, tmp_path / f"{name}.duckdb")) as log:
            write(log, settings=settings)
        assert said in refused(tmp_path / f"{name}.duckdb")

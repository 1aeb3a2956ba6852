"""The report: one page that opens offline, says the answer first and escapes every name."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_page import SECTIONS, Page, run_command

from calibration.report import envelope_picture, render, traffic_picture
from calibration.report.axis import Axis, around

SHORT = ("--segment", 120, "--draws", 200)
Run = Callable[..., str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, dict[str, Any]]:
    """The page and the document of one small evaluation of a claim."""
    folder = tmp_path_factory.mktemp("report")
    page, document = folder / "r.html", folder / "r.json"
    asked = ("--regime", "bursty", "--runs", 2, "--policies", "fixed_h,slack,random_deferral")
    run_command(
        "evaluate", *asked, *SHORT, "--claim", "slack", "--report", page, "--json", document
    )
    return Page.read(page), json.loads(document.read_text())


def test_page_asks_nothing_of_a_network_and_runs_no_script(made: Any) -> None:
    page, _ = made
    assert page.tags("script") == page.tags("link") == page.tags("img") == page.tags("iframe") == []
    assert "default-src 'none'" in page.html
    assert not re.search(r"(https?:)?//[a-z]|url\(|@import", page.html, re.IGNORECASE)
    assert not [a for a in page.attributes if a[0] in {"src", "srcset", "href", "onload"}]


def test_sections_come_in_their_order_after_the_answer(made: Any) -> None:
    page, _ = made
    found = [heading for heading in page.texts("h2") if heading]
    assert [next(s for s in SECTIONS if h.startswith(s)) for h in found] == list(SECTIONS)
    assert page.text.index("slack: ") < page.text.index(SECTIONS[0])


def test_answer_says_the_figures_of_the_document(made: Any) -> None:
    page, document = made
    verdict = document["verdicts"][0]
    (sentence,) = page.texts("p", "sentence")
    assert sentence.startswith(f"slack: {verdict['verdict']}. No gain from the choice of moment")
    assert "2 runs cannot reach p = 0.05" in sentence
    assert f"{abs(verdict['gain_pp']):.2f} percentage points" in sentence
    runs = [run for run in document["runs"] if run["policy"] == "slack"]
    spared = np.mean([run["random_mean"] - run["cost"] for run in runs]) * 600 / 120 / 2
    assert re.search(rf"\({abs(spared):.{0 if abs(spared) >= 10 else 1}f} requests", sentence)
    assert "2 runs of generated traffic, independent; harm is counted by the serving" in page.text
    assert "named beforehand, so its p is not corrected" in page.text


def test_each_step_of_each_policy_is_told_with_result_and_reason(made: Any) -> None:
    page, document = made
    told = page.rows()
    words = {True: "✓ passed", False: "✗ failed", None: "– not taken"}  # noqa: RUF001
    for verdict in document["verdicts"]:
        for number, step in enumerate(verdict["steps"], 1):
            wanted = [f"{number}. {step['name']}", words[step["passed"]], step["reason"]]
            assert wanted in [row[:3] for row in told]


def test_every_policy_has_a_lane_an_envelope_and_a_gain(made: Any) -> None:
    page, document = made
    labels = page.labels()
    for verdict in document["verdicts"]:
        policy, gain = verdict["policy"], verdict["gain_pp"]
        assert [x for x in labels if x.startswith(f"{policy}: gain {gain:.2f} pp")]
        assert [x for x in labels if x.startswith(f"{policy} ") and "matched random" in x]
        for run in document["runs"]:
            if run["policy"] == policy:
                forced = sum(reason.startswith("h_max") for reason in run["reasons"])
                lane = f"{policy}: {run['budget']} windows, {forced} of them forced at H_max"
                assert lane in labels


def test_every_drawing_has_words_or_is_hidden_from_those_who_hear_the_page(made: Any) -> None:
    page, _ = made
    outer = [a for tag, a, depth in page.starts if tag == "svg" and depth == 0]
    assert outer
    assert all("aria-label" in a or a.get("aria-hidden") == "true" for a in outer)


def test_all_that_repeats_it_is_there(made: Any) -> None:
    page, document = made
    assert "slackwater evaluate --regime bursty --runs 2" in page.text
    for load in document["loads"]:
        assert str(load["seed"]) in page.text
    assert document["versions"]["numpy"] in page.text
    assert '"max_gap_s": 72.0' in page.text
    assert [row for row in page.rows() if row[:2] == [document["runs"][0]["run"], "slack"]]


def test_tier_that_is_reached_is_marked_and_the_next_one_explained(made: Any) -> None:
    page, document = made
    (here,) = [row for row in page.rows() if row[-1] == "← the evidence is here"]
    assert here[0] == document["verdicts"][0]["verdict"] == "no claim"
    assert "enough runs: 2 runs cannot reach" in page.text


def test_without_a_claim_the_best_policy_is_told_of_and_the_correction_said(made: Any) -> None:
    _, document = made
    fields = shown(document, claim=None)
    best = max(document["verdicts"], key=lambda verdict: verdict["gain_pp"])
    best["policies"] = 3
    page = Page(render(fields))
    assert page.texts("p", "sentence")[0].startswith(best["policy"])
    assert "It is the best of 3 policies, and p is corrected for all of them." in page.text


def test_gain_is_said_as_plainly_as_none_and_asks_for_a_measured_sidecar(made: Any) -> None:
    _, document = made
    fields = shown(document, claim="slack")
    fields["verdicts"][0].update(
        verdict="placement gain", tier="serving model", gain_pp=4.0, interval=[3.0, 5.0], n=8
    )
    page = Page(render(fields))
    (sentence,) = page.texts("p", "sentence")
    assert sentence.startswith(
        "slack: placement gain. Its merges harm 4.00 percentage points fewer requests"
    )
    assert "effect transfer: measure on the real sidecar" in page.text
    assert page.tags("section", "answer gained")


def test_a_trace_named_like_markup_is_text(tmp_path: Path) -> None:
    name = "<script>alert(1)<"
    trace, out = tmp_path / f"{name}.jsonl", tmp_path / "r.html"
    rows = [
        {"timestamp": 250 * i, "input_length": 9, "output_length": 9, "hash_ids": []}
        for i in range(1100)
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_command("evaluate", trace, *SHORT, "--policies", "fixed_h", "--report", out)
    page = Page.read(out)
    assert page.tags("script") == []
    assert f"{name}.jsonl#0" in page.text
    assert "2 runs that are segments of one trace, not independent runs" in page.text


def test_each_load_has_a_verdict_of_its_own_on_one_page(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    asked = ("--regime", "constant", "--regime", "bursty", "--runs", 1, "--policies", "fixed_h")
    run_command("evaluate", *asked, *SHORT, "--report", out)
    sentences = Page.read(out).texts("p", "sentence")
    assert [sentence.partition(":")[0] for sentence in sentences] == ["constant", "bursty"]


def test_a_folder_that_is_not_there_is_named_before_any_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("evaluate", "--regime", "constant", "--report", "/no/such/folder/r.html")
    run_command(*asked, code=2)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "cannot write --report /no/such/folder/r.html: give a file" in told


def test_five_hours_of_twelve_policies_stay_a_small_page(made: Any) -> None:
    _, document = made
    page = render(long_evaluation(document, policies=12, runs=30))
    assert len(page.encode()) < 3_000_000
    assert len(Page(page).labels()) > 12 * 24


def test_pictures_count_every_draw_and_every_request() -> None:
    rng = np.random.default_rng(0)
    picture = envelope_picture(
        "x", "slack", [rng.normal(5, 1, 300), rng.normal(7, 1, 300)], [4.2, 5.8]
    )
    assert sum(picture["counts"]) == picture["draws"] == 300
    assert abs(picture["mean_pp"] - 6) < 0.2
    # 1.4 standard deviations of the mean below it, and 0.8 and 1.2 of each run's: 8 %, not 16.
    assert 5 < picture["rank"] < 11
    assert envelope_picture("x", "p", [np.arange(4.0), np.arange(4.0)], [1, 1])["rank"] == 37.5
    assert picture["least_pp"] < picture["p05_pp"] < picture["median_pp"] < picture["p95_pp"]
    counts = rng.poisson(2.0, 36_000)
    traffic = traffic_picture("x", "run", counts, 0.5, 2)
    assert (traffic["step_s"], traffic["seconds"]) == (9.0, 18_000.0)
    assert sum(traffic["counts"]) == counts.sum()


def test_axis_ticks_are_round_and_lie_within() -> None:
    axis = around([0.0, 9.7, None])
    assert [tick.text for tick in axis.ticks()] == ["0", "2", "4", "6", "8", "10"]
    assert [tick.text for tick in Axis(0.0, 0.31).ticks()] == ["0.0", "0.1", "0.2", "0.3"]
    assert [tick.text for tick in Axis(0.0, 600.0).ticks(10, 60)][-1] == "10"
    assert around([3.0, 3.0]).at(3.0) == "50%"


def shown(document: dict[str, Any], claim: str | None) -> dict[str, Any]:
    """The document with pictures, as if another claim had been named."""
    counts = np.ones(240, np.int64)
    names = dict.fromkeys(run["run"] for run in document["runs"])
    envelopes = [
        envelope_picture("bursty", verdict["policy"], [np.arange(9.0)], [3.0])
        for verdict in document["verdicts"]
    ]
    return {
        **document,
        "configuration": {**document["configuration"], "claim": claim},
        "command": "slackwater evaluate",
        "traffic": [traffic_picture("bursty", name, counts, 0.5, 2) for name in names],
        "envelopes": envelopes,
    }


def long_evaluation(document: dict[str, Any], policies: int, runs: int) -> dict[str, Any]:
    """A document of many policies and runs of 10 minutes, from one of few and short ones."""
    base = shown(document, claim=None)
    run, verdict = document["runs"][0], document["verdicts"][0]
    starts, names = [20.0 + 20 * i for i in range(28)], [f"policy-{i}" for i in range(policies)]
    base["runs"] = [
        {**run, "run": f"trace#{i}", "policy": name, "starts_s": starts, "reasons": ["x"] * 28}
        for i in range(runs)
        for name in names
    ]
    base["verdicts"] = [{**verdict, "policy": name} for name in names]
    counts = np.random.default_rng(0).poisson(9, 1200)
    base["traffic"] = [traffic_picture("bursty", f"trace#{i}", counts, 0.5, 2) for i in range(runs)]
    base["envelopes"] = [
        envelope_picture("bursty", name, [np.arange(500.0)], [3.0]) for name in names
    ]
    return base

"""Figures of `evaluate`: options before the profile before the defaults, and all of it recorded."""

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calibration.profile import ClosedLoopFigures, Effect, OverlapFigures, Profile, encode_profile
from calibration.serving import ClosedLoop, Overlap, Queue
from slackwater.cli.evaluate_document import figures_of
from slackwater.cli.evaluate_figures import Figures, figures
from slackwater.cli.evaluate_ground import Asked
from slackwater.cli.evaluate_job import Evaluation, Job
from slackwater.errors import InputError

EFFECT = Effect(merges=40, p95_ratio=2.3, p95_ratio_low=2.1, p95_ratio_high=2.4)
MEASURED = Profile(
    name="lab",
    slo_s=0.3,
    window_s=4.0,
    overlap=OverlapFigures(counting="arriving", slowdown=2.3),
    closed_loop=ClosedLoopFigures(batch_s=0.2, slowed_batch_s=0.5),
    effect=EFFECT,
)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "lab.json"
    path.write_bytes(encode_profile(MEASURED))
    return path


def made(serving: str = "overlap", **given: Any) -> Figures:
    asked = {"profile": None, "assignments": (), "slo_s": None, "window_s": None, **given}
    return figures(serving, **asked)


def origins(found: Figures) -> dict[str, str]:
    return {figure.name: figure.origin for figure in found.used}


def test_without_a_profile_the_defaults_are_used_and_called_so() -> None:
    found = made()
    assert (found.model, found.slo_s, found.window_s) == (Overlap(), 1.0, 8.0)
    assert (found.effect, found.profile) == (None, None)
    assert set(origins(found).values()) == {"default"}
    assert made("queue").model == Queue(slots=4)
    assert origins(made("queue"))["slots"] == "a replayed sidecar's"


def test_profile_gives_figures_and_options_win_over_it(profile: Path) -> None:
    found = made(profile=profile, assignments=("slowdown=1.5",), slo_s=0.5)
    assert found.model == Overlap("arriving", slowdown=1.5)
    assert (found.slo_s, found.window_s, found.effect) == (0.5, 4.0, EFFECT)
    assert origins(found) == {
        "counting": "profile lab",
        "slowdown": "--model",
        "slo_s": "--slo",
        "window_s": "profile lab",
    }
    assert found.line() == (
        "overlap model: counting arriving, window_s 4 (profile lab); slowdown 1.5 (--model); "
        "slo_s 0.5 (--slo)"
    )
    assert made("closed_loop", profile=profile).model == ClosedLoop(0.2, 0.5)


def test_scatter_of_a_profile_is_used_and_told_by_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "lab.json"
    batches = ClosedLoopFigures(
        batch_s=0.2, slowed_batch_s=0.5, scatter=(0.8, 0.9, 1.3), slowed_scatter=(0.5, 1.0, 1.5)
    )
    path.write_bytes(encode_profile(msgspec.structs.replace(MEASURED, closed_loop=batches)))
    found = made("closed_loop", profile=path)
    assert found.model == ClosedLoop(
        0.2, 0.5, scatter=batches.scatter, slowed_scatter=batches.slowed_scatter
    )
    assert "scatter 0.8 to 1.3 in 3 parts, slowed_scatter 0.5 to 1.5 in 3 parts" in found.line()
    with pytest.raises(InputError, match=r"slowed_scatter: 3 figures from 0\.5 to 1\.5; they"):
        made("closed_loop", profile=path, assignments=("scatter=[1.0]",))


def test_measured_window_is_laid_on_whole_cells_and_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "lab.json"
    for measured_s, used_s in ((1.36, 1.5), (0.1, 0.5), (4.0, 4.0)):
        path.write_bytes(encode_profile(msgspec.structs.replace(MEASURED, window_s=measured_s)))
        found = made(profile=path)
        assert found.window_s == used_s
        assert (f"measured {measured_s:g} s" in found.line()) == (measured_s != used_s)


def test_figures_that_a_profile_leaves_out_are_no_figures_of_it(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    path.write_text('{"name": "part", "queue": {"service_s": 0.2}}')
    found = made("queue", profile=path)
    assert found.model == Queue(slots=4, service_s=0.2)
    assert origins(found)["service_s"] == "profile part"
    assert origins(found)["slo_s"] == "default"


def test_document_holds_the_profiles_name_hash_effect_and_every_figure(profile: Path) -> None:
    written = figures_of(made(profile=profile, window_s=6.0))
    assert written["profile"] == {
        "name": "lab",
        "sha256": hashlib.sha256(profile.read_bytes()).hexdigest(),
        "effect": written["profile"]["effect"],
    }
    assert written["profile"]["effect"]["p95_ratio"] == 2.3
    assert {"name": "window_s", "value": 6.0, "origin": "--window"} in written["figures"]
    assert len(written["figures"]) == 4
    assert figures_of(made())["profile"] is None


def test_profiles_window_and_slo_reach_the_protocol_and_its_effect_the_gate(profile: Path) -> None:
    job = Job(
        traces=(), regimes=("constant",), policies=("fixed_h",), claim=None, draws=50,
        least_gain_percent=0.0,
        min_gap_s=18.0, max_gap_s=72.0, segment_s=120.0, runs=1, serving="overlap", seed=0,
        profile=profile,
    )  # fmt: skip
    assert isinstance(job, Asked)
    evaluation = Evaluation(job)
    assert (evaluation.protocol.window_s, evaluation.protocol.slo_s) == (4.0, 0.3)
    (group,) = evaluation.groups(lambda: None)
    assert group.verdicts[0].steps[0].passed is True


def effect(**figures: float) -> str:
    """A profile's text with an effect that these figures spoil."""
    good = {"merges": 40, "p95_ratio": 1.7, "p95_ratio_low": 1.5, "p95_ratio_high": 1.9}
    return json.dumps({"effect": {**good, **figures}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read --profile .*: No such file"),
        ("", "not a calibration profile of version 1"),
        ("[1]", "not a calibration profile of version 1"),
        ('{"schema_version": 2, "colour": 1}', "a profile of schema_version 2; .* reads 1"),
        ('{"colour": 1}', "colour"),
        ('{"queue": {"slots": "four"}}', "queue.slots"),
        ('{"slo_s": 0}', "slo_s is 0"),
        (effect(odds_ratio=0.5, odds_ratio_low=1.5, odds_ratio_high=0.1), "odds_ratio is 0.5"),
        (effect(odds_ratio=1.5, odds_ratio_low=0, odds_ratio_high=2), "all three above 0"),
        (effect(odds_ratio_low=1.5), "odds_ratio, .*_low and .*_high go together"),
        (effect(odds_ratio=2, odds_ratio_high=3), "go together; give all three or none"),
        (effect(p95_ratio_low=2), "p95_ratio is 1.7, p95_ratio_low 2, p95_ratio_high 1.9"),
        (effect(merges=-1), "effect.merges is -1"),
    ],
)
def test_profiles_that_cannot_be_used_say_why(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "profile.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=said):
        made(profile=path)


def test_folder_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read --profile .*: Is a directory"):
        made(profile=tmp_path)


@pytest.mark.parametrize(
    ("serving", "assignment", "said"),
    [
        ("overlap", "slots=4", "a figure of the overlap model: counting, slowdown"),
        ("overlap", "slowdown", "give NAME=VALUE"),
        ("overlap", "slowdown=fast", r"--model: Expected `float`, got `str` - at `\$.slowdown`"),
        ("overlap", "slowdown=0.5", "--model, .*: overlap.slowdown is 0.5; it must be 1 or more"),
        ("queue", "slots=0", "serving model queue: "),
        ("queue", "slots=1000000000", "a queue needs 1 to 1,000,000 slots"),
        ("queue", "service_s=1e300", r"service_s 1e\+300, .* up to 1,000,000 s"),
        ("queue", "slowdown=1e9", "a slowdown of 1 to 1,000,000"),
        ("closed_loop", "slowed_batch_s=1e9", "up to 1,000,000 s"),
        ("arrivals", "counting=in_service", "--serving arrivals counts what arrives"),
    ],
)
def test_figures_that_the_model_cannot_use_say_why(
    serving: str, assignment: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        made(serving, assignments=(assignment,))


def test_figure_may_be_any_json_value() -> None:
    burst = {"quiet": 4, "busy": 12, "period_s": 120, "burst_s": 30}
    found = made("closed_loop", assignments=(f"schedule={json.dumps(burst)}", "batch_s=0.5"))
    assert isinstance(found.model, ClosedLoop)
    assert found.model.schedule is not None
    assert (found.model.batch_s, found.model.schedule.busy) == (0.5, 12)

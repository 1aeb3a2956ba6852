"""`slackwater trainer` as real processes with a real broker, and its refusals."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from learners_in_threads import PATIENCE_S, equal, until

from slackwater.broker import free_port
from slackwater.cli.app import app
from slackwater.clock import RunClock
from slackwater.errors import InputError, SlackwaterError
from slackwater.events import Accepted, Finished, Heartbeat, Skipped, Started, Step
from slackwater.settings import RunSettings
from trainer.checkpoint import read_checkpoint
from trainer.join import Place
from trainer.learner import LearnerSummary
from trainer.run import run_learner
from trainer.settings import LearnerSettings

TINY = ["--parameters", "20000", "--step-s", "0.004"]
BOTH = ["learner-0", "learner-1"]
NOWHERE = RunSettings(bootstrap="127.0.0.1:9")


def of(kind: type, said: list[Any], merge_id: str | None = None) -> list[Any]:
    found = [event for event in said if isinstance(event, kind)]
    return [e for e in found if merge_id is None or e.merge_id == merge_id]


@pytest.mark.kafka
def test_learners_merge_on_command_and_by_themselves_at_h_max(
    launch: Callable[..., Any], settings: RunSettings, controller: Any, tmp_path: Path
) -> None:
    gaps = ["--min-gap-steps", "20", "--max-gap-steps", "400"]
    learners = launch(settings, *TINY, *gaps, "--checkpoint-dir", str(tmp_path))
    said = controller.hears(
        lambda said: {e.learner for e in of(Step, said) if e.step > 20} == set(BOTH)
    )
    at_step = max(e.step for e in of(Step, said)) + 100
    controller.merge("m1", at_step, BOTH)
    said = controller.hears(lambda said: len(of(Finished, said, "m1")) == 2)
    for kind in (Accepted, Started, Finished):
        assert [e.step for e in of(kind, said, "m1")] == [at_step, at_step]
    assert len({e.digest for e in of(Finished, said, "m1")}) == 1
    for done in of(Finished, said, "m1"):
        assert (done.reason, done.bytes_exchanged) == ("score", 4 * done.parameters)

    # From here on the controller is silent.
    forced = f"hmax-{at_step + 400}"
    said = controller.hears(lambda said: len(of(Finished, said, forced)) == 2)
    assert {e.reason for e in of(Finished, said, forced)} == {"h_max"}
    # One that is far behind comes when the other calls, at a step of its own.
    last = {e.learner: e.step for e in of(Finished, said, forced)}
    assert max(last.values()) == at_step + 400
    for learner in learners:
        learner.terminate()
    summaries = [learner.summary() for learner in learners]
    finals = [e for e in of(Heartbeat, controller.hears(lambda s: has_left(s, 2))) if e.final]
    assert {e.learner for e in finals} == set(BOTH)
    for summary in summaries:
        assert summary["merges"]["commanded"] == 1
        assert summary["merges"]["forced"] == 1
        assert summary["merges"]["bytes_exchanged"] == 2 * 4 * summary["parameters"]
        assert summary["dropped_events"] == 0
        assert summary["attach_errors"] == 0
    assert summaries[0]["digest"] == summaries[1]["digest"]
    for name in BOTH:
        found = read_checkpoint(tmp_path / f"{name}.safetensors")
        assert found["step"] == last[name]
    for name in BOTH:
        times = [e.at_us for e in of(Step, controller.said) if e.learner == name]
        assert times == sorted(times)


def has_left(said: list[Any], count: int) -> bool:
    return len([e for e in of(Heartbeat, said) if e.final]) == count


@pytest.mark.kafka
@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_peer_stops_nobody(
    launch: Callable[..., Any], settings: RunSettings, controller: Any, victim: int
) -> None:
    gaps = ["--min-gap-steps", "10", "--max-gap-steps", "50", "--peer-timeout", "2"]
    learners = launch(settings, *TINY, *gaps)
    controller.hears(lambda said: len(of(Finished, said)) >= 2)
    learners[victim].process.kill()
    survivor = learners[1 - victim]
    said = controller.hears(lambda said: len(skips_of(said, survivor.name)) >= 2)
    reasons = {e.reason.partition(":")[0] for e in skips_of(said, survivor.name)}
    assert reasons <= {"absent", "silent", "peer_lost", "store_lost", "quorum"}
    last = max(e.step for e in of(Step, said) if e.learner == survivor.name)
    controller.hears(
        lambda said: any(e.learner == survivor.name and e.step > last + 50 for e in of(Step, said))
    )
    survivor.terminate()
    summary = survivor.summary()
    assert sum(summary["skipped"].values()) >= 2
    assert summary["dropped_events"] == 0


def skips_of(said: list[Any], learner: str) -> list[Any]:
    return [e for e in of(Skipped, said) if e.learner == learner]


def alone(tmp_path: Path, **other: Any) -> LearnerSummary:
    fields: dict[str, Any] = {
        "learner": "learner-0",
        "participants": ["learner-0"],
        "parameters": 20_000,
        "step_s": 0.0,
        "min_gap_steps": 5,
        "max_gap_steps": 20,
        "max_steps": 50,
        "checkpoint_dir": tmp_path / "checkpoints",
        **other,
    }
    return run_learner(
        LearnerSettings(**fields),
        NOWHERE,
        RunClock.real(),
        Place(),
        stopping=lambda: False,
        ready=(tmp_path / "ready").touch,
    )


def test_without_a_broker_it_trains_merges_at_h_max_and_says_so(tmp_path: Path) -> None:
    summary = alone(tmp_path)
    assert (tmp_path / "ready").exists()
    assert (summary.steps, summary.merges.forced, summary.merges.commanded) == (50, 2, 0)
    assert summary.broker_connected is False
    # 50 steps, started and finished twice, a final heartbeat.
    assert (summary.acked, summary.dropped_events) == (0, 55)
    assert read_checkpoint(tmp_path / "checkpoints" / "learner-0.safetensors")["step"] == 40


def test_resumed_it_is_the_learner_that_never_stopped(tmp_path: Path) -> None:
    through = alone(tmp_path, max_steps=70, checkpoint_dir=tmp_path / "through")
    # The steps after the merge at 40 are lost, and made again.
    alone(tmp_path, max_steps=50)
    again = alone(tmp_path, max_steps=70, resume=True)
    assert (again.steps, again.merges.forced, through.merges.forced) == (70, 1, 3)
    assert again.digest == through.digest
    assert again.held_out_loss == through.held_out_loss
    assert equal(kept(tmp_path / "checkpoints"), kept(tmp_path / "through"))


def kept(folder: Path) -> dict[str, Any]:
    """What the checkpoint holds, but for the generators that the Kafka client draws from too."""
    found = read_checkpoint(folder / "learner-0.safetensors")
    del found["random"]
    return found


@pytest.mark.parametrize("stop", [40, 53])
def test_resumed_between_merges_it_is_the_learner_that_never_stopped(
    tmp_path: Path, stop: int
) -> None:
    through = alone(
        tmp_path, max_steps=70, checkpoint_dir=tmp_path / "through", checkpoint_every_steps=100
    )
    alone(tmp_path, max_steps=stop, checkpoint_every_steps=6)
    assert kept(tmp_path / "checkpoints")["step"] == stop
    again = alone(tmp_path, max_steps=70, checkpoint_every_steps=6, resume=True)
    assert (again.steps, again.merges.forced) == (70, 1)
    assert (again.digest, again.loss) == (through.digest, through.loss)
    first, second = kept(tmp_path / "through"), kept(tmp_path / "checkpoints")
    # 10 steps since the merge at 60: local weights, moments, order of the data and losses.
    assert (first["step"], len(first["stateful"]["losses"]["kept"])) == (70, 50)
    assert len(first["model"]) > 10
    assert equal(first, second)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_command_killed_between_merges_and_resumed_is_the_one_that_never_stopped(
    tmp_path: Path,
) -> None:
    def start(folder: str, *more: str) -> subprocess.Popen[str]:
        gaps = ["--min-gap-steps", "40", "--max-gap-steps", "100", "--max-steps", "250"]
        kept_in = ["--checkpoint-dir", str(tmp_path / folder), "--checkpoint-every-steps", "17"]
        command = [sys.executable, "-m", "slackwater", "trainer", "--learner", "learner-0"]
        given = ["--parameters", "20000", "--step-s", "0.002", "--kafka", "127.0.0.1:9", "--json"]
        return subprocess.Popen(
            [*command, *given, *gaps, *kept_in, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def summary_of(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        return json.loads(out), err

    through, _ = summary_of(start("through"))
    victim = start("killed")
    path = tmp_path / "killed" / "learner-0.safetensors"
    until(lambda: path.exists() and read_checkpoint(path)["step"] > 120)
    victim.kill()
    victim.communicate()
    stood = read_checkpoint(path)
    again, said = summary_of(start("killed", "--resume"))
    assert stood["step"] < 250
    assert stood["step"] % 100
    assert f"goes on from step {stood['step']}, after {stood['epoch']} merges" in said
    for name in ("steps", "digest", "loss", "held_out_loss"):
        assert again[name] == through[name]
    assert equal(kept(tmp_path / "killed"), kept(tmp_path / "through"))


def test_there_is_nothing_to_resume_at_first_and_what_does_not_fit_is_said(tmp_path: Path) -> None:
    assert alone(tmp_path, max_steps=25, resume=True).merges.forced == 1
    with pytest.raises(InputError, match="this model's has"):
        alone(tmp_path, parameters=30_000, resume=True)
    with pytest.raises(InputError, match="--resume needs the --checkpoint-dir"):
        alone(tmp_path, checkpoint_dir=None, resume=True)
    with pytest.raises(InputError, match="--checkpoint-every-steps needs a --checkpoint-dir"):
        alone(tmp_path, checkpoint_dir=None, checkpoint_every_steps=5)


def test_the_same_seed_gives_the_same_digest_and_another_does_not(tmp_path: Path) -> None:
    digests = [alone(tmp_path, seed=seed, max_steps=25).digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no Kafka broker is named"),
        (["--kafka", "nonsense"], "'nonsense' is not a broker address"),
        (["--max-steps", "0"], "--max-steps is 0; it must be above 0"),
        (["--checkpoint-every-steps", "0"], "--checkpoint-every-steps is 0; it must be above 0"),
        (["--duration", "-1"], "--duration is -1; it must be above 0"),
        (["--duration", "nan"], "--duration is nan; it must be above 0"),
        (["--step-s", "-0.1"], "--step-s is -0.1; it must be 0 or more"),
        (["--parameters", "12"], "the smallest model has"),
        (["--min-gap-steps", "9", "--max-gap-steps", "8"], "no corridor"),
        (["--text", "/no/such/text"], "cannot read the text /no/such/text"),
        (["--checkpoint-dir", "/proc/x"], "cannot make --checkpoint-dir /proc/x"),
        (["--ready-file", "/no/such/dir/ready"], "cannot create --ready-file"),
        (["--participants", "learner-0,learner-1"], "names 2 learners but WORLD_SIZE is 1"),
        (["--participants", "learner-7"], "RANK 0 is learner-7"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    given = options if options == [] or "--kafka" in options else ["--kafka", "127.0.0.1:9"]
    given = [*given, *options] if options and "--kafka" not in options else given
    with pytest.raises(InputError, match=message) as refused:
        app(["trainer", "--learner", "learner-0", *given], standalone_mode=False)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        ({"WORLD_SIZE": "2"}, "RANK is None"),
        ({"WORLD_SIZE": "2", "RANK": "2", "MASTER_PORT": "2950"}, "RANK must be below"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "0"}, "port from 1 to 65535"),
    ],
)
def test_odd_variables_of_torchrun_are_refused(env: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Place.from_env(env)


def test_a_group_that_does_not_come_together_ends_in_one_line(tmp_path: Path) -> None:
    settings = LearnerSettings(
        learner="learner-0",
        participants=BOTH,
        parameters=20_000,
        join_timeout_s=0.2,
        checkpoint_dir=tmp_path,
    )
    for rank, message in ((0, "learner-1 did not come in time"), (1, "nothing listens at")):
        with pytest.raises(SlackwaterError, match=message):
            run_learner(
                msgspec.structs.replace(settings, learner=BOTH[rank]),
                NOWHERE,
                RunClock.real(),
                Place(rank, 2, ("127.0.0.1", free_port())),
                stopping=lambda: False,
                ready=lambda: None,
            )


def test_told_to_end_while_it_waits_for_the_others_it_ends_well(tmp_path: Path) -> None:
    settings = LearnerSettings(
        learner="learner-0", participants=BOTH, parameters=20_000, checkpoint_dir=tmp_path
    )
    summary = run_learner(
        settings,
        NOWHERE,
        RunClock.real(),
        Place(0, 2, ("127.0.0.1", free_port())),
        stopping=lambda: True,
        ready=lambda: pytest.fail("it was never ready"),
    )
    assert (summary.steps, summary.loss, summary.held_out_loss) == (0, None, None)

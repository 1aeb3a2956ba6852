"""`slackwater calibrate`: blocks, merges and figures, against a real small server over HTTP."""

import asyncio
import contextlib
import dataclasses
import errno
import json
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from openai_server import MODEL, OpenAIServer
from rich.console import Console

from calibration.effect import measure
from calibration.measurement import Ratio
from calibration.profile import decode_profile
from sidecar.experiment.design import Design, fitting
from sidecar.experiment.led import Learners, LedLearners
from sidecar.experiment.merging import CommandMerging, MergeError
from sidecar.experiment.observing import accounts, discarded, observed
from sidecar.experiment.play import Experiment
from sidecar.experiment.record import PlayedBlock, Record, SetUp
from sidecar.held import held
from sidecar.launch import ServerError
from sidecar.load import Anchor, Endpoint, Limits, Outcome
from sidecar.server import Server, changed, check_same
from slackwater.cli import calibrate_job, trial_job
from slackwater.cli.calibrate import calibrate
from slackwater.cli.calibrate_profile import encoded
from slackwater.cli.evaluate_figures import figures
from slackwater.cli.server import ServerOptions, endpoint_of, server_of
from slackwater.errors import InputError, SlackwaterError

ARMS = ("learners", "merges")
MERGE = "sh -c 'sleep 0.04'"


class ServerThread(threading.Thread):
    """A server in a loop of its own, for as long as a test needs it."""

    def __init__(self, **how):
        super().__init__(daemon=True)
        self.server = OpenAIServer(**how)
        self.up, self.loop = threading.Event(), asyncio.new_event_loop()

    def run(self):
        self.loop.run_until_complete(self._serve())

    async def _serve(self):
        self.enough = asyncio.Event()
        async with self.server.serving():
            self.up.set()
            await self.enough.wait()

    def __enter__(self):
        self.start()
        self.up.wait()
        return self.server

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.enough.set)
        self.join()


@pytest.fixture(scope="module")
def server():
    with ServerThread() as one:
        yield one


def design(**given):
    usual = {"arms": ARMS, "rounds": 2, "block_s": 0.6, "settle_s": 0.1, "rate_per_s": 100.0}
    usual |= {"pause_s": (0.02, 0.06), "warm_up_s": 0.1, "output_tokens": 2, "seed": 3}
    return Design(**(usual | given))


def new_record(path, anchor, merging=MERGE, **given):
    set_up = SetUp(
        started_us=anchor.now_us(),
        design=design(**given),
        server="a test's",
        merging=merging,
        hardware={},
        versions={},
    )
    return Record.open_new(path, set_up)


def play(record, url, anchor, *, command=MERGE, stopping=lambda: False):
    experiment = Experiment(
        record=record,
        endpoint=Endpoint(url=url, model=MODEL),
        merging=CommandMerging(command, anchor),
        anchor=anchor,
        stopping=stopping,
        show=lambda _: None,
        limits=Limits(timeout_s=10),
    )
    return experiment.run()


@pytest.fixture(scope="module")
def played(server, tmp_path_factory):
    anchor = Anchor.now()
    record = new_record(tmp_path_factory.mktemp("played") / "one.json.jsonl", anchor)
    assert play(record, server.url, anchor)
    return record


def test_every_block_is_played_once_and_every_request_accounted_for(played, server):
    assert sorted(block.number for block in played.blocks) == [-1, 0, 1, 2, 3]
    found = accounts(played)
    assert set(found) == {"warm_up", *ARMS}
    for one in found.values():
        assert one.ok + one.aborted + one.timeout + one.error + one.dropped == one.due
    assert sum(one.due for one in found.values()) == len(server.bodies)


def test_arms_of_a_round_have_the_same_arrivals_and_so_a_matched_load(played):
    offsets = {}
    for block in played.blocks[1:]:
        offsets[block.round, block.arm] = sorted(
            one.scheduled_us - block.began_us for one in block.requests
        )
    for number in (0, 1):
        ours, theirs = offsets[number, "merges"], offsets[number, "learners"]
        assert len(ours) == len(theirs)
        assert np.abs(np.subtract(ours, theirs)).max() <= 2  # Of whole microseconds, rounded.
    assert measured(played).load.matched


def test_merges_lie_in_blocks_that_merge_and_the_first_two_are_discarded(played):
    assert len(discarded(played)) == 2
    for block in played.blocks[1:]:
        assert bool(block.merges) == (block.arm == "merges")
        for merge in block.merges:
            assert block.began_us <= merge.start_us < merge.end_us
            assert merge.end_us - merge.start_us >= 40_000


def measured(record):
    rng = np.random.default_rng(0)
    return measure(observed(record), slo_s=None, precision=0.1, rng=rng, draws=200)


def test_tokens_that_no_server_counted_are_those_asked_for_and_not_none_at_all(played):
    asked = played.set_up.design.prompt_tokens + played.set_up.design.output_tokens
    silent = [
        replace(block, requests=[replace(one, prompt_tokens=None, output_tokens=None)
                                 for one in block.requests])
        for block in played.blocks
    ]  # fmt: skip
    assert set(observed(Record(played.path, played.set_up, silent)).tokens) == {asked}
    # This server says 7 tokens in and 2 out.
    assert set(observed(played).tokens) == {9}


def test_record_read_back_gives_the_same_figures(played):
    again = Record.reopen(played.path)
    assert measured(again) == measured(played)


def test_interrupted_block_is_kept_out_of_figures_and_played_again(server, tmp_path):
    anchor = Anchor.now()
    record = new_record(tmp_path / "one.json.jsonl", anchor, rounds=1)
    ended = lambda: any(block.number == 0 for block in record.blocks)  # noqa: E731
    assert not play(record, server.url, anchor, stopping=ended)
    interrupted = record.blocks[-1]
    assert not interrupted.complete
    again = Record.reopen(record.path)
    assert again.played == {0}
    assert play(again, server.url, anchor)
    assert again.played == {0, 1}
    due = sum(one.due for one in accounts(again).values())
    assert due == sum(len(block.requests) for block in again.blocks)
    assert len(observed(again).blocks) == 2


def test_ctrl_c_says_what_is_waited_for_and_a_second_one_gives_it_up(tmp_path):
    anchor = Anchor.now()
    record = new_record(tmp_path / "one.json.jsonl", anchor)
    said = []
    with ServerThread(fault="stall", tokens_before=0) as hung:
        experiment = Experiment(
            record=record,
            endpoint=Endpoint(url=hung.url, model=MODEL),
            merging=CommandMerging(MERGE, anchor),
            anchor=anchor,
            stopping=lambda: len(hung.bodies) > 2,
            show=lambda _: None,
            limits=Limits(timeout_s=60),
            hastening=lambda: bool(said),
            say=said.append,
        )
        assert not experiment.run()
    [block] = record.blocks
    assert not block.complete
    assert {one.status for one in block.requests} == {"aborted"}
    assert len(block.requests) >= len(hung.bodies) > 2
    assert re.fullmatch(r"waiting for answers: \d+ to come; Ctrl-C again ends it", said[0])
    assert [one.complete for one in Record.reopen(record.path).blocks] == [False]


def test_line_that_a_crash_cut_short_is_left_out(played, tmp_path):
    path = tmp_path / "torn.json.jsonl"
    path.write_bytes(played.path.read_bytes()[:-100])
    torn = Record.reopen(path)
    assert len(torn.blocks) == len(played.blocks) - 1
    # A look changes nothing: another process may be writing that line. The next block replaces it.
    assert path.read_bytes() == played.path.read_bytes()[:-100]
    torn.add(played.blocks[-1])
    assert path.read_bytes() == played.path.read_bytes()


def test_record_of_a_seed_that_cannot_be_is_refused(played, tmp_path):
    path = tmp_path / "seed.json.jsonl"
    path.write_bytes(played.path.read_bytes().replace(b'"seed":3', b'"seed":-1', 1))
    with pytest.raises(InputError, match="--seed is -1; it must be 0 or more"):
        Record.reopen(path)


def test_record_that_two_processes_wrote_is_no_evidence(played, tmp_path):
    path = tmp_path / "twice.json.jsonl"
    lines = played.path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[3]]))
    with pytest.raises(InputError, match=r"block 1 of .* is there whole twice"):
        Record.reopen(path)
    # Every going on warms up once more.
    path.write_bytes(b"".join([*lines, lines[1]]))
    assert Record.reopen(path).played == played.played


def test_record_that_another_process_writes_is_not_gone_on_with(server, tmp_path):
    record = new_record(tmp_path / "one.json.jsonl", Anchor.now(), rounds=1)
    wanted = asked(resume=record.path, endpoint=server.url, model=MODEL, merge_command=MERGE)
    with held(record.path), pytest.raises(InputError, match=r"another process is writing .*jsonl"):
        calibrate_job.run(wanted, as_json=False, wants_plain=True)
    assert [path.name for path in tmp_path.iterdir()] == ["one.json.jsonl"]


def test_file_is_held_by_one_at_a_time_and_free_once_its_holder_is_killed(tmp_path):
    path = tmp_path / "x"
    program = f"""
        import pathlib, signal, sidecar.held
        with sidecar.held.held(pathlib.Path({str(path)!r})):
            print("held", flush=True)
            signal.pause()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another process"), held(path):
            pass
        other.kill()
    with held(path), pytest.raises(InputError, match="another process"), held(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_merge_command_that_fails_ends_it_with_its_last_words(server, tmp_path):
    anchor = Anchor.now()
    record = new_record(tmp_path / "one.json.jsonl", anchor)
    with pytest.raises(MergeError, match="ended with 3, no peers"):
        play(record, server.url, anchor, command="sh -c 'echo no peers >&2; exit 3'")
    assert [block.complete for block in record.blocks] == [False]


def test_merge_command_that_says_much_is_not_held_up():
    command = "sh -c 'head -c 300000 /dev/zero >&2; echo late >&2; exit $0' {}"
    loud = CommandMerging(command.format(0), Anchor.now(), limit_s=5)
    for name in ("m0", "m1"):
        assert loud.merge(name, lambda: None).done
    with pytest.raises(MergeError, match=r"ended with 4, .*late; it must make one merge"):
        CommandMerging(command.format(4), Anchor.now()).merge("m", lambda: None)


def test_merge_command_that_is_not_there_is_named(server, tmp_path):
    anchor = Anchor.now()
    record = new_record(tmp_path / "one.json.jsonl", anchor)
    with pytest.raises(InputError, match="cannot run --merge-command absent-program"):
        play(record, server.url, anchor, command="absent-program --now")


def test_server_that_answers_nothing_ends_it(tmp_path):
    anchor = Anchor.now()
    record = new_record(tmp_path / "one.json.jsonl", anchor)
    with ServerThread(refuse=503) as ill, pytest.raises(SlackwaterError, match="out of order"):
        play(record, ill.url, anchor)
    assert accounts(record)["interrupted"].error == len(record.blocks[0].requests) > 0


def test_equal_seeds_give_equal_designs_and_rounds_play_every_arm():
    one, other = design(rounds=5), design(rounds=5, seed=4)
    plan = list(one.planned())
    assert plan == list(design(rounds=5).planned()) != list(other.planned())
    for number in range(5):
        assert {block.arm for block in plan if block.round == number} == set(ARMS)
    assert one.schedule(plan[0]) == one.schedule(plan[1]) != one.schedule(plan[2])


@pytest.mark.parametrize(
    ("minutes", "rounds", "block_s"), [(10, 11, 16.182), (5, 6, 14.667), (3, 5, 10.0)]
)
def test_minutes_are_cut_into_six_rounds_or_more_where_they_last_so_long(minutes, rounds, block_s):
    arms = ("nothing", "learners", "merges")
    assert fitting(minutes, arms) == (rounds, pytest.approx(block_s))


def test_too_few_minutes_say_how_many_a_round_takes():
    with pytest.raises(InputError, match="one round of short blocks takes"):
        fitting(0.3, ("nothing", "learners", "merges"))


def asked(launch_vllm=False, endpoint=None, model=None, **given):
    server = ServerOptions(
        launch_vllm=launch_vllm, vllm_python=None, endpoint=endpoint, model=model, vocabulary=None
    )
    names = calibrate_job.Asked.__dataclass_fields__
    usual = dict.fromkeys(names) | {"server": server, "precision": 0.1, "seed": 0}
    return calibrate_job.Asked(**(usual | {"minutes": 1.0, "rate_per_s": 6.0} | given))


def test_a_server_that_wants_a_key_is_given_the_environment_s(server, monkeypatch):
    options = asked(endpoint=server.url, model=MODEL).server
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    with contextlib.ExitStack() as stack:
        found = endpoint_of(options, Path("unused.log"), stack, lambda _: None)
    assert found.headers["Authorization"] == "Bearer k-1"


def test_part_of_a_record_says_what_is_missing_and_what_changed_in_it_is_refused(
    played, tmp_path, capsys
):
    whole = played.path.read_bytes().splitlines(keepends=True)
    part = tmp_path / "part.json.jsonl"
    part.write_bytes(b"".join(whole[:-1]))
    assert calibrate_job.run(asked(resume=part), as_json=False, wants_plain=True) == 0
    shown = capsys.readouterr().out
    blocks = sum(block.number >= 0 for block in played.blocks)
    assert f"{blocks - 1} of {blocks} blocks" in shown
    assert "blocks are missing: --resume with --launch-vllm" in shown
    found = played.blocks[-1]
    ended = replace(found.requests[0], ended_us=found.requests[0].scheduled_us - 10**9)
    for other, said in (
        (replace(found, number=77), "has a block 77, and its design none"),
        (replace(found, requests=[ended]), "was changed; measure anew"),
    ):
        part.write_bytes(b"".join([*whole[:-1], msgspec.json.encode(other), b"\n"]))
        with pytest.raises(InputError, match=said):
            Record.reopen(part)


def lagging(outcome, us):
    return replace(outcome, sent_us=outcome.scheduled_us + us)


def test_block_that_the_client_stood_still_in_is_no_block_and_is_played_anew(
    server, tmp_path, monkeypatch
):
    anchor = Anchor.now()
    record = new_record(tmp_path / "one.json.jsonl", anchor, rounds=1)
    standing = [True]
    take = Experiment.take

    def once(self, block):
        if block.arm == "learners" and standing:
            standing.clear()
            late = [lagging(one, 20_000_000) for one in block.requests]
            block = replace(block, requests=late)
        take(self, block)

    monkeypatch.setattr(Experiment, "take", once)
    assert play(record, server.url, anchor)
    assert record.whole
    assert [(b.arm, b.complete) for b in record.blocks if b.arm == "learners"] == [
        ("learners", False),
        ("learners", True),
    ]


def test_server_that_goes_in_the_last_requests_of_a_block_leaves_no_block(tmp_path):
    record = new_record(tmp_path / "one.json.jsonl", Anchor.now())
    experiment = Experiment(
        record=record,
        endpoint=Endpoint(url="http://127.0.0.1:1", model=MODEL),
        merging=None,
        anchor=Anchor.now(),
        stopping=lambda: False,
        show=lambda _: None,
        limits=None,
    )
    requests = [
        Outcome(id=f"r{n}", scheduled_us=n, ended_us=n + 1, status="ok" if n < 95 else "error")
        for n in range(100)
    ]
    block = PlayedBlock(
        number=0,
        round=0,
        arm="merges",
        began_us=0,
        start_us=0,
        end_us=100,
        complete=True,
        client_cpu_s=0.0,
        merges=[],
        requests=requests,
    )
    with pytest.raises(SlackwaterError, match="5 of 100 requests of a block found no answer"):
        experiment.take(block)
    assert record.played == set()


def test_whole_record_gives_its_profile_again(played, capsys):
    assert calibrate_job.run(asked(resume=played.path), as_json=False, wants_plain=True) == 0
    profile = decode_profile(played.path.with_suffix("").read_bytes())
    assert profile.name == "one"
    one = profile.measurement
    assert (one.merges, one.merges_discarded) == (len(observed(played).windows), 2)
    assert one.accounts["merges"]["due"] == accounts(played)["merges"].due
    # Fewer than ten merges have no interval.
    assert profile.effect is None or one.merges >= 10
    line = figures("overlap", played.path.with_suffix(""), (), None, None).line()
    assert ("too few to say whether merges slow" in line) == (profile.effect is None)
    held = json.loads(played.path.with_suffix("").read_bytes())
    assert "slots" not in held["queue"]
    assert len(held["closed_loop"]["scatter"]) == len(held["closed_loop"]["slowed_scatter"]) == 100
    shown = capsys.readouterr().out
    assert "every request and merge" in shown
    assert "nan" not in shown


def test_a_record_writes_over_no_file_that_is_not_its_profile(played, tmp_path):
    path = tmp_path / "notes.csv.jsonl"
    path.write_bytes(played.path.read_bytes())
    notes = tmp_path / "notes.csv"
    notes.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"notes\.csv is there and is not a calibration profile"):
        calibrate_job.run(asked(resume=path), as_json=True, wants_plain=True)
    assert notes.read_text() == "a,b\n1,2\n"


def test_trial_takes_load_objective_and_window_from_a_profile_and_options_win(played):
    calibrate_job.run(asked(resume=played.path), as_json=True, wants_plain=True)
    path = played.path.with_suffix("")
    profile = decode_profile(path.read_bytes())

    def design(**given):
        server = ServerOptions(
            launch_vllm=True, vllm_python=None, endpoint=None, model=None, vocabulary=None
        )
        options = {"minutes": None, "db": None, "resume": None, "claim": None}
        return trial_job.design_of(
            trial_job.Asked(server=server, design=given, profile=path, **options)
        )

    found = design(slo_s=0.7)
    assert profile.measurement.rate_per_s == 100.0
    # Bursts come at the calibrated rate: aperiodic ones are 9/5 of their mean.
    assert found.rate_per_s == pytest.approx(100 * 5 / 9, abs=1)
    assert design(regime="constant").rate_per_s == 100.0
    assert (found.prompt_tokens, found.output_tokens) == (64, 2)
    assert found.window_s == profile.window_s
    assert (found.slo_s, design().slo_s) == (0.7, profile.slo_s)


def test_record_is_not_gone_on_with_by_other_merges(server, tmp_path):
    anchor = Anchor.now()
    then = CommandMerging(MERGE, anchor)
    record = new_record(tmp_path / "one.json.jsonl", anchor, rounds=1, merging=then.name)
    calibrate_job._check_same(record, then)
    given = {"resume": record.path, "endpoint": server.url, "model": MODEL}
    other = asked(**given, merge_command="sh -c 'sleep 9'")
    with pytest.raises(InputError, match=r"begun with command: sh -c 'sleep 0\.04', .*sleep 9"):
        calibrate_job.run(other, as_json=False, wants_plain=True)
    assert Record.reopen(record.path).blocks == []


def test_comparison_with_an_output_writes_its_profile_there(played, tmp_path, monkeypatch):
    calibrate_job.run(asked(resume=played.path), as_json=True, wants_plain=True)
    then = tmp_path / "then.json"
    profile = decode_profile(played.path.with_suffix("").read_bytes())
    then.write_bytes(encoded(with_intervals(profile)))
    record = Record(tmp_path / "now.json.jsonl", played.set_up, played.blocks)
    monkeypatch.setattr(calibrate_job, "_recorded", lambda *_: (record, True))
    for output in (None, tmp_path / "now.json"):
        wanted = asked(launch_vllm=True, compare=then, output=output, name="now")
        calibrate_job.run(wanted, as_json=True, wants_plain=True)
        assert (tmp_path / "now.json").exists() == (output is not None)
    assert decode_profile((tmp_path / "now.json").read_bytes()).name == "now"


LAB = Server(launched=False, model="m", url="http://lab:1", version="0.32")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"launched": True, "url": None}, r"m at http://lab:1 .*name m of --launch-vllm"),
        ({"model": "other"}, r"and these options name other at"),
        ({"vocabulary": 9}, r"prompts of words.*prompts of 9 token ids"),
    ],
)
def test_what_was_begun_with_one_server_does_not_go_on_with_another(now, said):
    with pytest.raises(InputError, match=said):
        check_same(LAB, replace(LAB, **now), Path("a.jsonl"))
    check_same(None, LAB, Path("written by an older version"))


def test_same_server_at_another_address_or_of_another_version_goes_on_and_it_is_said():
    assert changed(LAB, LAB) is None
    assert changed(None, LAB) is None
    for moved in (replace(LAB, url="http://lab:2"), replace(LAB, version="0.33")):
        check_same(LAB, moved, Path("a.jsonl"))
        assert "now it is m at http://lab:" in changed(LAB, moved)


def test_record_keeps_its_server_and_goes_on_with_no_other_model(server, tmp_path):
    given = {"endpoint": server.url, "merge_command": MERGE, "prompt_tokens": 4, "output_tokens": 2}
    first = asked(model=MODEL, output=tmp_path / "a.json", **given)
    options = first.server
    endpoint = Endpoint(url=server.url, model=MODEL)
    anchor = Anchor.now()
    merging = CommandMerging(MERGE, anchor)
    load = calibrate_job._Load(rate_per_s=6.0, alone_per_s=None)
    record = calibrate_job._new_record(
        tmp_path / "a.json.jsonl",
        first,
        endpoint,
        server_of(options, endpoint),
        load,
        merging,
        anchor,
    )
    path = record.path
    found = Record.reopen(path).set_up.endpoint
    assert found == Server(launched=False, model=MODEL, url=server.url)
    with pytest.raises(InputError, match=r"begun with tiny at .* name other at"):
        calibrate_job.run(
            asked(resume=path, model="other", **given), as_json=True, wants_plain=True
        )


def test_profile_is_not_compared_with_a_record_of_another_load(played, tmp_path):
    calibrate_job.run(asked(resume=played.path), as_json=True, wants_plain=True)
    profile = decode_profile(played.path.with_suffix("").read_bytes())
    other = tmp_path / "other.json"
    few = tmp_path / "few.json"
    few.write_bytes(encoded(profile))
    with pytest.raises(InputError, match="no interval for p50 ratio; window, s; p50 without"):
        calibrate_job.run(asked(resume=played.path, compare=few), as_json=True, wants_plain=True)
    profile = with_intervals(profile)
    measurement = replace(profile.measurement, rate_per_s=40.0)
    other.write_bytes(encoded(replace(profile, measurement=measurement)))
    said = r"is of 100 requests/s of 64 \+ 2 tokens, and --compare .* of 40 requests/s"
    with pytest.raises(InputError, match=said):
        calibrate_job.run(asked(resume=played.path, compare=other), as_json=True, wants_plain=True)
    same = tmp_path / "same.json"
    same.write_bytes(encoded(profile))
    code = calibrate_job.run(
        asked(resume=played.path, compare=same), as_json=True, wants_plain=True
    )
    assert code in calibrate_job.CODES.values()


def with_intervals(profile, factor=1.0, width=0.05):
    """The profile with every figure that is compared known to so much either side."""

    def known(value):
        return Ratio(value=value, low=value / (1 + width), high=value * (1 + width))

    one = profile.measurement
    effect = replace(one.merging_effect, p50_ratio=known(2.0), p95_ratio=known(2.0))
    figures = {"p50_s": known(0.1), "p95_s": known(0.2), "window_s": known(factor)}
    return replace(profile, measurement=replace(one, merging_effect=effect, **figures))


@pytest.mark.parametrize(
    ("factor", "width", "code"), [(1.05, 0.05, 0), (1.5, 0.05, 1), (1.05, 0.5, 3)]
)
def test_profile_that_fits_one_that_does_not_and_one_that_cannot_be_told(
    played, factor, width, code
):
    calibrate_job.run(asked(resume=played.path), as_json=True, wants_plain=True)
    profile = decode_profile(played.path.with_suffix("").read_bytes())
    before, now = with_intervals(profile), with_intervals(profile, factor, width)
    assert calibrate_job.compared(Console(quiet=True), before, now) == code


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give --launch-vllm, or --endpoint"),
        ({"endpoint": "http://127.0.0.1:1"}, "needs --model"),
        ({"launch_vllm": True, "merge_command": "x", "effect_free": True}, "--effect-free"),
        ({"launch_vllm": True, "merge_command": "x", "learners": 9}, "leave --learners out"),
        ({"launch_vllm": True, "merge_command": "x", "parameters": 1e6}, "leave --parameters out"),
        ({"resume": "x.jsonl", "learners": 4, "merge_command": "x"}, "leave --learners out"),
        ({"resume": "x.jsonl", "merge_command": "x"}, "plays nothing; leave --merge-command out"),
        ({"resume": "x.jsonl", "effect_free": True}, "plays nothing; leave --effect-free out"),
        ({"resume": "x.jsonl", "model": "m"}, "--model goes with --endpoint"),
        ({"launch_vllm": True, "vocabulary": 9}, "--vocabulary goes with --endpoint"),
        (
            {"endpoint": "http://127.0.0.1:1", "model": "m", "vllm_python": Path("p")},
            "--vllm-python goes with --launch-vllm",
        ),
        ({"resume": "x.jsonl", "compare": "y.json", "name": "n"}, "leave --name out"),
        ({"launch_vllm": True, "seed": -1, "merge_command": "true"}, "--seed is -1"),
        ({"launch_vllm": True, "parameters": 0.5}, "--parameters"),
        ({"launch_vllm": True, "slo": -1.0}, "--slo"),
        ({"launch_vllm": True, "precision": 0.0}, "--precision"),
        ({"resume": "x.json"}, "no record"),
        ({"launch_vllm": True, "compare": "absent.json"}, "cannot read --compare"),
        ({"launch_vllm": True, "compare": "x.json", "rate": 9.0, "slo": 1.0}, "--rate, --slo out"),
        ({"resume": "x.jsonl", "minutes": 3.0, "seed": 0}, "--minutes, --seed out"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = {key: Path(value) for key, value in given.items() if key in ("resume", "compare")}
    with pytest.raises(InputError, match=said):
        calibrate(**(given | paths))


@pytest.mark.parametrize("where", ["output", "neither"])
def test_checkpoints_go_beside_the_record_and_not_to_a_tmp_in_memory(where, tmp_path, monkeypatch):
    folders = []

    def merging(_asked, _anchor, folder):
        folders.append(folder)
        assert folder.is_dir()
        raise MergeError("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibrate_job, "_merging", merging)
    given = {"output": tmp_path / "runs" / "a.json"} if where == "output" else {}
    if given:
        (tmp_path / "runs").mkdir()
    wanted = asked(launch_vllm=True, **given)
    with pytest.raises(MergeError, match="enough"):
        calibrate_job.run(wanted, as_json=False, wants_plain=True)
    [folder] = folders
    assert folder.resolve().parents[1] == (tmp_path / "runs").resolve()
    assert folder.parent.name.startswith(".calibrate-")
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"minutes": 0.1}, "one round of short blocks takes"),
        ({"rate_per_s": -1.0}, "--rate is -1"),
        ({"prompt_tokens": 0}, "--prompt-tokens is 0"),
        ({"merge_command": "absent-program --now"}, "there is no such program"),
        ({"output": Path("old.json")}, r"old\.json\.jsonl is there; continue it"),
    ],
)
def test_what_is_known_to_be_wrong_is_said_before_a_server_is_asked(
    given, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("old.json.jsonl").touch()
    # Nobody answers there: to ask would be another error.
    usual = {"endpoint": "http://127.0.0.1:1", "model": MODEL, "merge_command": MERGE}
    wanted = asked(**(usual | {"prompt_tokens": 64, "output_tokens": 16} | given))
    with pytest.raises(InputError, match=said):
        calibrate_job.run(wanted, as_json=True, wants_plain=True)


def test_folder_of_a_calibration_that_was_killed_is_removed_by_the_next(tmp_path):
    left = tmp_path / ".calibrate-left"
    (left / "scratch").mkdir(parents=True)
    (left / "lock").touch()
    wanted = asked(output=tmp_path / "a.json", minutes=0.1, merge_command=MERGE, launch_vllm=True)
    with pytest.raises(InputError, match="one round of short blocks"):
        calibrate_job.run(wanted, as_json=True, wants_plain=True)
    assert list(tmp_path.iterdir()) == []


def test_log_of_a_server_that_fails_is_kept_and_named(tmp_path, capsys):
    wanted = asked(
        output=tmp_path / "a.json", merge_command=MERGE, launch_vllm=True,
        prompt_tokens=64, output_tokens=16,
    )  # fmt: skip
    # An interpreter without vLLM: the one of the tests.
    wanted = dataclasses.replace(
        wanted, server=dataclasses.replace(wanted.server, vllm_python=Path(sys.executable))
    )
    with pytest.raises(ServerError, match="No module named") as failure:
        calibrate_job.run(wanted, as_json=True, wants_plain=True)
    [log] = tmp_path.glob(".calibrate-*/logs/vllm.log")
    assert "No module named" in log.read_text()
    assert str(log) in str(failure.value)
    assert f"is kept in {log}" in capsys.readouterr().err


def test_record_that_cannot_be_begun_leaves_no_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device; name another --output"):
        new_record(tmp_path / "one.json.jsonl", Anchor.now())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_led_learners_really_merge_and_a_window_spans_all_of_them(tmp_path):
    anchor = Anchor.now()
    learners = LedLearners(Learners(parameters=100_000), anchor, tmp_path)
    try:
        learners.start(lambda: None)
        learners.train(lambda: None)
        merges = [learners.merge(f"m{number}", lambda: None) for number in range(3)]
        learners.rest(lambda: None)
    finally:
        learners.stop()
    for merge in merges:
        assert merge.done
        assert merge.start_us < merge.end_us
        assert merge.detail["bytes_exchanged"] == 4 * merge.detail["parameters"]
        assert merge.detail["checkpoint_bytes"] > 8 * merge.detail["parameters"]
    assert {path.name for path in tmp_path.glob("*.safetensors")} == {
        f"learner-{number}.safetensors" for number in range(4)
    }
    # Every merge moves the shared weights.
    assert len({merge.detail["digest"] for merge in merges}) == 3


@pytest.mark.slow
def test_learner_that_dies_is_named(tmp_path):
    learners = LedLearners(Learners(parameters=100_000), Anchor.now(), tmp_path)
    try:
        learners.start(lambda: None)
        learners._processes[1].kill()
        with pytest.raises(MergeError, match="learner-1 has ended"):
            learners.merge("m0", lambda: None)
    finally:
        learners.stop()


@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_real_vllm_beside_real_merges_gives_a_profile(tmp_path):
    path = tmp_path / "real.json"
    wanted = asked(
        launch_vllm=True,
        learners=2,
        parameters=2_000_000,
        effect_free=False,
        minutes=0.6,
        prompt_tokens=64,
        output_tokens=16,
        output=path,
    )
    assert calibrate_job.run(wanted, as_json=False, wants_plain=True) == 0
    one = decode_profile(path.read_bytes()).measurement
    assert one.merges > 0
    assert "vllm" in one.versions
    for account in one.accounts.values():
        assert account["due"] == sum(account.values()) - account["due"]

"""Two runs of one trace, as events. Times are seconds after the start; the SLO is 1 s.

Run `r` makes three merges: m-1 in [20, 28); m-2 starts at 62 and is never finished, so that its
planned 8 s stand for it; m-3 in [80, 85) without a command. Run `calm` makes none.
"""

from slackwater import events
from streams.runlog import Draw, Run, Verdict

START_US = 1_700_000_000_000_000
LEARNERS = ["learner-0", "learner-1"]

# id -> arrival, seconds until it ended, status
REQUESTS = {
    "before": (10.0, 0.5, "ok"),
    "served-at-start": (19.0, 1.5, "ok"),
    "at-start": (20.0, 0.4, "ok"),
    "late-in-window": (27.9, 2.0, "ok"),
    "at-end": (28.0, 0.2, "ok"),
    "gone-at-start": (19.0, 1.0, "ok"),
    "timed-out": (22.0, 3.0, "timeout"),
    "aborted": (23.0, 0.5, "aborted"),
    "failed": (50.0, 1.0, "error"),
    "in-unfinished": (69.0, 0.5, "ok"),
}
# Two intervals of a switchback; the second has no merge yet.
FIRST = {"interval_number": 0, "arm": "policy", "policy_share": 0.5}
SECOND = {"interval_number": 1, "arm": "random", "policy_share": 0.5, "drawn_gap_steps": 30}
CALM = [0.5, 0.5, 0.5, 2.0]


def us(seconds):
    return START_US + round(seconds * 1e6)


def request(name, arrival, took, status, run_id="r", **more):
    return events.Request(
        run_id=run_id,
        at_us=us(arrival + took),
        sidecar="sidecar-0",
        id=name,
        arrival_us=us(arrival),
        status=status,
        e2e_s=took if status == "ok" else None,
        **more,
    )


def requests():
    tenants = {"late-in-window": "shop"}
    return [request(n, *row, tenant=tenants.get(n)) for n, row in REQUESTS.items()]


def loads():
    def load(sidecar, at_s, seq, dropped):
        return events.Load(
            run_id="r", at_us=us(at_s), sidecar=sidecar, running=1, waiting=2, seq=seq,
            dropped=dropped,
        )  # fmt: skip

    return [
        load("sidecar-0", 1, 1, 0),
        load("sidecar-0", 2, 2, 0),
        load("sidecar-0", 100, 4, 2),
        load("sidecar-1", 3, None, None),
    ]


def learner_events():
    return [
        events.Step(
            run_id="r", at_us=us(5), learner="learner-0", step=10, steps_since_merge=10, loss=2.5,
            step_time_s=0.5,
        ),
        events.Step(
            run_id="r", at_us=us(100), learner="learner-0", step=160, steps_since_merge=5,
            step_time_s=0.5,
        ),
        events.Heartbeat(run_id="r", at_us=us(6), learner="learner-1"),
    ]  # fmt: skip


def bins():
    row = {"sidecar": "sidecar-0", "finished": 1}
    return events.Bins(
        run_id="r",
        at_us=us(2),
        group="default",
        partition=0,
        bin_s=1.0,
        watermarks_us={"sidecar-0": us(2)},
        rows=[
            events.BinRow(start_us=us(0), late=1, **row),
            events.BinRow(start_us=us(1), in_system=3, **row),
        ],
    )


def decision(at_s, action, reason, rate, **more):
    return events.Decision(
        run_id="r", at_us=us(at_s), group="default", policy="slack", active=True, action=action,
        reason=reason, window_s=8.0, learners=2, rate_per_s=rate, in_flight=1.0, gap_s=4.0,
        **more,
    )  # fmt: skip


def decisions():
    windows = events.Candidates(
        first_us=us(20), step_s=0.25, overlap=[5.0, 4.0], overlap_sd=[1.0, 1.0]
    )
    return [
        decision(18, "wait", "too early", 0.5, rate_sd=0.125, **FIRST),
        decision(19, "wait", "too early", 0.25, rate_sd=0.125, **FIRST),
        decision(20, "merge", "cheap", None, merge_id="m-1", candidates=windows, **FIRST),
        decision(95, "wait", "too early", 0.5, rate_sd=0.125, **SECOND),
    ]


def commands():
    def merge(at_s, merge_id, at_step):
        return events.MergeCommand(
            run_id="r", at_us=us(at_s), group="default", merge_id=merge_id, at_step=at_step,
            deadline_us=us(at_s + 9), window_s=8.0, reason="cheap", participants=LEARNERS,
        )  # fmt: skip

    return [merge(15, "m-1", 130), merge(60, "m-2", 300), events.Pause(
        run_id="r", at_us=us(61), group="default"
    )]  # fmt: skip


def report(kind, at_s, learner, merge_id, step, **more):
    return kind(
        run_id="r", at_us=us(at_s), group="default", learner=learner, merge_id=merge_id,
        step=step, **more,
    )  # fmt: skip


def finished(at_s, learner, merge_id, step, seconds, digest):
    return report(
        events.Finished, at_s, learner, merge_id, step, seconds=seconds, exchange_s=2.0,
        checkpoint_s=1.0, bytes_exchanged=400, checkpoint_bytes=800, parameters=100,
        digest=digest,
    )  # fmt: skip


def merges():
    one, two = LEARNERS
    return [
        report(events.Accepted, 15.1, one, "m-1", 130),
        report(events.Accepted, 15.2, two, "m-1", 130),
        report(events.Started, 20, one, "m-1", 130),
        report(events.Started, 20.5, two, "m-1", 130),
        finished(27, one, "m-1", 130, 7.0, "aa"),
        finished(28, two, "m-1", 130, 7.5, "aa"),
        report(events.Started, 62, one, "m-2", 300),
        report(events.Skipped, 62, two, "m-2", 300, reason="too late"),
        report(events.Started, 80, one, "m-3", 512, reason="h_max"),
        report(events.Started, 80, two, "m-3", 512, reason="h_max"),
        finished(84, one, "m-3", 512, 4.0, "bb"),
        finished(85, two, "m-3", 512, 5.0, "cc"),
    ]


def dead_letter():
    return events.DeadLetter(
        run_id="r", at_us=us(7), raw=b"\xff{", error="not JSON", topic="t.requests", partition=0,
        offset=5,
    )  # fmt: skip


def fill(log):
    """Write both runs, three draws and a verdict."""
    corridor = {"controller": {"min_gap_steps": 21, "max_gap_steps": 91}}
    settings = {"slo_s": 1.0, "testbed": {"speed": 20.0}, "stream": corridor}
    run = {"trace": "tiny", "trace_sha256": "abc", "created_us": us(0), "settings": settings}
    log.start_run(Run(run_id="r", policy="slack", seed=1, **run))
    log.start_run(Run(run_id="calm", policy="none", seed=2, **run))
    calm = [request(f"c{i}", 1.0 * i, e2e, "ok", "calm") for i, e2e in enumerate(CALM)]
    late = [list(REQUESTS).index("failed")]
    log.append(requests(), topic="t.requests", partition=0, offset=0, late=late)
    log.append(calm, topic="t.requests", partition=1, offset=0)
    log.append(loads(), topic="t.requests", partition=0, offset=1)
    log.append(learner_events(), topic="t.learners", partition=0, offset=0)
    log.append([bins()], topic="t.bins", partition=0, offset=0)
    log.append(decisions(), topic="t.decisions", partition=0, offset=0)
    log.append(commands(), topic="t.commands", partition=0, offset=0)
    log.append(merges(), topic="t.merges", partition=0, offset=0)
    log.append([dead_letter()], topic="t.deadletter", partition=0, offset=0)
    log.commit()
    log.add_draws(
        [
            Draw(
                run_id="r", serving_model="overlap", seed=3, draw=i, budget=3,
                starts_s=[20.0, 62.0, 80.0], cost=cost,
            )
            for i, cost in enumerate([10.0, 20.0, 30.0])
        ]
    )  # fmt: skip
    log.add_verdicts(
        [
            Verdict(
                run_id="r", at_us=us(200), policy="slack", serving_model="overlap",
                verdict="no claim", cost=6.0, detail={"draws": 3},
            )
        ]
    )  # fmt: skip
    log.finish_run("r", "complete", us(100))
    log.finish_run("calm", "complete", us(100))

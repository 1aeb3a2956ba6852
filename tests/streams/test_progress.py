import pytest

from slackwater.events import Bins, Finished, Heartbeat, Step
from streams.progress import Progress

T0 = 1_750_000_000_000_000
SILENCE_S = 2.0


class Wall:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def bins(sidecar: str, until_s: float) -> Bins:
    until_us = T0 + round(until_s * 1e6)
    return Bins(
        run_id="r", at_us=until_us, group="g", partition=0, bin_s=0.25,
        watermarks_us={sidecar: until_us},
    )  # fmt: skip


def step(learner: str, at_s: float, reports: int = 0) -> Step:
    at_us = T0 + round(at_s * 1e6)
    return Step(
        run_id="r", at_us=at_us, learner=learner, step=1, steps_since_merge=1, reports_sent=reports
    )


def finished(merge_id: str) -> Finished:
    return Finished(
        run_id="r",
        at_us=T0 + 1_500_000,
        group="g",
        learner="x",
        merge_id=merge_id,
        step=1,
        seconds=0.1,
        bytes_exchanged=4,
    )


def progress(sidecars: int = 0, learners: int = 0) -> tuple[Progress, Wall]:
    wall = Wall()
    return Progress(SILENCE_S, sidecars, learners, wall), wall


def seconds(watermark_us: int | None) -> float | None:
    return None if watermark_us is None else round((watermark_us - T0) / 1e6, 3)


def test_watermark_is_that_of_the_slowest_source() -> None:
    made, _ = progress()
    made.hear_bins(bins("a", 5.0))
    made.hear_bins(bins("b", 3.0))
    made.hear_learner(step("x", 4.0))
    assert seconds(made.watermark_us()) == 3.0


def test_time_starts_when_all_expected_are_heard() -> None:
    made, _ = progress(sidecars=2, learners=1)
    made.hear_bins(bins("a", 5.0))
    made.hear_learner(step("x", 5.0))
    assert made.watermark_us() is None
    made.hear_bins(bins("b", 4.0))
    assert seconds(made.watermark_us()) == 4.0


def test_time_starts_without_a_source_that_never_comes() -> None:
    made, wall = progress(sidecars=2)
    made.hear_bins(bins("a", 5.0))
    wall.now_s += SILENCE_S + 0.1
    assert seconds(made.watermark_us()) == 5.0


def test_silent_source_is_left_behind_once_others_have_spoken_long_enough() -> None:
    made, wall = progress()
    made.hear_bins(bins("a", 1.0))
    made.hear_bins(bins("b", 1.0))
    for tenth in range(25):
        wall.now_s += 0.1
        made.hear_bins(bins("b", 1.0 + tenth / 10))
    assert seconds(made.watermark_us()) == 3.4


def test_nobody_is_silent_when_everybody_is() -> None:
    made, wall = progress()
    made.hear_bins(bins("a", 1.0))
    made.hear_bins(bins("b", 2.0))
    wall.now_s += 60.0
    assert seconds(made.watermark_us()) == 1.0
    made.hear_bins(bins("b", 50.0))
    assert seconds(made.watermark_us()) == 1.0


def test_watermark_waits_for_merge_reports_on_the_other_topic() -> None:
    made, _ = progress()
    made.hear_learner(step("x", 1.0))
    made.hear_learner(step("x", 2.0, reports=1))
    assert seconds(made.watermark_us()) == 1.0
    made.hear_report(finished("m"))
    assert seconds(made.watermark_us()) == 2.0


def test_report_that_comes_twice_counts_once() -> None:
    made, _ = progress()
    made.hear_learner(step("x", 1.0))
    made.hear_learner(step("x", 2.0, reports=2))
    made.hear_report(finished("m"))
    made.hear_report(finished("m"))
    assert seconds(made.watermark_us()) == 1.0
    made.hear_report(finished("n"))
    assert seconds(made.watermark_us()) == 2.0


def test_reports_older_than_a_learners_first_word_are_not_waited_for() -> None:
    made, _ = progress()
    made.hear_learner(step("x", 1.0, reports=3))
    assert seconds(made.watermark_us()) == 1.0
    made.hear_learner(step("x", 2.0, reports=4))
    assert seconds(made.watermark_us()) == 1.0
    made.hear_report(finished("m"))
    assert seconds(made.watermark_us()) == 2.0


def test_learner_started_anew_counts_its_reports_anew() -> None:
    made, _ = progress()
    made.hear_learner(step("x", 1.0))
    made.hear_report(finished("m"))
    made.hear_learner(step("x", 2.0, reports=1))
    made.hear_learner(step("x", 3.0, reports=0))
    made.hear_learner(step("x", 4.0, reports=1))
    assert seconds(made.watermark_us()) == 3.0


def test_learner_that_left_is_not_waited_for() -> None:
    made, _ = progress()
    made.hear_bins(bins("a", 9.0))
    made.hear_learner(step("x", 1.0))
    made.hear_learner(Heartbeat(run_id="r", at_us=T0 + 1_100_000, learner="x", final=True))
    assert seconds(made.watermark_us()) == 9.0


def test_sidecar_that_falls_silent_beside_a_live_one_of_its_partition_is_left_behind() -> None:
    made, wall = progress()
    for tenth in range(40):
        wall.now_s += 0.1
        at_us = T0 + tenth * 100_000
        made.hear_bins(
            Bins(
                run_id="r",
                at_us=at_us,
                group="g",
                partition=0,
                bin_s=0.25,
                watermarks_us={"silent": T0, "live": at_us},
            )
        )
    assert seconds(made.watermark_us()) == 3.9


def test_source_whose_clock_is_an_hour_behind_does_not_hold_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, _ = progress()
    for second in range(3):
        made.hear_bins(bins("behind", second))
        made.hear_bins(bins("a", 3600.0 + second))
    assert seconds(made.watermark_us()) == 3602.0
    assert "sidecar behind is 3600 s behind" in caplog.text


def test_a_source_that_is_behind_is_told_once_until_it_has_caught_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "streams.progress")
    made, wall = progress()

    def heard(behind_s: float, of_s: float) -> None:
        """It speaks between long silences; meanwhile it is not waited for."""
        made.hear_bins(bins("behind", of_s - behind_s))
        made.hear_bins(bins("a", of_s))
        made.watermark_us()
        for quiet in range(5):
            wall.now_s += SILENCE_S / 4
            made.hear_bins(bins("a", of_s + quiet + 1))
            made.watermark_us()

    for number, behind_s in enumerate((100.0, 100.0, 59.0, 61.0, 1.0, 100.0)):
        heard(behind_s, 1000.0 * (number + 1))
    told = [r.getMessage() for r in caplog.records]
    lines = [text.partition(",")[0] for text in told]
    first = "sidecar behind is 100 s behind the others"
    assert lines == [first, "sidecar behind is with the others again", first]

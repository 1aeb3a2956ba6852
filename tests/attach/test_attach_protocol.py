"""The merge protocol of one learner, as a pure state machine."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_words import BOTH, CORRIDOR, NOW_US, Learner, command, skipped

from slackwater.attach import Corridor, MergeOrder
from slackwater.attach.protocol import Await, Protocol
from slackwater.errors import InputError


def test_an_order_comes_at_its_step_once_all_have_promised() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10)
    (order,) = learner.steps_to(10)
    assert isinstance(order, MergeOrder)
    assert (order.merge_id, order.step, order.steps_since_merge) == ("m1", 10, 10)
    assert learner.said == [("accepted", "m1", 10, "score")]


def test_promises_that_are_heard_before_the_command_count() -> None:
    learner = Learner()
    learner.hears_accepts("m1", 10, ["learner-1"])
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10, ["learner-0"])
    assert isinstance(learner.steps_to(10)[0], MergeOrder)


def test_its_own_promise_counts_only_when_it_was_read_back() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10, ["learner-1"])
    assert learner.steps_to(10) == [Await("m1")]


def test_promises_for_another_step_do_not_commit() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10, ["learner-0"])
    learner.hears_accepts("m1", 11, ["learner-1"])
    assert learner.steps_to(10) == [Await("m1")]


def test_without_all_promises_it_trains_on_after_the_wait() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10, ["learner-0"])
    learner.steps_to(10)
    assert learner.at_step(10, NOW_US, waited=True) is None
    assert learner.said[-1] == ("skipped", "m1", 10, "no_commit: no word from learner-1")
    assert learner.steps_to(19) == []


@pytest.mark.parametrize(
    ("at_step", "other", "reason"),
    [
        (7, {}, "late"),
        (8, {}, "late"),
        (21, {}, "corridor"),
        (10, {"deadline_us": NOW_US - 1}, "expired"),
        (10, {"participants": ["learner-1"]}, "not_participant"),
        (10, {"participants": ["learner-0"]}, "other_participants"),
        (10, {"participants": [*BOTH, "learner-2"]}, "other_participants"),
        (10, {"participants": [*BOTH, BOTH[0]]}, "unclear"),
    ],
)
def test_a_command_that_cannot_be_kept_is_refused_with_the_reason(
    at_step: int, other: dict[str, object], reason: str
) -> None:
    learner = Learner()
    learner.steps_to(8)
    learner.told("m1", at_step, **other)
    assert learner.said[-1][:3] == ("skipped", "m1", at_step)
    assert learner.last_reason == reason
    assert learner.steps_to(19) == []


class Open(Learner):
    """A learner of a group whose members come and go: any two of its learners may merge."""

    def __init__(self) -> None:
        self.said = []
        Protocol.__init__(
            self, "learner-0", BOTH, CORRIDOR, lambda *words: self.said.append(words[:4]), quorum=2
        )


def test_a_quorum_of_any_learners_is_committed_by_the_promises_of_those_it_names() -> None:
    learner = Open()
    learner.told("m1", 10, participants=["learner-0", "learner-7"])
    learner.heard(skipped("m1", 10, "learner-1"))
    learner.hears_accepts("m1", 10, ["learner-0", "learner-7"])
    (order,) = learner.steps_to(10)
    assert isinstance(order, MergeOrder)
    assert order.participants == ("learner-0", "learner-7")


def test_fewer_than_the_quorum_are_refused() -> None:
    learner = Open()
    learner.told("m1", 10, participants=["learner-0"])
    assert learner.said[-1][3] == "quorum: 1 participants, 2 are needed"


def test_a_command_for_another_epoch_is_refused() -> None:
    learner = Learner()
    learner.told("m1", 10, epoch=1)
    assert learner.said[-1][3] == "epoch: the command is for 1, this learner is at 0"
    learner.told("m2", 10, epoch=0)
    assert learner.said[-1][0] == "accepted"


def test_who_joined_counts_from_where_the_group_is_and_promises_anew() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.joined(step=110, last_merge_step=100, epoch=6)
    assert learner.last_reason == "joined"
    learner.told("m2", 115, epoch=6)
    learner.hears_accepts("m2", 115)
    (order,) = learner.steps_to(115)
    assert isinstance(order, MergeOrder)
    assert (order.step, order.steps_since_merge, order.epoch) == (115, 15, 6)


def test_a_peers_call_is_answered_from_h_min_on_and_ends_a_promise() -> None:
    learner = Learner()
    learner.steps_to(4)
    assert learner.called(4) is None
    learner.told("m1", 10)
    learner.steps_to(5)
    order = learner.called(5)
    assert order is not None
    assert (order.merge_id, order.forced) == ("hmax-5", True)
    assert learner.last_reason == "called"


def test_who_resumes_tries_a_refused_merge_again_where_it_would_have() -> None:
    learner = Learner()
    learner.steps_to(7)
    order = learner.called(7)
    assert order is not None
    learner.skipped(order, "absent")
    assert learner.retry_step == learner.forced_step == 12
    resumed = Learner()
    resumed.joined(7, 0, 0, learner.retry_step)
    assert resumed.forced_step == 12
    assert resumed.steps_to(12) == learner.steps_to(12) != []


def test_a_merge_ends_once() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10)
    (order,) = learner.steps_to(10)
    assert isinstance(order, MergeOrder)
    learner.finished(order)
    for end in (learner.finished, lambda it: learner.skipped(it, "absent")):
        with pytest.raises(InputError, match="m1 is not under way"):
            end(order)
    assert (learner.epoch, learner.last_merge_step, learner.forced_step) == (1, 10, 30)
    assert len(learner.said) == 1


def test_another_merge_than_the_one_under_way_does_not_end_it() -> None:
    learner = Learner()
    (abandoned,) = learner.steps_to(20)
    (again,) = learner.steps_to(25)
    assert isinstance(abandoned, MergeOrder)
    with pytest.raises(InputError, match="hmax-20"):
        learner.finished(abandoned)
    assert (learner.order, learner.epoch) == (again, 0)
    assert isinstance(again, MergeOrder)
    learner.finished(dataclasses.replace(again, merge_id="hmax-of-a-peer"))
    assert (learner.order, learner.epoch) == (None, 1)


def test_h_min_is_kept_whatever_is_commanded() -> None:
    learner = Learner()
    learner.told("m1", 4)
    assert learner.last_reason == "corridor"
    assert learner.steps_to(19) == []


def test_a_deadline_that_passes_before_the_step_ends_the_promise() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10)
    learner.steps_to(9)
    assert learner.at_step(10, NOW_US + 2) is None
    assert learner.last_reason == "expired"


def test_a_duplicate_is_not_answered_again() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.hears_accepts("m1", 10)
    learner.finished(learner.steps_to(10)[0])  # type: ignore[arg-type]
    assert learner.command(command("m1", 10), NOW_US) is False
    assert len(learner.said) == 1


def test_an_older_command_that_overtook_a_merge_is_late() -> None:
    learner = Learner()
    learner.told("m2", 12)
    learner.hears_accepts("m2", 12)
    learner.finished(learner.steps_to(12)[0])  # type: ignore[arg-type]
    learner.told("m1", 10)
    assert learner.last_reason == "late"


def test_a_second_command_does_not_replace_a_promise() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.told("m2", 12)
    assert learner.last_reason == "promised"
    learner.hears_accepts("m1", 10)
    assert len(learner.steps_to(10)) == 1


def test_a_command_during_a_merge_is_refused() -> None:
    learner = Learner(Corridor(1, 20))
    learner.steps_to(20)
    learner.told("m1", 25)
    assert learner.last_reason == "merging"


@pytest.mark.parametrize("order", ["command first", "withdrawal first"])
def test_a_peers_refusal_ends_the_promise_at_once(order: str) -> None:
    learner = Learner()
    acts = [lambda: learner.told("m1", 10), lambda: learner.heard(skipped("m1", 10, "learner-1"))]
    for act in acts if order == "command first" else reversed(acts):
        act()
    assert learner.last_reason == "peer_skipped"
    assert learner.steps_to(19) == []


def test_a_refusal_by_someone_outside_the_group_means_nothing() -> None:
    learner = Learner()
    learner.told("m1", 10)
    learner.heard(skipped("m1", 10, "learner-9"))
    learner.hears_accepts("m1", 10)
    assert isinstance(learner.steps_to(10)[0], MergeOrder)


def test_without_any_command_h_max_forces_and_says_so() -> None:
    learner = Learner()
    (order,) = learner.steps_to(20)
    assert isinstance(order, MergeOrder)
    assert (order.merge_id, order.reason, order.forced) == ("hmax-20", "h_max", True)
    learner.finished(order)
    (order,) = learner.steps_to(40)
    assert isinstance(order, MergeOrder)
    assert (order.merge_id, order.steps_since_merge, order.epoch) == ("hmax-40", 20, 1)


def test_a_commanded_merge_at_h_max_has_the_commanded_id_only_if_committed() -> None:
    learner = Learner()
    learner.told("m1", 20)
    learner.hears_accepts("m1", 20)
    (order,) = learner.steps_to(20)
    assert isinstance(order, MergeOrder)
    assert order.merge_id == "m1"

    alone = Learner()
    alone.told("m1", 20)
    assert alone.steps_to(20) == [Await("m1")]
    forced = alone.at_step(20, NOW_US, waited=True)
    assert isinstance(forced, MergeOrder)
    assert forced.merge_id == "hmax-20"


def test_a_pause_refuses_commands_but_not_h_max() -> None:
    learner = Learner()
    learner.paused = True
    learner.told("m1", 10)
    assert learner.last_reason == "paused"
    assert len(learner.steps_to(20)) == 1


@pytest.mark.parametrize("reason", ["h_max", "h_max_overdue"])
def test_a_pause_holds_back_no_merge_that_the_controller_commands_for_h_max(reason: str) -> None:
    learner = Learner()
    learner.paused = True
    learner.told("m1", 20, reason=reason)
    learner.hears_accepts("m1", 20)
    (order,) = learner.steps_to(20)
    assert isinstance(order, MergeOrder)
    assert (order.merge_id, order.reason) == ("m1", reason)


def test_a_forced_merge_that_was_refused_is_due_again_after_h_min() -> None:
    learner = Learner()
    (order,) = learner.steps_to(20)
    assert isinstance(order, MergeOrder)
    learner.skipped(order, "absent: learner-1")
    (again,) = learner.steps_to(25)
    assert isinstance(again, MergeOrder)
    assert (again.merge_id, again.steps_since_merge, again.epoch) == ("hmax-25", 25, 0)


def test_an_order_that_is_never_reported_does_not_stop_the_next() -> None:
    learner = Learner()
    learner.steps_to(21)
    assert learner.last_reason == "abandoned"
    assert [order.step for order in learner.steps_to(31) if isinstance(order, MergeOrder)] == [
        25,
        30,
    ]


@given(
    commands=st.lists(
        st.tuples(st.integers(0, 120), st.integers(0, 30), st.booleans()), max_size=40
    )
)
def test_gaps_stay_in_the_corridor_whatever_is_commanded(
    commands: list[tuple[int, int, bool]],
) -> None:
    learner = Learner()
    starts = [0]
    by_step: dict[int, list[tuple[str, int, bool]]] = {}
    for number, (sent, ahead, all_accept) in enumerate(commands):
        by_step.setdefault(sent, []).append((f"m{number}", sent + ahead, all_accept))
    for step in range(1, 121):
        for merge_id, at_step, all_accept in by_step.get(step - 1, []):
            learner.told(merge_id, at_step)
            learner.hears_accepts(merge_id, at_step, BOTH if all_accept else BOTH[:1])
        found = learner.at_step(step, NOW_US)
        if isinstance(found, Await):
            found = learner.at_step(step, NOW_US, waited=True)
        if isinstance(found, MergeOrder):
            starts.append(step)
            learner.finished(found)
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert all(5 <= gap <= 20 for gap in gaps)
    assert 120 - starts[-1] < 20
    # Every command was answered exactly once, unless H_max overtook its promise.
    answered = [merge_id for phase, merge_id, _, _ in learner.said if phase == "accepted"]
    assert len(set(answered)) == len(answered)


@pytest.mark.parametrize("gaps", [(0, 5), (6, 5), (-1, -1)])
def test_gaps_that_are_no_corridor_are_refused(gaps: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="no corridor"):
        Corridor(*gaps)


def test_a_merge_behind_the_steps_holds_off_others_until_it_has_ended() -> None:
    learner = Learner()
    (order,) = learner.steps_to(20)
    learner.overlapped()
    assert learner.steps_to(45) == []
    learner.told("m1", 48)
    assert learner.last_reason == "merging"
    learner.finished(order)
    # The gap counts from where the merge was ordered: H_max has passed by 5 steps.
    (forced,) = learner.steps_to(46)
    assert forced.step == 46
    assert learner.said[-1][3].startswith("merging")
    learner.at_step(47, NOW_US)
    assert learner.last_reason == "abandoned"
